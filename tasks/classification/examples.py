"""Classification tasks: files -> examples -> the original's records."""

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from data import labels, tables
from data.features import Row, RowEncoder
from data.vocab import Tokenizer
from storage import UserError, files

ALL_COLUMNS = ("all",)
BALANCED = "balanced"


class TextExample(NamedTuple):
  """One or two texts and their label."""

  guid: str  # name, such as "dev-7"
  text_a: str
  text_b: str | None = None
  # A class, a tuple of classes, or the text of a score; None if unknown.
  label: str | tuple[str, ...] | None = None
  columns: Mapping[str, str] | None = None  # columns for the prediction file


@dataclass(frozen=True)
class Split:
  """A file of a task and the columns to read."""

  file: str  # path within the task's folder
  text_a: str  # column of the first text
  text_b: str | None = None  # column of the second text
  label: str | None = None  # column of labels; None if there are no real labels
  header: tuple[str, ...] | None = None  # columns of a file without a header
  language: str | None = None  # only rows with this value of column language
  prefix: str | None = None  # first part of guids; None: the split's name
  guid: str | None = None  # column of a guid's last part; None: a row's number
  submission: str | None = None  # name of the prediction file for GLUE's site

  @property
  def columns(self) -> tuple[str, ...]:
    language = self.language and "language"
    names = (self.text_a, self.text_b, self.label, self.guid, language)
    return tuple(name for name in names if name is not None)


@dataclass(frozen=True)
class ClassificationTask:
  """Classification or regression of texts or text pairs."""

  name: str  # in the spelling of the data's authors
  splits: Mapping[str, Split]  # "train", "dev", "dev_mismatched", ...
  labels: tuple[str, ...] = ()  # in the order of logits; () for a regression
  metrics: tuple[str, ...] = ("accuracy",)  # names for tasks.metrics.score
  label_aliases: dict[str, str] = field(default_factory=dict)  # in files
  is_regression: bool = False  # labels are scores
  skip_broken: bool = False  # the official training file has incomplete rows
  multi_label: bool = False  # a text has any number of the labels
  # With multi_label: for each label, the probability from which a text has it.
  thresholds: tuple[float, ...] = ()
  dialect: tables.Dialect | None = None  # delimiter, encoding of users' tables

  @property
  def has_pairs(self) -> bool:
    return any(split.text_b is not None for split in self.splits.values())

  @cached_property
  def spellings(self) -> dict[str, str]:
    """Maps labels, and other spellings in the files, to labels."""
    own = {labels.plain(x): x for x in self.labels} if self.dialect else {}
    return own | {x: x for x in self.labels} | self.label_aliases


def find_file(task: ClassificationTask, data_dir: str, split: str) -> str:
  """Path of a split's file; FileNotFoundError or ValueError if none exists."""
  layout = ", ".join(f"{s.file} ({name})" for name, s in task.splits.items())
  if split not in task.splits:
    raise UserError(
      f"{task.name} has no {split} data in {data_dir}; its files are {layout}: "
      "add one, or drop the flag that asks for it"
    )
  path = os.path.join(data_dir, task.splits[split].file)
  if not files.exists(path):
    raise FileNotFoundError(
      f"{path} is missing; {task.name} has these files in --data_dir: {layout}"
    )
  return path


def read_examples(
  task: ClassificationTask,
  data_dir: str,
  split: str,
  copied_columns: Sequence[str] = (),
) -> list[TextExample]:
  """Reads the examples of a split, in the order of the file.

  `copied_columns` go to an example's `columns`; ALL_COLUMNS copies all. Raises
  FileNotFoundError, or ValueError with file, line and remedy.
  """
  path, source = find_file(task, data_dir, split), task.splits[split]
  # A file without labels loses no row: each needs a prediction.
  skip_broken = task.skip_broken and source.label is not None
  layout = source.columns, source.header, skip_broken, task.dialect
  texts = source.text_a, source.text_b
  rows = list(tables.read_table(path, *layout, texts.__contains__))
  if source.language:
    rows = [row for row in rows if row.values["language"] == source.language]
    if not rows:
      raise UserError(f"{path} has no row with language {source.language}")
  present = dict.fromkeys(name for row in rows for name in row.values)
  if tuple(copied_columns) == ALL_COLUMNS:
    copied_columns = list(present)
  for name in copied_columns:
    if name not in present:
      raise UserError(
        f"{path} has no column {name!r} of --prediction_columns; there are "
        f"{', '.join(map(repr, present))}"
      )
  examples = []
  for row in rows:
    number = row.values[source.guid] if source.guid else row.number
    copied = {k: row.values[k] for k in copied_columns if k in row.values}
    example = TextExample(
      f"{source.prefix or split}-{number}",
      row.values[source.text_a],
      row.values[source.text_b] if source.text_b else None,
      _label(task, source.label, row, path),
      copied if copied_columns else None,
    )
    examples.append(example)
  return examples


def _label(task, column, row, path):
  """Reads a label or score; None without a column of labels."""
  if column is None:
    return None
  label = row.values[column].strip()
  where = f"{path}, line {row.line}, column {column}"
  if task.is_regression:
    if not is_number(label):
      raise UserError(
        f"{where}: {label!r} is not a number, and thus no score; write "
        "numbers as in 4.5"
      )
    return label
  if not task.multi_label:
    return _find_label(task, label, where)
  names = labels.split(label, where)
  return tuple(_find_label(task, name, where) for name in names)


def _find_label(task, name, where):
  plain = labels.plain(name) if task.dialect else name
  label = task.spellings.get(name, task.spellings.get(plain))
  if label is None:
    raise UserError(
      f"{where}: {name!r} is not a label of --task_name={task.name}; its "
      f"labels are {labels.known_labels(task.labels)}"
    )
  return label


def is_number(text: str) -> bool:
  """True for the text of a finite number."""
  try:
    return math.isfinite(float(text))
  except ValueError:
    return False


def class_weights(
  setting: Sequence[str], task: ClassificationTask
) -> dict[str, float]:
  """Parses --class_weights into {label: weight}; {} for BALANCED."""
  if setting and task.is_regression:
    raise UserError(f"--class_weights: {task.name} has scores, not labels")
  if list(setting) == [BALANCED]:
    return {}
  weights = {}
  for part in setting:
    label, _, weight = part.rpartition("=")
    if not label or not is_number(weight) or float(weight) <= 0:
      raise UserError(
        f"--class_weights: {part!r} is not label=weight with a positive weight"
        f"; give {BALANCED}, or parts such as rare=5,frequent=0.5"
      )
    if task.labels:
      label = _find_label(task, label, "--class_weights")
    weights[label] = float(weight)
  return weights


class TextRecordBuilder(RowEncoder):
  """Makes records of one or two texts; see features.classification.

  `labels` are the classes in the order of the ids, or () for scores. An example
  without a label gets id 0. A call with None makes a padding record of zeros.
  """

  def __init__(
    self,
    tokenizer: Tokenizer,
    seq_length: int,
    labels: Sequence[str],
    multi_label: bool = False,
  ):
    super().__init__(tokenizer, seq_length)
    self._multi_label = multi_label
    self._label_ids = {label: i for i, label in enumerate(labels)}

  def __call__(
    self, example: TextExample | None
  ) -> tuple[dict[str, list], list[int]]:
    """Returns a record's fields, and [number of tokens before truncation]."""
    row, label, lengths = Row([], [], 0), None, []
    if example:
      row, label = self.encode(example.text_a, example.text_b), example.label
      lengths = [row.length]
    fields: dict[str, list] = {
      "label_ids": encode_label(label, self._label_ids, self._multi_label),
      "is_real_example": [len(lengths)],
    }
    return fields | self.inputs(row.ids, row.segments), lengths


def encode_label(
  label: Any, ids: Mapping[str, int], multi_label: bool
) -> list[float]:
  """Returns [id], [score], or a 0 or 1 for each class; 0 without a label."""
  if multi_label:
    return [int(name in (label or ())) for name in ids]
  if label is None:
    return [0]
  return [ids[label] if ids else float(label)]
