r"""Reader of tables of texts, by the extension.

.csv: commas, quotes as in RFC 4180; .jsonl and .json: an object a line, columns
are its keys; others: tabs, and quotes are plain characters, as in the files of
GLUE. Each may be compressed, as in .csv.gz. Lines end at "\n"; every "\r", a
byte order mark and blank lines are dropped.
"""

import csv
import json
import os
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from absl import logging

from storage import UserError, textfiles

_to_json = json.JSONEncoder(ensure_ascii=False).encode


class Row(NamedTuple):
  """A row of a table."""

  line: int  # its first, from 1
  values: dict[str, str]  # texts by column
  number: int  # of its line, from 0; in a .csv file, of its row


def read_table(
  path: str,
  columns: Sequence[str] = (),
  header: Sequence[str] | None = None,
  skip_broken: bool = False,
) -> Iterator[Row]:
  """Reads the rows of a table.

  `columns` are required, `header` has the names of a file without them. With
  `skip_broken` rows with a wrong number of columns are skipped with a warning.
  In a .jsonl file, values other than texts are converted to JSON, and null is a
  missing column. Raises OSError, or ValueError with file, line and remedy:
  a column is missing, a line is malformed, or there is no row.
  """
  if _extension(path) in (".jsonl", ".json"):
    rows = _objects(path, columns)
  else:
    rows = _table(path, columns, header, skip_broken)
  first = next(rows, None)
  if first is None:
    raise UserError(f"{path} has no rows")
  yield first
  yield from rows


def _extension(path):
  """The extension, without that of a compressed file: .csv of a.csv.gz."""
  path = path.removesuffix(".gz").removesuffix(".zst")
  return os.path.splitext(path)[1]


def _table(path, columns, header, skip_broken):
  is_csv = _extension(path) == ".csv"  # whose rows may have several lines
  lines = enumerate(textfiles.text_lines(path), 1)
  tabs = ((number, line.split("\t")) for number, line in lines if line.strip())
  records = _csv(path) if is_csv else tabs
  has_header = header is None
  if has_header:
    line, header = next(records, (1, []))
    if not header:
      raise UserError(f"{path} is empty")
    where = f"{path}, line {line} (the header)"
    _require(columns, header, where)
    for name in columns:
      if header.count(name) > 1:
        raise UserError(f"{where}: column {name!r} is there twice: rename one")
  broken = []
  for index, (line, fields) in enumerate(records, has_header):
    if len(fields) == len(header):
      number = index if is_csv else line - 1
      yield Row(line, dict(zip(header, fields, strict=True)), number)
    elif skip_broken:
      broken.append(line)
    else:
      remedy = "put texts with commas in quotes"
      if not is_csv:
        remedy = "remove tabs and line breaks in texts, or write .csv or .jsonl"
      raise UserError(
        f"{path}, line {line}: {len(fields)} columns, expected {len(header)} "
        f"({', '.join(header)}): is it the file of another task? If not, "
        f"{remedy}"
      )
  if broken:
    shown = ", ".join(map(str, broken[:5])) + ", ..." * (len(broken) > 5)
    logging.warning(
      f"{path}: left out {len(broken)} rows with a wrong number of columns "
      f"(lines {shown})"
    )


def _csv(path) -> Iterator[tuple[int, list[str]]]:
  """First line and fields of each row; one of several empty fields counts."""
  csv.field_size_limit(textfiles.MAX_LINE_BYTES)
  lines = (f"{line}\n" for line in textfiles.text_lines(path))
  reader = csv.reader(lines, strict=True)
  start = 1
  try:
    for fields in reader:
      # A line of blanks is one field; "" is an empty one, which counts.
      if len(fields) > 1 or (fields and not fields[0].isspace()):
        yield start, fields
      start = reader.line_num + 1
  except csv.Error as error:
    raise UserError(
      f"{path}: the row that begins on line {start} is no CSV ({error}); is a "
      "quote never closed, or not written twice inside quotes?"
    ) from error


def _objects(path, columns):
  for number, values in textfiles.json_objects(path):
    where = f"{path}, line {number}"
    _require(columns, values, where)
    for name in columns:
      if values[name] is None:
        raise UserError(
          f'{where}: {name!r} is null; give it a value ("" is an empty text), '
          "or remove the line"
        )
    values = {
      name: value if isinstance(value, str) else _to_json(value)
      for name, value in values.items()
      if value is not None
    }
    yield Row(number, values, number - 1)


def _require(columns, present, where):
  missing = [name for name in columns if name not in present]
  if missing:
    raise UserError(
      f"{where}: no column {', '.join(map(repr, missing))}; there are "
      f"{', '.join(map(repr, present))}. Is it a file of this task? A table "
      "begins with its header, a .tsv has tabs; with --task_name=tsv, flags "
      "such as --text_a_column name other columns"
    )
