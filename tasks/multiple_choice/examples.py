"""Settings of run_swag.py, and its data: SWAG's tables -> examples -> records.

Columns are sent1, sent2, ending0, ending1, ... and label, the number of the
correct ending. A record has a text pair for each ending: sent1, then sent2 with
the ending (section 4.4 of the paper).
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

from cli.settings import common
from data import labels, tables
from data.features import Row, RowEncoder
from runs.settings import Packing, data_path
from runs.task_settings import EvaluatedFineTuning, Tables, workers
from storage import UserError


@dataclass(frozen=True, kw_only=True)
class Settings(Tables, EvaluatedFineTuning, Packing):
  """Flags of run_swag.py."""

  train_file: str | None = data_path("Table to train on.")
  dev_file: str | None = data_path("Table to evaluate on.")
  test_file: str | None = data_path("Table to predict; labels are optional.")
  max_seq_length: int = common(128, "Maximum tokens of a choice.", minimum=5)
  num_workers: int = workers()


class ChoiceExample(NamedTuple):
  """Context, start of the next sentence, endings, index of the right ending."""

  sent1: str
  sent2: str
  endings: tuple[str, ...]
  label: int | None = None


def read_examples(
  path: str, has_labels: bool = True, dialect: tables.Dialect = tables.OWN
) -> list[ChoiceExample]:
  """Reads a .csv, .tsv or .jsonl file.

  Unless `has_labels` is true, ignores the column `label`. Raises OSError, or
  ValueError with file, line and remedy.
  """
  examples: list[ChoiceExample] = []
  columns = ["sent1", "sent2", "ending0", "ending1", *["label"] * has_labels]
  is_text = re.compile("ending|sent1").match
  for row in tables.read_table(path, columns, None, False, dialect, is_text):
    where = f"{path}, line {row.line}"
    count = sum(bool(re.fullmatch(r"ending\d+", name)) for name in row.values)
    names = [f"ending{i}" for i in range(count)]
    if missing := [name for name in names if name not in row.values]:
      raise UserError(f"{where}: {missing[0]} is missing")
    endings = [row.values[name] for name in names]
    if examples and len(endings) != len(examples[0].endings):
      raise UserError(
        f"{where}: {len(endings)} endings, but the rows before have "
        f"{len(examples[0].endings)}"
      )
    label = None
    if has_labels:
      text = labels.plain(row.values["label"].strip())
      if text not in map(str, range(len(endings))):
        raise UserError(
          f"{where}: the label is {text!r}, expected a number from 0 to "
          f"{len(endings) - 1}"
        )
      label = int(text)
    sent1, sent2 = row.values["sent1"], row.values["sent2"]
    examples.append(ChoiceExample(sent1, sent2, tuple(endings), label))
  if has_labels:
    labels.log_labels(path, (str(example.label) for example in examples))
  return examples


class ChoiceRecordBuilder(RowEncoder):
  """Builds rows [CLS] sent1 [SEP] sent2 ending [SEP]; label 0 if unknown."""

  def __call__(
    self, example: ChoiceExample
  ) -> tuple[dict[str, list[int]], list[int]]:
    """Returns the fields of a record, and the length of each row."""
    choices = self.choices(example.sent1, example.sent2, example.endings)
    rows = [self.inputs(row.ids, row.segments) for row in choices]
    inputs = {
      name: list(chain.from_iterable(row[name] for row in rows))
      for name in rows[0]
    }
    label = {"label_ids": [example.label or 0], "is_real_example": [1]}
    return inputs | label, [row.length for row in choices]

  def choices(
    self, sent1: str, sent2: str, endings: Iterable[str]
  ) -> list[Row]:
    texts = (f"{sent2} {ending}" for ending in endings)
    return [self.encode(sent1, text, keep_empty=True) for text in texts]
