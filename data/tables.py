r"""Reader of tables of texts, by the extension.

.csv: commas, quotes as in RFC 4180; .jsonl and .json: an object a line, columns
are its keys; others: tabs, and quotes are plain characters, as in the files of
GLUE. Each may be compressed, as in .csv.gz. Lines end at "\n"; every "\r", a
byte order mark and blank lines are dropped. A user's table may be as Excel
writes it: the header shows its format, and "\r" is a blank, or ends all lines.
"""

import csv
import io
import json
import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import islice
from math import inf
from typing import NamedTuple

from absl import logging

from storage import UserError, textfiles

_DELIMITERS = {"comma": ",", "semicolon": ";", "pipe": "|", "tab": "\t"}
_DELIMITERS |= {r"\t": "\t", "t": "\t"}  # a shell makes t of \t
# A cell between tabs with quotes as in .csv: doubled, or around a line break.
_QUOTED = re.compile(r'(^|\t)"[^"\t]*(""|\n)([^"\t]|"")*"(\t|$)', re.MULTILINE)
_MARKS = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16", b"\xef\xbb": "utf-8"}
_to_json = json.JSONEncoder(ensure_ascii=False).encode
_log_once = cache(logging.info)
OWN = None, "utf-8"  # values of --delimiter and --encoding


class Row(NamedTuple):
  """A row of a table."""

  line: int  # its first, from 1
  values: dict[str, str]  # texts by column
  number: int  # of its line, from 0; where quotes count, of its row


def read_table(
  path: str,
  columns: Sequence[str] = (),
  header: Sequence[str] | None = None,
  skip_broken: bool = False,
  dialect: tuple[str | None, str] | None = OWN,
  is_text: Callable[[str], object] = ().__contains__,
) -> Iterator[Row]:
  """Reads the rows of a table; without `dialect`, GLUE's, as the original.

  `columns` are required, `header` has the names of a file without them. With
  `skip_broken` rows with a wrong number of columns are skipped with a warning.
  At the end, warns of blank texts in the columns whose name `is_text`. In a
  .jsonl file, values other than texts are converted to JSON, and null is a
  missing column. Raises OSError, or ValueError with file, line and remedy:
  a column is missing, a line is malformed, there is no row, or no text.
  """
  if _extension(path) in (".jsonl", ".json"):
    rows = _objects(path, columns, dialect)
  else:
    rows = _table(path, columns, header, skip_broken, dialect)
  number, blank = 0, defaultdict[str, list[int]](list)
  for row in rows:
    number += 1
    for name in filter(is_text, row.values):
      has_word = any(map(str.isprintable, row.values[name].replace(" ", "")))
      blank[name] += [] if has_word else [row.line]
    yield row
  if not number:
    raise UserError(f"{path} has no rows")
  for name, lines in blank.items():
    if lines:
      logging.warning(
        f"{path}: {len(lines)} of {number} texts in the column {name!r} are "
        f"blank (lines {_first(lines)}): fill them, or remove the rows"
      )
  if blank and all(len(lines) == number for lines in blank.values()):
    raise UserError(f"{path}: all texts are blank ({', '.join(blank)})")


def _first(lines):
  return ", ".join(map(str, lines[:5])) + ", ..." * (len(lines) > 5)


def _extension(path):
  """The extension, without that of a compressed file: .csv of a.csv.gz."""
  path = path.removesuffix(".gz").removesuffix(".zst")
  return os.path.splitext(path)[1]


def _lines(path, dialect):
  if not dialect:
    yield from textfiles.text_lines(path)
    return
  number, end = 0, " "
  with textfiles.open_text(path) as file:
    encoding = _MARKS.get(file.peek(2)[:2], dialect[1])
    try:
      text = io.TextIOWrapper(file, encoding, newline="\n")
      for number, line in enumerate(text, 1):
        line = line.rstrip("\r\n")
        if number == 1:
          end = "\n" if "\r" in line else " "
          line = re.sub('^\ufeff?("?sep=.?"?$)?', "", line)  # Excel's sep=;
        yield from line.replace("\r", end).split("\n")
    except LookupError:
      raise UserError(f"--encoding={encoding} is no encoding") from None
    except UnicodeDecodeError as error:
      number += 1 + error.object.count(b"\n", 0, error.start)
      raise UserError(
        f"{path}, line {number}: byte 0x{error.object[error.start]:02x} is not "
        f"{encoding.upper()}: give --encoding, such as cp1252 for western "
        "European text, cp949 for Korean, cp932 for Japanese, or gb18030"
      ) from error


def _find_format(path, columns, dialect):
  """Delimiter and csv's constant for quotes by which the header has `columns`.

  If there is none, those by which it has the most.
  """
  if name := dialect[0]:
    delimiter = _DELIMITERS.get(name, name)
    if len(delimiter) != 1:
      raise UserError(
        f"--delimiter={name}: give a character, such as ';', or tab"
      )
    return delimiter, csv.QUOTE_MINIMAL
  is_csv = _extension(path) == ".csv"
  formats = [(d, csv.QUOTE_MINIMAL) for d in (",;\t|" if is_csv else "\t,;|")]
  head = [*islice(_lines(path, dialect), 1000)]
  has_quotes = "\t" in "".join(head[:1]) and _QUOTED.search("\n".join(head))
  if not (is_csv or has_quotes):
    formats.insert(0, ("\t", csv.QUOTE_NONE))
  headers = [next(_records(path, head, *f, False), (1, []))[1] for f in formats]
  fits = [
    inf if {*columns} <= {*map(str.strip, h)} else len(h) for h in headers
  ]
  best = formats[fits.index(max(fits))]
  if best[0] != formats[0][0]:
    text = "%s: %r separates the columns; --delimiter names another"
    _log_once(text, path, best[0])
  return best


def _table(path, columns, header, skip_broken, dialect):
  delimiter, quoting = "\t", csv.QUOTE_NONE
  if dialect:
    delimiter, quoting = _find_format(path, columns, dialect)
  records = _records(path, _lines(path, dialect), delimiter, quoting)
  has_header = header is None
  if has_header:
    line, header = next(records, (1, []))
    if not header:
      raise UserError(f"{path} is empty")
    header = [*map(str.strip, header)]
    where = f"{path}, line {line} (the header)"
    _require(columns, header, where)
    for name in columns:
      if header.count(name) > 1:
        raise UserError(f"{where}: column {name!r} is there twice: rename one")
  broken = []
  for index, (line, fields) in enumerate(records, has_header):
    while dialect and len(fields) > len(header) and not fields[-1].strip():
      fields.pop()
    if len(fields) == len(header):
      number = line - 1 if quoting == csv.QUOTE_NONE else index
      yield Row(line, dict(zip(header, fields, strict=True)), number)
    elif skip_broken:
      broken.append(line)
    else:
      remedy = f"put texts with {delimiter!r} in quotes"
      if quoting == csv.QUOTE_NONE:
        remedy = "remove tabs and line breaks in texts, or write .csv or .jsonl"
      raise UserError(
        f"{path}, line {line}: {len(fields)} columns, expected {len(header)} "
        f"({', '.join(header)}): is it the file of another task? If not, "
        f"{remedy}"
      )
  if broken:
    logging.warning(
      f"{path}: left out {len(broken)} rows with a wrong number of columns "
      f"(lines {_first(broken)})"
    )


def _records(path, lines, delimiter, quoting, strict=True):
  """Yields first line and fields of rows with a text; "" alone is one, too."""
  csv.field_size_limit(textfiles.MAX_LINE_BYTES)
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
      f"{path}: the row that begins on line {start} is no CSV ({error}); is a "
      "quote never closed, or not written twice inside quotes?"
    ) from error


def _objects(path, columns, dialect):
  for number, line in enumerate(_lines(path, dialect), 1):
    if not line.strip():
      continue
    where = f"{path}, line {number}"
    try:
      values = textfiles.parse_json(line)
    except (ValueError, RecursionError) as error:
      raise UserError(
        f"{where} is no JSON ({error}); each line must be an object: is the "
        "file cut short?"
      ) from error
    if not isinstance(values, dict):
      raise UserError(f"{where} is no JSON object but {line[:40]!r}")
    _require(columns, values, where)
    for name in columns:
      if values[name] is None or values[name] != values[name]:  # NaN
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
    letters = [name.casefold() for name in missing]
    meant = [repr(name) for name in present if name.casefold() in letters]
    raise UserError(
      f"{where}: no column {', '.join(map(repr, missing))}; there are "
      f"{', '.join(map(repr, present))}. "
      + f"Did you mean {', '.join(meant)}? "
      * bool(meant)
      + "Is it a file of this task? A table begins with its header; --delimiter"
      " says what separates columns; with --task_name=tsv, flags such as "
      "--text_a_column name other columns"
    )
