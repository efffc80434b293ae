r"""Tables of texts, row by row: .tsv, .csv and .jsonl, told by the extension.

- .csv: commas, quotes as in RFC 4180.
- .jsonl, .json: an object a line; columns are its keys.
- Anything else: tabs, and quotes mean nothing, as in the files of GLUE.

Lines end at "\n", every "\r" is dropped, a byte order mark at the beginning is
too, and blank lines are skipped.
"""

import csv
import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from absl import logging

from data import files


class Row(NamedTuple):
  """A row of a table.

  Attributes:
    line: number of the line it begins on, from 1.
    values: texts by column.
  """

  line: int
  values: dict[str, str]


def read(
  path: str,
  columns: Sequence[str] = (),
  header: Sequence[str] | None = None,
  skip_broken: bool = False,
) -> Iterator[Row]:
  """Reads the rows of a table.

  Args:
    path: the file.
    columns: those that have to be there.
    header: names of all columns; None if the first line has them.
    skip_broken: leave out rows with a wrong number of columns, with a warning,
      where they are known to be the publisher's.

  Yields:
    Rows. Values of a .jsonl file that are no texts come as JSON; those that
    are null, not at all.

  Raises:
    OSError: the file cannot be read.
    ValueError: a column is missing, a line does not fit, or there is no row;
      names file, line and remedy.
  """
  if path.endswith((".jsonl", ".json")):
    rows = _objects(path, columns)
  else:
    rows = _table(path, columns, header, skip_broken)
  empty = True
  for row in rows:
    empty = False
    yield row
  if empty:
    raise ValueError(f"{path} has no rows")


def _table(path, columns, header, skip_broken):
  records = _separated(path)
  if header is None:
    line, header = next(records, (1, []))
    if not header:
      raise ValueError(f"{path} is empty")
    _require(columns, header, f"{path}, line {line} (the header)")
  broken = []
  for line, fields in records:
    if len(fields) == len(header):
      yield Row(line, dict(zip(header, fields, strict=True)))
    elif skip_broken:
      broken.append(line)
    else:
      raise ValueError(
        f"{path}, line {line}: {len(fields)} columns, expected {len(header)} "
        f"({', '.join(header)}); remove tabs and line breaks from the texts, "
        "or write the table as .csv or .jsonl"
      )
  if broken:
    shown = ", ".join(map(str, broken[:5])) + ", ..." * (len(broken) > 5)
    logging.warning(
      "%s: left out %d rows with a wrong number of columns (lines %s)",
      path,
      len(broken),
      shown,
    )


def _separated(path: str) -> Iterator[tuple[int, list[str]]]:
  """Fields of each row that is not blank, and the line it begins on."""
  rows = _csv(path) if path.endswith(".csv") else _tsv(path)
  return (row for row in rows if any(map(str.strip, row[1])))


def _tsv(path):
  for number, line in enumerate(_lines(path), 1):
    yield number, line.split("\t")


def _csv(path):
  reader = csv.reader((f"{line}\n" for line in _lines(path)), strict=True)
  start = 1
  try:
    for fields in reader:
      yield start, fields
      start = reader.line_num + 1
  except csv.Error as error:
    raise ValueError(
      f"{path}: the row that begins on line {start} is no CSV ({error}); is a "
      "quote never closed, or not written twice inside quotes?"
    ) from error


def _objects(path, columns):
  for number, line in enumerate(_lines(path), 1):
    if not line.strip():
      continue
    where = f"{path}, line {number}"
    try:
      values = json.loads(line)
    except (ValueError, RecursionError) as error:
      raise ValueError(
        f"{where} is no JSON ({error}); each line is to be an object: has the "
        "file been cut short?"
      ) from error
    if not isinstance(values, dict):
      raise ValueError(f"{where} is no JSON object but {line[:40]!r}")
    values = {
      name: _as_text(value)
      for name, value in values.items()
      if value is not None
    }
    _require(columns, values, where)
    yield Row(number, values)


def _as_text(value: Any) -> str:
  return value if isinstance(value, str) else json.dumps(value)


def _lines(path: str) -> Iterator[str]:
  for number, line in enumerate(files.lines(path)):
    yield line if number else line.removeprefix("\ufeff")


def _require(columns, present, where):
  missing = [name for name in columns if name not in present]
  if missing:
    raise ValueError(
      f"{where}: no column {', '.join(map(repr, missing))}; there are "
      f"{', '.join(map(repr, present))}"
    )
