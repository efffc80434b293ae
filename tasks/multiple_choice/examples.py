"""Tables of sentences with several endings, such as SWAG.

A table has the columns sent1, sent2, ending0, ending1, ... and label, the
number of the correct ending; other columns are ignored.

Legend: C choices.
"""

from itertools import count, takewhile
from typing import NamedTuple

from data import summaries, tables


class ChoiceExample(NamedTuple):
  """A context with C endings.

  Attributes:
    sent1: the context.
    sent2: beginning of the next sentence; may be empty.
    endings: C continuations of sent2.
    label: number of the correct ending; None if it is unknown.
  """

  sent1: str
  sent2: str
  endings: tuple[str, ...]
  label: int | None = None


def read_examples(path: str) -> list[ChoiceExample]:
  """Reads a .csv, .tsv or .jsonl file, such as train.csv of SWAG.

  Args:
    path: the file; the column label is optional.

  Raises:
    OSError: the file cannot be read.
    ValueError: a column is missing, a label is not the number of an ending, or
      rows differ in their number of endings or only some have a label; names
      file and line.
  """
  examples = []
  for row in tables.read_table(path, ("sent1", "sent2", "ending0", "ending1")):
    where = f"{path}, line {row.line}"
    columns = (f"ending{number}" for number in count())
    present = takewhile(row.values.__contains__, columns)
    endings = tuple(row.values[column] for column in present)
    if examples and len(endings) != len(examples[0].endings):
      raise ValueError(
        f"{where}: {len(endings)} endings, but the rows before have "
        f"{len(examples[0].endings)}"
      )
    label = _label(row.values.get("label"), len(endings), where)
    if examples and (label is None) != (examples[0].label is None):
      raise ValueError(
        f"{where}: some rows have a label and some have none; leave the column "
        "out if labels are not known"
      )
    examples.append(
      ChoiceExample(row.values["sent1"], row.values["sent2"], endings, label)
    )
  if examples[0].label is not None:
    summaries.log_labels(path, (str(example.label) for example in examples))
  return examples


def texts(example: ChoiceExample) -> tuple[str, ...]:
  """All texts of an example."""
  return (example.sent1, example.sent2, *example.endings)


def _label(text, choices, where):
  if text is None:
    return None
  numbers = {str(number): number for number in range(choices)}
  if text not in numbers:
    raise ValueError(
      f"{where}: the label is {text!r}, expected a number from 0 to "
      f"{choices - 1}; leave the column out if labels are not known"
    )
  return numbers[text]
