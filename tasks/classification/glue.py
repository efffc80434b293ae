"""GLUE in one command: runs all tasks, writes the table and the submission.

For each task, the program starts itself in a new process, with changed flags.
"""

import hashlib
import io
import os
import zipfile
from collections.abc import Mapping
from statistics import mean
from typing import NamedTuple

from absl import logging

from runs import model_files, training_program
from storage import UserError, files, textfiles
from tasks import metrics
from tasks.classification import named_tasks
from tasks.classification.named_tasks import Settings
from training import checkpoint_files, processes

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
_LENGTH = 8  # characters of a fingerprint
_UNTRAINED = "-"  # fingerprint of a task that was only evaluated


class Row(NamedTuple):
  """A row of the table: the score, and fingerprints of files (see _marks).

  In a table of an older version, the fingerprints are "".
  """

  score: float
  train: str = ""
  dev: str = ""
  test: str = ""


def parts(settings: Settings, level: int = logging.DEBUG) -> dict[str, dict]:
  """Returns {task: {flag: new value}}; --do_train leaves out complete tasks.

  Logs missing and complete tasks at `level`. If `level` is INFO, also warns of
  complete tasks whose flags or files have changed. Raises FileNotFoundError if
  no task has a folder, or if --from_mnli lacks MNLI's. Raises ValueError
  without --do_eval, or in a dry run without --do_train.
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
    written = _submissions(settings.output_dir, name, part.data_dir)
    rows = (row for key, row in values.items() if _is_of(key, name))
    row = next(rows, Row(0.0, _UNTRAINED))
    is_evaluated = row.train != _UNTRAINED
    marks = _marks(part, name) if is_evaluated else row[1:]
    test_changed = row.test not in ("", marks[2])
    has_all = all(map(files.exists, written))
    predicts = part.do_predict and (test_changed or not has_all)
    if settings.do_train:  # otherwise the task's run does what the flags say
      if is_evaluated and level == logging.INFO:
        changed = row.train and row[1:3] != marks[:2]
        _warn_of_changes(settings, part, name, changed)
      exported = part.export_dir and files.exists(part.export_dir)
      exports = part.do_export and not exported
      part = part.replace(do_train=not is_evaluated, do_export=exports)
      if not (part.do_train or predicts or exports):
        path = os.path.join(part.output_dir, "run.json")
        logging.log(level, "%s is complete, with the flags in %s", name, path)
        continue
    flags = {f: v for f, v in part.to_dict().items() if v != settings[f]}
    result[name] = {"task_name": name, **flags}
  return result


def _is_of(row, name):
  return row.split("-m")[0] == name


def _marks(part, name) -> tuple[str, ...]:
  """Fingerprints of the files of train, of dev and of test."""
  marks: dict[str, list[str]] = {"train": [], "dev": [], "test": []}
  for split, source in named_tasks.find(name).splits.items():
    path = os.path.join(part.needed("data_dir"), source.file)
    if files.exists(path):
      with files.open_for_reading(path) as file:
        digest = hashlib.sha256(file.read()).hexdigest()
      marks[split.partition("_")[0]].append(f"{split} {digest}")
  texts = (repr(each).encode() for each in marks.values())
  return tuple(hashlib.sha256(text).hexdigest()[:_LENGTH] for text in texts)


def _warn_of_changes(settings, part, name, files_changed):
  trained = part.replace(task_name=name)
  if settings.from_mnli and name in _FROM_MNLI:
    # The folder of MNLI's model may have moved.
    path = checkpoint_files.flag_of(part.output_dir, "init_checkpoint")
    trained = trained.replace(init_checkpoint=path, new_head=True)
  model_files.warn_if_changed(trained, part.output_dir)
  if files_changed:
    text = "%s was trained or evaluated with other files than %s has now; to "
    text += "train anew, name another --output_dir"
    logging.warning(text, part.output_dir, part.data_dir)
  if part.is_sweep:
    known = {t["run"] for t in model_files.read_table(part.output_dir)}
    if not known.issuperset(part.named_trials()):
      text = "%s is complete without trials for some of the settings or seeds; "
      text += "to train them, name another --output_dir"
      logging.warning(text, part.output_dir)


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
    train, dev, test = _marks(part, name)
    training_program.rerun(settings, name, changes)
    for row, (metric, *_) in _ROWS.items() if writes else ():
      suffix = "_mismatched" if row == "MNLI-mm" else ""
      path = os.path.join(part.output_dir, f"eval_results{suffix}.txt")
      if _is_of(row, name) and files.exists(path):
        lines = (line.split(" = ") for line in textfiles.lines(path))
        score = 100 * float(dict(lines)[f"eval_{metric}"])
        old = values.get(row, Row(score, _UNTRAINED))
        marks = train, dev
        if not part.do_train:
          marks = old.train, old.dev and dev
        last = test if part.do_predict else old.test
        values[row] = Row(score, *marks, last)
    if writes:
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
  """Reads the rows of the table by name; older tables lack fingerprints."""
  result = {}
  for row in model_files.read_table(output_dir, TABLE):
    if row["task"] in _ROWS:
      both = row.get("files", "")
      marks = both[:_LENGTH], both[_LENGTH:], row.get("test_files", "")
      result[row["task"]] = Row(float(row["dev"]), *marks)
  return result


def _write(output_dir, values: Mapping[str, Row]):
  """Writes and logs the table; its last row averages the paper's tasks."""
  header = ("task", "metric", "dev", "paper_base", "paper_large")
  table: list[tuple[str, ...]] = [(*header, "files", "test_files")]
  numbers = []
  for name, (metric, *paper) in _ROWS.items():
    if name in values:
      score, train, dev, test = values[name]
      row = [score, *paper]
      cells = ["" if x is None else f"{x:.2f}" for x in row]
      table.append((name, metric, *cells, train + dev, test))
      if None not in paper:
        numbers.append(row)
  if numbers:
    means = [f"{mean(column):.2f}" for column in zip(*numbers, strict=True)]
    table.append(("average", "", *means, "", ""))
  for row in table:
    logging.info("%-8s %-21s %6s %11s %11s", *row[:5])
  metrics.write_table(os.path.join(output_dir, TABLE), table)
