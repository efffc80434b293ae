"""What a task of classifying texts is, as data: files, columns and labels."""

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass

from data import files
from data.tasks import tables
from data.tasks.classification import Example


@dataclass(frozen=True)
class Split:
  """A file of a task, and where it holds what.

  Attributes:
    file: path within the task's folder.
    text_a: column of the first text.
    text_b: column of the second text; None if there is one text only.
    label: column of the label; None if there is none, or dummies.
    header: names of the columns where the file does not say them.
    language: column and value of the rows that count; None for all rows.
    prefix: begins the guids; None for the split's name.
    guid: column that ends the guids; None for the number of the line, from 0.
    submission: name of the file that the GLUE server takes for it.
  """

  file: str
  text_a: str
  text_b: str | None = None
  label: str | None = None
  header: tuple[str, ...] | None = None
  language: tuple[str, str] | None = None
  prefix: str | None = None
  guid: str | None = None
  submission: str | None = None

  @property
  def columns(self) -> tuple[str, ...]:
    """Those that are read."""
    language = self.language and self.language[0]
    wanted = (self.text_a, self.text_b, self.label, self.guid, language)
    return tuple(column for column in wanted if column is not None)


@dataclass(frozen=True)
class Task:
  """A task of classifying one or two texts, or of giving them a score.

  Attributes:
    name: as its authors write it.
    splits: by name; "train", "dev" and "test" as far as they exist, and
      "dev_mismatched" and the like.
    labels: the classes in the order of the model's logits; None if labels are
      scores.
    metrics: those that are usual for it; names of evaluation/metrics.py.
    spellings: labels under other names, and the name each has here.
    skip_broken: whether the official training data have rows cut in two.
  """

  name: str
  splits: Mapping[str, Split]
  labels: tuple[str, ...] | None
  metrics: tuple[str, ...]
  spellings: tuple[tuple[str, str], ...] = ()
  skip_broken: bool = False

  @property
  def has_pairs(self) -> bool:
    """Whether there are two texts."""
    return any(split.text_b is not None for split in self.splits.values())

  @property
  def is_regression(self) -> bool:
    """Whether labels are scores."""
    return self.labels is None

  @property
  def num_outputs(self) -> int:
    """How many a model of it has: one for each label, or a score."""
    return 1 if self.is_regression else len(self.labels)

  @property
  def layout(self) -> str:
    """The files that it has, as messages name them."""
    named = (f"{split.file} ({name})" for name, split in self.splits.items())
    return ", ".join(named)


def read(task: Task, data_dir: str, split: str) -> list[Example]:
  """Reads the examples of a split.

  Args:
    task: what to read.
    data_dir: the task's folder.
    split: name of the split.

  Returns:
    Examples in the order of the file.

  Raises:
    FileNotFoundError: the file is missing; says which files the task has.
    ValueError: the task has no such split, the file does not fit, or a label
      is none of the task's; names file, line and remedy.
  """
  part = _split(task, split)
  path = os.path.join(data_dir, part.file)
  if not files.exists(path):
    raise FileNotFoundError(
      f"{path} is missing; {task.name} has these files in --data_dir: "
      f"{task.layout}"
    )
  # Of a file without labels predictions are wanted, for each row one.
  skip_broken = task.skip_broken and part.label is not None
  rows = tables.read(path, part.columns, part.header, skip_broken)
  if part.language:
    rows = _in_language(rows, *part.language, path)
  return [_example(task, split, row, path) for row in rows]


def _in_language(rows, column, language, path):
  others = set()
  for row in rows:
    if row.values[column] == language:
      others = None
      yield row
    elif others is not None:
      others.add(row.values[column])
  if others:
    raise ValueError(
      f"{path} has no row with {column} {language}; there are "
      f"{', '.join(sorted(others))}"
    )


def _example(task, split, row, path):
  part = task.splits[split]
  ending = row.values[part.guid] if part.guid else row.line - 1
  return Example(
    f"{part.prefix or split}-{ending}",
    row.values[part.text_a],
    row.values[part.text_b] if part.text_b else None,
    _label(task, part, row, path),
  )


def _split(task, name):
  if name not in task.splits:
    raise ValueError(
      f"{task.name} has no {name} data; its files are {task.layout}"
    )
  return task.splits[name]


def _label(task, part, row, path):
  if part.label is None:
    return None
  label = row.values[part.label]
  where = f"{path}, line {row.line}, column {part.label}"
  if task.is_regression:
    if not _is_number(label):
      raise ValueError(
        f"{where}: {label!r} is no number, but scores have to be"
      )
    return label
  label = dict(task.spellings).get(label, label)
  if label not in task.labels:
    raise ValueError(
      f"{where}: {label!r} is no label of {task.name}; its labels are "
      f"{', '.join(task.labels)}"
    )
  return label


def _is_number(text: str) -> bool:
  try:
    return math.isfinite(float(text))
  except ValueError:
    return False
