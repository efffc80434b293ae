"""GLUE in one command: runs all tasks, writes the table and the submission.

For each task, the program starts itself in a new process, with changed flags.
"""

import io
import os
import zipfile
from collections.abc import Mapping
from statistics import mean
from typing import NamedTuple

from absl import logging

from runs import model_files, training_program
from storage import UserError, files, processes, textfiles
from tasks import metrics
from tasks.classification import named_tasks
from tasks.classification.named_tasks import Settings

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
_TASKS = ("MNLI", *list(_ROWS)[2:])


class Row(NamedTuple):
  """A row of the table; a task may be evaluated without a training."""

  score: float
  is_trained: bool


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
  folder = settings.data_dir or ""
  present = [n for n in _TASKS if files.is_folder(os.path.join(folder, n))]
  if not present or (settings.from_mnli and "MNLI" not in present):
    raise FileNotFoundError(
      f"--data_dir={settings.data_dir} has no folder "
      f"{'MNLI, for --from_mnli' if present else ', '.join(_TASKS)}"
    )
  if absent := sorted(set(_TASKS) - set(present)):
    logging.log(level, "not in %s: %s", folder, ", ".join(absent))
  values = _read(settings.output_dir)
  result = {}
  for name in present:
    part = _part(settings, name, level)
    if settings.do_train:  # otherwise the task's run does what the flags say
      rows = [values[row] for row in _rows_of(name) if row in values]
      is_trained = any(row.is_trained for row in rows)
      exported = part.export_dir and files.exists(part.export_dir)
      exports = part.do_export and not exported
      part = part.replace(do_train=not is_trained, do_export=exports)
      written = _submissions(settings.output_dir, name, part.data_dir)
      predicts = part.do_predict and not all(map(files.exists, written))
      if not (part.do_train or predicts or exports):
        text = "%s is complete; to train it anew, name another --output_dir"
        logging.log(level, text, name)
        continue
    flags = {f: v for f, v in part.to_dict().items() if v != settings[f]}
    result[name] = {"task_name": name, **flags}
  return result


def _rows_of(name):
  return [row for row in _ROWS if row.split("-m")[0] == name]


def _part(settings: Settings, name, level):
  """Settings of a task's run, which predicts only if there is a test file."""
  flags = "data_dir", "output_dir", "export_dir", "teacher"
  folders = {x: os.path.join(settings[x], name) for x in flags if settings[x]}
  part = settings.replace(from_mnli=False, **folders)
  test_file = named_tasks.find(name).splits["test"].file
  path = os.path.join(part.needed("data_dir"), test_file)
  if settings.do_predict and not files.exists(path):
    message = "%s is not there: %s is not predicted"
    logging.log(level, message, path, name)
    part = part.replace(do_predict=False)
  return part


def _submissions(output_dir, name, data_dir=None):
  """Paths of a task's files for GLUE's site.

  With `data_dir`, leaves out the paths for test files that `data_dir` lacks.
  """
  return [
    os.path.join(output_dir, name, split.submission)
    for split in named_tasks.find(name).splits.values()
    if split.submission
    and (not data_dir or files.exists(os.path.join(data_dir, split.file)))
  ]


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
  if any(flags.get("do_train", settings.do_train) for flags in runs.values()):
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
    for row in _rows_of(name):
      suffix = "_mismatched" if row == "MNLI-mm" else ""
      path = os.path.join(part.output_dir, f"eval_results{suffix}.txt")
      if files.exists(path):
        lines = (line.split(" = ") for line in textfiles.lines(path))
        score = 100 * float(dict(lines)[f"eval_{_ROWS[row][0]}"])
        was_trained = row in values and values[row].is_trained
        values[row] = Row(score, part.do_train or was_trained)
    _write(settings.output_dir, values)
  if settings.do_predict and writes:
    _write_submission(settings.output_dir)


def _write_submission(folder):
  paths = [p for name in _TASKS for p in _submissions(folder, name)]
  absent = [os.path.basename(p) for p in paths if not files.exists(p)]
  content = io.BytesIO()
  with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
    for path in filter(files.exists, paths):
      archive.writestr(os.path.basename(path), files.read_text(path))
  target = os.path.join(folder, SUBMISSION)
  with files.open_for_writing(target) as file:
    file.write(content.getvalue())
  logging.info("wrote %s, without: %s", target, ", ".join(absent) or "none")


def _read(output_dir) -> dict[str, Row]:
  """Reads the rows of the table by name."""
  return {
    row["task"]: Row(float(row["dev"]), row["trained"] == "yes")
    for row in model_files.read_table(output_dir, TABLE)
    if row["task"] in _ROWS
  }


def _write(output_dir, values: Mapping[str, Row]):
  """Writes and logs the table; its last row averages the paper's tasks."""
  header = ("task", "metric", "dev", "paper_base", "paper_large", "trained")
  table: list[tuple[str, ...]] = [header]
  numbers = []
  for name, (metric, *paper) in _ROWS.items():
    if name in values:
      row = [values[name].score, *paper]
      cells = ["" if x is None else f"{x:.2f}" for x in row]
      trained = "yes" if values[name].is_trained else "no"
      table.append((name, metric, *cells, trained))
      if None not in paper:
        numbers.append(row)
  if numbers:
    means = [f"{mean(column):.2f}" for column in zip(*numbers, strict=True)]
    table.append(("average", "", *means, ""))
  for row in table:
    logging.info("%-8s %-21s %6s %11s %11s", *row[:5])
  metrics.write_table(os.path.join(output_dir, TABLE), table)
