r"""Reads tables of texts. The extension gives the format.

.csv has commas, with quotes as in RFC 4180. .jsonl and .json have an object a
line. Other files have tabs, and a quote is an ordinary character, as in GLUE.
Byte order marks and blank lines are dropped, and "\r" inside a line is a blank.
Other files than GLUE's may differ: the header shows the delimiter, and quotes
between tabs enclose cells if every quote of the file does.
"""

import csv
import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import NamedTuple

from absl import logging

from storage import UserError, setting, textfiles

_DELIMITERS = {"tab": "\t", r"\t": "\t", "t": "\t"}  # a shell turns \t into t
_DELIMITERS |= {"comma": ",", "semicolon": ";", "pipe": "|", "space": " "}
_QUOTED_CELL = re.compile(r'(?<![^\t\n])"[^"\t]*(?:""[^"\t]*)*"(?![^\t\n])')
_CSV = re.compile(r"\.csv(\.gz|\.zst)?$")
_JSON = re.compile(r"\.jsonl?(\.gz|\.zst)?$")
_to_json = json.JSONEncoder(ensure_ascii=False).encode
_log_once = cache(logging.info)
Dialect = tuple[str | None, str]  # values of --delimiter and --encoding
OWN: Dialect = None, "utf-8"


class Row(NamedTuple):
  """A row of a table."""

  line: int  # number of the row's first line, from 1
  values: dict[str, str]  # texts by column
  number: int  # index of the row; a header is row 0


def read_table(
  path: str,
  columns: Sequence[str] = (),
  header: Sequence[str] | None = None,
  skip_broken: bool = False,
  dialect: Dialect | None = OWN,
  is_text: Callable[[str], object] = ().__contains__,
) -> Iterator[Row]:
  """Yields the rows of a table; after the last row, warns of blank texts.

  A value of a .jsonl file that is not text becomes JSON; null is a missing
  column. Raises OSError, or ValueError with file, line and remedy.

  `columns` are required, and `header` names the columns of a file without a
  header. `skip_broken` skips rows with more or fewer columns, with a warning. A
  `dialect` of None reads GLUE's files like the original. `is_text` selects the
  columns, by name, to check for blank texts.
  """
  if dialect:
    text = textfiles.decode(path, dialect[1])
    lines = re.sub("^sep=.(?=\n)", "", text).split("\n")  # Excel writes sep=;
  else:
    lines = textfiles.text_lines(path)
  if _JSON.search(path):
    rows = _objects(path, lines, columns, is_text)
  else:
    rows = _rows(path, lines, columns, header, skip_broken, dialect)
  number, blank = 0, defaultdict[str, list[int]](list)
  for row in rows:
    number += 1
    for name in filter(is_text, row.values):
      if not row.values[name].strip():
        blank[name].append(row.line)
    yield row
  if not number:
    raise UserError(f"{path} has no rows")
  for name, numbers in blank.items():
    logging.warning(
      f"{path}: {len(numbers)} of {number} texts in {name!r} are blank (the "
      f"first: line {numbers[0]}); they are kept"
    )


def _find_format(path, lines, columns, delimiter):
  """Finds the delimiter in the header, and if quotes enclose cells."""
  if delimiter:
    delimiter = _DELIMITERS.get(delimiter.lower(), delimiter)
    if len(delimiter) != 1 or delimiter in '"\r\n':
      raise UserError(
        f"{setting('delimiter', delimiter)} is not a delimiter: give tab, "
        "comma, semicolon, pipe or one character"
      )
    return delimiter, True
  usual = "," if _CSV.search(path) else "\t"

  def fit(delimiter):
    _, names = next(_records(path, lines, delimiter, strict=False), (1, []))
    return {*columns} <= {*map(str.strip, names)}, len(names)

  best = max(usual + ",;\t|", key=fit)
  if best != usual:
    _log_once("%s: the columns are separated by %r", path, best)
  elif best == "\t":
    text = "\n".join(lines)
    if '"' not in text or '"' in _QUOTED_CELL.sub("", text):
      return best, False
    _log_once("%s: quotes are read as in .csv; .jsonl keeps quotes", path)
  return best, True


def _rows(path, lines, columns, header, skip_broken, dialect):
  delimiter, has_quotes = "\t", False
  if dialect:
    delimiter, has_quotes = _find_format(path, lines, columns, dialect[0])
  records = _records(path, lines, delimiter, has_quotes)
  has_header = header is None
  if has_header:
    line, header = next(records, (1, []))
    if not header:
      raise UserError(f"{path} is empty")
    header = [*map(str.strip, header)]
    where = f"{path}, line {line} (the header)"
    separated = f"{setting('delimiter')} says what separates columns. "
    _require(columns, header, where, separated)
    for name in columns:
      if header.count(name) > 1:
        raise UserError(f"{where}: column {name!r} occurs twice: rename one")
  broken = []
  for index, (line, fields) in enumerate(records, has_header):
    if dialect and has_header and [*map(str.strip, fields)] == header:
      raise UserError(f"{path}, line {line} is the header again: remove it")
    if len(fields) == len(header):
      yield Row(line, dict(zip(header, fields, strict=True)), index)
    elif skip_broken:
      broken.append(line)
    else:
      raise UserError(
        f"{path}, line {line}: {len(fields)} columns, expected {len(header)} "
        f"({', '.join(header)}): correct the line. In a .csv, or with "
        f"{setting('delimiter')}, quotes enclose texts with {delimiter!r}"
      )
  if broken:
    logging.warning(
      f"{path}: left out {len(broken)} rows with a wrong number of columns "
      f"(the first: line {broken[0]})"
    )


def _records(path, lines, delimiter, has_quotes=True, strict=True):
  """Yields the number of each row's first line, and the row's fields.

  Skips rows without any text, but keeps the row "".
  """
  csv.field_size_limit(1 << 28)
  quoting = csv.QUOTE_MINIMAL if has_quotes else csv.QUOTE_NONE
  options = {"delimiter": delimiter, "quoting": quoting, "strict": strict}
  reader = csv.reader((f"{line}\n" for line in lines), **options)
  start = 1
  try:
    for fields in reader:
      if any(map(str.strip, fields)) or fields == [""]:
        yield start, fields
      start = reader.line_num + 1
  except csv.Error as error:
    raise UserError(
      f"{path}: the row that begins on line {start} is not CSV ({error}); is a "
      "quote never closed, or not written twice inside quotes?"
    ) from error


def _objects(path, lines, columns, is_text):
  objects = textfiles.json_objects(path, lines)
  for index, (line, values) in enumerate(objects):
    where = f"{path}, line {line}"
    present = {k: value for k, value in values.items() if value is not None}
    _require(columns, present, f"{where} (null counts as missing)")
    for name in filter(is_text, present):
      if isinstance(present[name], list | dict):
        shown = _to_json(present[name])[:40]
        raise UserError(f"{where}: {name!r} is not text but {shown}")
    texts = {
      name: value if isinstance(value, str) else _to_json(value)
      for name, value in present.items()
    }
    yield Row(line, texts, index)


def _require(columns, present, where, remedy=""):
  missing = [name for name in columns if name not in present]
  if missing:
    raise UserError(
      f"{where}: no column {', '.join(map(repr, missing))}; there are "
      f"{', '.join(map(repr, present))}. {remedy}Rename columns, or in a "
      f"classification name them by {setting('text_a_column')} etc."
    )
