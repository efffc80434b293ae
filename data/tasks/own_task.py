"""Files of one's own as a task: train, dev and test as .tsv, .csv or .jsonl."""

import os
from dataclasses import replace

from data import files
from data.tasks import labels, tables
from data.tasks.text_task import Split, Task

NAME = "tsv"
EXTENSIONS = (".tsv", ".csv", ".jsonl")


def task(
  data_dir: str | None,
  text_a: str = "text",
  text_b: str | None = None,
  label: str = "label",
  is_regression: bool = False,
) -> Task:
  """Makes a task of the files train, dev and test of a folder, if there.

  Args:
    data_dir: the folder; None if no file is to be read.
    text_a: column of the text.
    text_b: column of a second text, if there are two.
    label: column of the label; not looked at in the test file.
    is_regression: whether labels are scores.

  Returns:
    A task without labels yet, unless they are scores; see `with_labels`.

  Raises:
    FileNotFoundError: there is no such file.
    ValueError: there are two of them, such as dev.tsv and dev.csv.
  """
  splits = {} if data_dir else {"test": Split("", text_a, text_b)}
  for name in ("train", "dev", "test"):
    for file in _present(data_dir, name) if data_dir else ():
      known = None if name == "test" else label
      splits[name] = Split(file, text_a, text_b, known)
  if not splits:
    raise FileNotFoundError(
      f"{data_dir} has no file train, dev or test with the extension "
      f"{', '.join(EXTENSIONS)}"
    )
  metrics = ("pearson", "spearman") if is_regression else ("accuracy",)
  return Task(NAME, splits, None if is_regression else (), metrics)


def _present(data_dir, name):
  found = [
    name + extension
    for extension in EXTENSIONS
    if files.exists(os.path.join(data_dir, name + extension))
  ]
  if len(found) > 1:
    raise ValueError(f"{data_dir} has {' and '.join(found)}; remove one")
  return found


def with_labels(task: Task, data_dir: str | None, output_dir: str) -> Task:
  """Gives a task its labels: labels.txt of output_dir, or the training file's.

  Those found in the training file are sorted as `labels.in_order` says. Nothing
  is written; see `keep_labels`.

  Args:
    task: as made by `task`.
    data_dir: its folder.
    output_dir: the model's folder.

  Returns:
    The task with its labels.

  Raises:
    FileNotFoundError: there is neither labels.txt nor a training file.
    ValueError: the training file cannot be read as a table, or has one label
      only.
  """
  if task.is_regression:
    return task
  if labels.exist(output_dir):
    found = labels.load(output_dir)
  elif "train" in task.splits:
    found = _found(task.splits["train"], data_dir)
  else:
    raise FileNotFoundError(
      f"what are the labels? {output_dir} has no {labels.FILE_NAME}, which "
      f"training leaves there, and {data_dir} no training file to find them in"
    )
  # With two classes the second is the positive one.
  metrics = task.metrics + (("f1",) if len(found) == 2 else ())
  return replace(task, labels=found, metrics=metrics)


def keep_labels(task: Task, output_dir: str) -> None:
  """Leaves labels.txt, so that who predicts needs no training file.

  To be called once all files have been read well. A task whose labels are
  known, or scores, leaves nothing.

  Args:
    task: any.
    output_dir: the model's folder.
  """
  if task.name == NAME and task.labels:
    labels.keep(task.labels, output_dir)


def _found(split, data_dir):
  path = os.path.join(data_dir, split.file)
  found = set()
  for row in tables.read(path, split.columns):
    label = row.values[split.label]
    if not label.strip():
      raise ValueError(f"{path}, line {row.line}: {split.label} is blank")
    found.add(label)
  if len(found) < 2:
    raise ValueError(
      f"{path}: every {split.label} is {found.pop()!r}; there is nothing to "
      "learn"
    )
  return labels.in_order(found)
