"""Progress line, TensorBoard summaries and result files of a run."""

import os
import time
from collections.abc import Mapping

import numpy as np
import tensorflow as tf
from absl import logging

from training import metrics_log, worker_role

_SECONDS_BETWEEN_LINES = 10.0


class Report:
  """Progress of one training run, in the log and in TensorBoard.

  `unit` is the name of an example; `logged_metrics` are in the progress line.
  """

  def __init__(
    self,
    directory: str,
    examples_per_step: int,
    unit: str = "examples",
    logged_metrics: tuple[str, ...] = ("loss",),
  ):
    self._directory = directory
    self._writer = _writer(directory)
    self._batch_size = examples_per_step
    self._unit = unit
    self._logged_metrics = logged_metrics

  def begin(self, step: int, last: int) -> None:
    """Begins a run from `step` to `last`."""
    self._step, self._last = step, last
    metrics_log.forget_after(self._directory, step)
    self._sums = {}  # name -> sum over the steps since the last line
    self._steps = 0
    self._steps_timed, self._seconds = 0, 0.0
    self._is_compiled = False
    self.restart_clock()

  def add_text(self, name: str, text: str) -> None:
    """Adds a text to TensorBoard."""
    with self._writer.as_default(step=0):
      tf.summary.text(name, f"```\n{text}\n```")

  def restart_clock(self) -> None:
    """Excludes the time since the last step from the speed."""
    self._clock = time.monotonic()
    self._next = self._clock + _SECONDS_BETWEEN_LINES

  def add_steps(
    self, step: int, number: int, means: Mapping[str, float]
  ) -> None:
    """Adds the mean metrics of `number` steps that end at `step`."""
    now = time.monotonic()
    rate = number / max(now - self._clock, 1e-9)
    if self._is_compiled:
      self._steps_timed += number
      self._seconds += now - self._clock
    self._is_compiled = True
    self._clock = now
    self._step = step
    for name, mean in means.items():
      self._sums[name] = self._sums.get(name, 0.0) + mean * number
    self._steps += number
    with self._writer.as_default(step=step):
      for name, mean in means.items():
        tf.summary.scalar(name, mean)
      tf.summary.scalar(f"{self._unit}_per_second", rate * self._batch_size)
    if now >= self._next:
      self.log()

  def log(self) -> None:
    """Logs a line about the steps since the last one."""
    if not self._steps:
      return
    means = {name: value / self._steps for name, value in self._sums.items()}
    parts = [f"step {self._step:,} of {self._last:,}"]
    parts += [f"{name} {means[name]:.4f}" for name in self._logged_metrics]
    if self._steps_timed:
      speed = self._steps_timed / self._seconds
      means[f"{self._unit}_per_second"] = speed * self._batch_size
      parts.append(f"{speed * self._batch_size:,.1f} {self._unit}/s")
      remaining = (self._last - self._step) / speed
      parts.append(f"{duration(remaining)} left" if remaining else "done")
    logging.info("%s", ", ".join(parts))
    metrics_log.add(self._directory, self._step, means)
    self._sums, self._steps = {}, 0
    self._next = time.monotonic() + _SECONDS_BETWEEN_LINES

  def end(self) -> None:
    """Logs the last steps and flushes the summaries."""
    self.log()
    self._writer.flush()


def duration(seconds: float) -> str:
  """Seconds as h:mm:ss."""
  minutes, seconds = divmod(round(seconds), 60)
  hours, minutes = divmod(minutes, 60)
  return f"{hours}:{minutes:02}:{seconds:02}"


def write_evaluation(
  folder: str, results: Mapping[str, float], step: int, suffix: str = ""
) -> None:
  """Writes eval_results.txt, and adds to metrics.jsonl and TensorBoard.

  `suffix` is added to the names of file and metrics.
  """
  prefix = os.path.join(folder, "eval")
  write_results(f"{prefix}_results{suffix}.txt", results, step)
  write_summaries(prefix + suffix, results, step)
  metrics_log.add(folder, step, {k + suffix: v for k, v in results.items()})


def write_results(path: str, results: Mapping[str, float], step: int) -> None:
  """Writes lines `name = value`, sorted by name, as the original.

  Values have the digits of a float32; `step` is `global_step`.
  """
  values = {name: np.float32(value) for name, value in results.items()}
  lines = sorted((values | {"global_step": step}).items())
  for name, value in lines:
    logging.info("  %s = %s", name, value)
  if worker_role.is_chief():
    tf.io.gfile.makedirs(os.path.dirname(path))
    with tf.io.gfile.GFile(path, "w") as file:
      file.write("".join(f"{name} = {value!s}\n" for name, value in lines))


def _writer(directory):
  if worker_role.is_chief():
    return tf.summary.create_file_writer(directory)
  return tf.summary.create_noop_writer()


def write_summaries(
  directory: str, results: Mapping[str, float], step: int
) -> None:
  """Adds results of an evaluation to TensorBoard."""
  with _writer(directory).as_default(step=step):
    for name, value in results.items():
      tf.summary.scalar(name, value)
