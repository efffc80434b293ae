"""Progress line, curves and result files of a run.

A line of metrics.jsonl is a JSON object with `step` and numbers by name. Names
from an evaluation begin with eval_. Other numbers are means over the steps
since the line before, except the learning rate, which belongs to the line's
step, and the speed, which is a mean over all steps since the start.
"""

import functools
import json
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta

import numpy as np
import tensorflow as tf
from absl import logging

from storage import files, processes
from training import checkpoint_files
from training import step as steps

_SECONDS_BETWEEN_LINES = 10.0


@dataclass
class Report:
  """Progress of one training run: log, metrics.jsonl and TensorBoard."""

  directory: str
  examples_per_step: int
  unit: str = "examples"
  logged_metrics: tuple[str, ...] = ("loss",)

  def begin(self, step: int, last: int) -> None:
    self._step, self._last = step, last
    if processes.is_chief():  # removes lines of later steps and truncated lines
      rows = read_metrics(self.directory)
      lines = [json.dumps(row) + "\n" for row in rows if row["step"] <= step]
      path = os.path.join(self.directory, checkpoint_files.METRICS)
      files.write_text(path, "".join(lines))
    # Sums of values and weights since the last line, by metric.
    self._sums: dict[str, np.ndarray] = {}
    self._steps_timed = 0
    self._seconds = 0.0
    self._is_compiled = False
    self.restart_clock()

  def restart_clock(self) -> None:
    """Excludes the time since the last step from the speed."""
    self._clock = time.monotonic()
    self._next = self._clock + _SECONDS_BETWEEN_LINES

  def add_steps(self, step: int, number: int, sums: Mapping) -> None:
    """Adds `number` steps that end at `step`.

    `sums` are {name: [2]}, the sums of values and weights. If all steps were
    skipped, a metric has weight 0 and is left out.
    """
    sums = {name: pair for name, pair in sums.items() if pair[1]}
    now = time.monotonic()
    rate = number / max(now - self._clock, 1e-9)
    if self._is_compiled:
      self._steps_timed += number
      self._seconds += now - self._clock
    self._is_compiled = True
    self._clock = now
    self._step = step
    self._sums.pop("learning_rate", None)  # reports the last rate, not a mean
    for name, pair in sums.items():
      self._sums[name] = self._sums.get(name, np.zeros(2)) + pair
    speed = {f"{self.unit}_per_second": rate * self.examples_per_step}
    summarize(self.directory, steps.means(sums) | speed, step)
    if now >= self._next:
      self.log()

  def log(self) -> None:
    """Logs a line about the steps since the last line, if there were any."""
    if not self._sums:
      return
    means = steps.means(self._sums)
    parts = [f"step {self._step:,} of {self._last:,}"]
    logged = [name for name in self.logged_metrics if name in means]
    parts += [f"{name} {means[name]:.4f}" for name in logged]
    if self._steps_timed:
      speed = self._steps_timed / self._seconds
      means[f"{self.unit}_per_second"] = speed * self.examples_per_step
      parts.append(f"{speed * self.examples_per_step:,.1f} {self.unit}/s")
      left = timedelta(seconds=round((self._last - self._step) / speed))
      parts.append(f"{left} left" if self._step < self._last else "done")
    logging.info("%s", ", ".join(parts))
    add_metrics(self.directory, self._step, means)
    _writer(self.directory).flush()
    self._sums.clear()
    self._next = time.monotonic() + _SECONDS_BETWEEN_LINES


def write_evaluation(
  folder: str, results: Mapping[str, float], step: int, suffix: str = ""
) -> None:
  """Writes results to eval_results.txt, metrics.jsonl and TensorBoard.

  `suffix` is added to the names of files, metrics and curves.
  """
  prefix = os.path.join(folder, "eval")
  # Lines `name = value` with float32 digits, as the original writes them.
  values = {name: np.float32(value) for name, value in results.items()}
  text = ""
  for name, value in sorted((values | {"global_step": step}).items()):
    logging.info("  %s = %s", name, value)
    text += f"{name} = {value!s}\n"
  if processes.is_chief():
    files.write_text(f"{prefix}_results{suffix}.txt", text)
  summarize(prefix + suffix, results, step)
  _writer(prefix + suffix).flush()
  # In classification, `loss` is a mean over batches, and `eval_loss` over
  # examples. The curve shows `eval_loss`, which comes last.
  own = {k: v for k, v in results.items() if k.startswith("eval_")}
  named = {f"eval_{k}": v for k, v in results.items() if k not in own} | own
  add_metrics(folder, step, {k + suffix: v for k, v in named.items()})


@functools.lru_cache(maxsize=8)  # a second writer would begin a second file
def _writer(directory):
  if processes.is_chief():
    return tf.summary.create_file_writer(directory)
  return tf.summary.create_noop_writer()


def summarize(directory: str, values: Mapping, step: int) -> None:
  """Adds numbers and texts to the curves of TensorBoard."""
  with _writer(directory).as_default(step=step):
    for name, value in values.items():
      write = tf.summary.text if isinstance(value, str) else tf.summary.scalar
      write(name, value)


def add_metrics(folder: str, step: int, values: Mapping[str, float]) -> None:
  """Appends a line to metrics.jsonl if this process is the chief."""
  if not processes.is_chief():
    return
  numbers = {name: float(f"{float(v):.6g}") for name, v in values.items()}
  line = json.dumps({"step": step} | numbers)
  files.append_text(os.path.join(folder, checkpoint_files.METRICS), line + "\n")


def read_metrics(folder: str) -> list[dict[str, float]]:
  """Reads the complete lines of metrics.jsonl; [] without a file."""
  path = os.path.join(folder, checkpoint_files.METRICS)
  lines = files.read_text(path).splitlines() if files.exists(path) else []
  result = []
  for line in lines:
    with suppress(ValueError):  # a line that a full disk has cut off
      result.append(json.loads(line))
  return result


def last_evaluation(folder: str) -> int:
  """Step of the last evaluation in metrics.jsonl; 0 if there is none."""
  lines = read_metrics(folder)
  steps = [x["step"] for x in lines if any(k.startswith("eval_") for k in x)]
  return int(max(steps, default=0))


def draw_metrics(folder: str) -> None:
  """Draws training.png on the chief if matplotlib is there.

  Each metric has a panel with the curves of training and evaluation.
  """
  if not processes.is_chief():
    return
  panels: dict[str, dict[str, list]] = {}
  for line in read_metrics(folder):
    for name in [*line][1:]:
      curves = panels.setdefault(name.removeprefix("eval_"), {})
      curves.setdefault(name, []).append((line["step"], line[name]))
  if not panels:
    return
  try:
    from matplotlib.figure import Figure  # noqa: PLC0415, an extra
  except ImportError:
    return
  rows = -(-len(panels) // 2)
  figure = Figure(figsize=(9, 2.2 * rows), layout="tight")
  for number, (title, curves) in enumerate(panels.items(), 1):
    ax = figure.add_subplot(rows, 2, number)
    for name, points in curves.items():
      label = "training" if name == title else "evaluation"
      ax.plot(*zip(*points, strict=True), marker=".", label=label)
    ax.set_title(title, fontsize=9)
    ax.set_xlabel("step", fontsize=8)
    ax.grid(alpha=0.3)
    ax.legend(fontsize=8)
  with files.open_for_writing(os.path.join(folder, "training.png")) as file:
    figure.savefig(file, format="png", dpi=110)
