"""Task of the user's own files: train, dev and test as .tsv, .csv or .jsonl."""

import os
from dataclasses import replace
from functools import partial

from data import labels, tables
from storage import files
from tasks.classification.examples import ClassificationTask, Split

NAME = "tsv"
EXTENSIONS = (".tsv", ".csv", ".jsonl")


def make_task(
  data_dir: str | None,
  text_a: str = "text",
  text_b: str | None = None,
  label: str = "label",
  is_regression: bool = False,
) -> ClassificationTask:
  """Makes a task of those of the files train, dev and test that exist.

  Args:
    data_dir: their folder; None if no file will be read.
    text_a: column of the text.
    text_b: column of a second text.
    label: column of the label, ignored in the test file.
    is_regression: True if labels are scores.

  Returns:
    A task whose labels are not known yet, unless they are scores; see
    `with_labels`.

  Raises:
    FileNotFoundError: there is no such file.
    ValueError: a split has two files, such as dev.tsv and dev.csv.
  """
  splits = {} if data_dir else {"test": Split("", text_a, text_b)}
  for name in ("train", "dev", "test"):
    for file in _split_files(data_dir, name) if data_dir else ():
      label_column = None if name == "test" else label
      splits[name] = Split(file, text_a, text_b, label_column)
  if not splits:
    raise FileNotFoundError(
      f"{data_dir} has no file train, dev or test with the extension "
      f"{', '.join(EXTENSIONS)}"
    )
  metrics = ("pearson", "spearman") if is_regression else ("accuracy",)
  return ClassificationTask(
    NAME, splits, None if is_regression else (), metrics
  )


def _split_files(data_dir, name):
  result = [
    name + extension
    for extension in EXTENSIONS
    if files.exists(os.path.join(data_dir, name + extension))
  ]
  if len(result) > 1:
    raise ValueError(f"{data_dir} has {' and '.join(result)}; remove one")
  return result


def with_labels(
  task: ClassificationTask,
  data_dir: str | None,
  output_dir: str,
  checkpoint_labels: str | None = None,
  is_training: bool = True,
) -> ClassificationTask:
  """Adds the labels that labels.choose returns to a task of `make_task`.

  Labels of the training file are sorted by labels.in_order. Nothing is
  written; see `save_labels`. A task of scores is returned unchanged.

  Raises:
    FileNotFoundError: there is neither labels.txt nor a training file.
    ValueError: the training file is not a table or has a single label; or see
      labels.choose.
  """
  if task.is_regression:
    return task
  find = None
  if "train" in task.splits:
    find = partial(_training_labels, task.splits["train"], data_dir)
  result = labels.choose(output_dir, checkpoint_labels, find, is_training)
  # With two classes the second is the positive one.
  metrics = task.metrics + (("f1",) if len(result) == 2 else ())
  return replace(task, labels=result, metrics=metrics)


def save_labels(task: ClassificationTask, output_dir: str) -> None:
  """Writes labels.txt, so that prediction needs no training file.

  Call it after all files were read. Nothing is written for scores and for
  tasks of GLUE.
  """
  if task.name == NAME and task.labels:
    labels.keep(task.labels, output_dir)


def _training_labels(split, data_dir):
  path = os.path.join(data_dir, split.file)
  result = set()
  for row in tables.read_table(path, split.columns):
    label = row.values[split.label]
    if not label.strip():
      raise ValueError(f"{path}, line {row.line}: {split.label} is blank")
    result.add(label)
  if len(result) < 2:
    raise ValueError(
      f"{path}: every {split.label} is {result.pop()!r}; there is nothing to "
      "learn"
    )
  return labels.LabelSet(labels.in_order(result), path)
