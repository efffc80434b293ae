"""GLUE in one command: runs all tasks, writes the table and the submission.

For each task, the program starts itself in a new process, with changed flags.
"""

import io
import os
import zipfile
from collections.abc import Mapping
from statistics import mean
from typing import Any

from absl import logging

from runs import model_files, training_program
from storage import UserError, files, processes, textfiles
from tasks import metrics
from tasks.classification import named_tasks
from tasks.classification.named_tasks import Settings
from training import checkpoint_files

NAME = "GLUE"
TABLE = "glue.tsv"
SUBMISSION = "submission.zip"
_FROM_MNLI = ("RTE", "MRPC", "STS-B")
# The metric, and the paper's test results (table 1) for base and large models.
_ROWS = {
  "MNLI-m": ("accuracy", 84.6, 86.7),
  "MNLI-mm": ("accuracy", 83.4, 85.9),
  "QQP": ("f1", 71.2, 72.1),
  "QNLI": ("accuracy", 90.5, 92.7),
  "SST-2": ("accuracy", 93.5, 94.9),
  "CoLA": ("matthews_correlation", 52.1, 60.5),
  "STS-B": ("spearman", 85.8, 86.5),
  "MRPC": ("f1", 88.9, 89.3),
  "RTE": ("accuracy", 66.4, 70.1),
  "WNLI": ("accuracy", None, None),  # left out by the paper
}
# {task: its rows}
_TASKS = {"MNLI": ("MNLI-m", "MNLI-mm")} | {n: (n,) for n in list(_ROWS)[2:]}


def parts(settings: Settings, level: int = logging.DEBUG) -> dict[str, dict]:
  """Returns {task: {flag: new value}}; --do_train leaves out complete tasks.

  Logs missing and complete tasks at `level`. Raises FileNotFoundError if no
  task has a folder, or if --from_mnli lacks MNLI's. Raises ValueError without
  --do_eval, or in a dry run without --do_train.
  """
  if not settings.do_eval:
    raise UserError(f"--task_name={NAME} needs --do_eval, for its table")
  if settings.dry_run and not settings.do_train:
    text = f"--dry_run of --task_name={NAME} needs --do_train; or name one task"
    raise UserError(text)
  folder = settings.needed("data_dir")
  present = [n for n in _TASKS if files.is_folder(os.path.join(folder, n))]
  if not present or (settings.from_mnli and "MNLI" not in present):
    raise FileNotFoundError(
      f"--data_dir={folder} has no folder "
      f"{'MNLI, for --from_mnli' if present else ', '.join(_TASKS)}"
    )
  if absent := sorted(set(_TASKS) - set(present)):
    logging.log(level, "not in %s: %s", folder, ", ".join(absent))
  values = _read(settings.output_dir)
  result = {}
  for name in present:
    if settings.do_train and not values.keys().isdisjoint(_TASKS[name]):
      remedy = "to predict or export it again, leave out --do_train; to train "
      remedy += "it anew, name another --output_dir"
      own = os.path.join(settings.output_dir, name)
      if not checkpoint_files.choose_checkpoint(own):
        remedy = f"its model is gone; to train it again, remove it from {TABLE}"
      logging.log(level, "%s is complete; %s", name, remedy)
      continue
    flags = "data_dir", "output_dir", "export_dir", "teacher"
    part: dict[str, Any] = {"from_mnli": False}
    part |= {x: os.path.join(settings[x], name) for x in flags if settings[x]}
    test_file = named_tasks.find(name).splits["test"].file
    if not files.exists(os.path.join(part["data_dir"], test_file)):
      part["do_predict"] = False
    changes = {f: v for f, v in part.items() if v != settings[f]}
    result[name] = {"task_name": name} | changes
  return result


def run(settings: Settings) -> None:
  """Runs each task of `parts`; the chief writes the table and submission."""
  if settings.do_train:
    # All tasks have the same seed.
    seed = 1 if settings.seed is None else settings.seed
    command = *settings.command, f"--seed={seed}"
    settings = settings.replace(seed=seed, command=command)
  values = _read(settings.output_dir)
  runs = parts(settings, logging.INFO)
  writes = processes.is_chief() and not settings.dry_run
  if settings.do_train and runs:
    model_files.save_command(settings, settings.seed or 0)
  for name, flags in runs.items():
    part = settings.replace(**flags)
    # A dry run of MNLI saves no model.
    if settings.from_mnli and name in _FROM_MNLI and not settings.dry_run:
      mnli = os.path.join(settings.output_dir, "MNLI")
      flags |= {"init_checkpoint": mnli, "new_head": True}
    changes = [f"--{flag}={value}" for flag, value in flags.items()]
    training_program.rerun(settings, name, changes)
    if not writes:
      continue
    for row in _TASKS[name]:
      suffix = "_mismatched" if row == "MNLI-mm" else ""
      path = os.path.join(part.output_dir, f"eval_results{suffix}.txt")
      # A row shows that its task is complete, so only a training makes a row.
      if (settings.do_train or row in values) and files.exists(path):
        lines = (line.split(" = ") for line in textfiles.lines(path))
        values[row] = 100 * float(dict(lines)[f"eval_{_ROWS[row][0]}"])
    _write(settings.output_dir, values)
  if settings.do_predict and writes:
    _write_submission(settings.output_dir)


def _write_submission(folder):
  paths = [
    os.path.join(folder, name, split.submission)
    for name in _TASKS
    for split in named_tasks.find(name).splits.values()
    if split.submission
  ]
  absent = [os.path.basename(p) for p in paths if not files.exists(p)]
  content = io.BytesIO()
  with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
    for path in filter(files.exists, paths):
      archive.writestr(os.path.basename(path), files.read_text(path))
  target = os.path.join(folder, SUBMISSION)
  with files.open_for_writing(target) as file:
    file.write(content.getvalue())
  logging.info("wrote %s, without: %s", target, ", ".join(absent) or "none")


def _read(output_dir) -> dict[str, float]:
  """Reads the scores of the table by row."""
  return {
    row["task"]: float(row["dev"])
    for row in model_files.read_table(output_dir, TABLE)
    if row["task"] in _ROWS
  }


def _write(output_dir, values: Mapping[str, float]):
  """Writes and logs the table; its last row averages the paper's tasks."""
  header = ("task", "metric", "dev", "paper_base", "paper_large")
  table: list[tuple[str, ...]] = [header]
  numbers = []
  for name, (metric, *paper) in _ROWS.items():
    if name in values:
      row = [values[name], *paper]
      cells = ["" if x is None else f"{x:.2f}" for x in row]
      table.append((name, metric, *cells))
      if None not in paper:
        numbers.append(row)
  if numbers:
    means = [f"{mean(column):.2f}" for column in zip(*numbers, strict=True)]
    table.append(("average", "", *means))
  for row in table:
    logging.info("%-8s %-21s %6s %11s %11s", *row)
  metrics.write_table(os.path.join(output_dir, TABLE), table)
