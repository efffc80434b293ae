r"""Reads tables of texts. The extension gives the format.

.csv has commas, with quotes as in RFC 4180. .jsonl and .json have an object a
line. Other files have tabs, and a quote is an ordinary character, as in GLUE.
Byte order marks and blank lines are dropped, and "\r" inside a line is a blank.
Other files than GLUE's may differ: the header shows the delimiter, the first
1,000 lines show if quotes are as in .csv, and a "\r" in the first line shows
that "\r" ends lines.
"""

import csv
import json
import os
import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from itertools import chain, islice
from typing import NamedTuple

from absl import logging

from data import quotes
from data.quotes import first_of
from storage import UserError, number_of, setting, textfiles

_DELIMITERS = {"tab": "\t", r"\t": "\t", "t": "\t"}  # a shell turns \t into t
_DELIMITERS |= {"comma": ",", "semicolon": ";", "pipe": "|"}
# A cell of the rule under a header, in Markdown or by psql or sqlcmd.
_RULE = re.compile(":?[-=+]{2,}:?|:-:?|-:")
_to_json = json.JSONEncoder(ensure_ascii=False).encode
_compose = partial(unicodedata.normalize, "NFC")
_log_once, _warn_once = map(cache, (logging.info, logging.warning))
Dialect = tuple[str | None, str]  # values of --delimiter and --encoding
OWN: Dialect = None, "utf-8"


class Row(NamedTuple):
  """A row of a table."""

  line: int  # number of the row's first line, from 1
  values: dict[str, str]  # texts by column
  number: int  # index of the line, or of the row in a format with quotes


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
  rows = _table(path, columns, header, skip_broken, dialect)
  if _extension(path) in (".jsonl", ".json"):
    rows = _objects(path, columns, dialect, is_text)
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
      text = "%s: %d of %d texts in %r are blank (lines %s); they are kept"
      logging.warning(text, path, len(lines), number, name, first_of(lines))
  if blank and all(len(lines) == number for lines in blank.values()):
    raise UserError(f"{path}: all texts are blank ({', '.join(blank)})")


def _extension(path):
  """Extension without compression: .csv for a.csv.gz."""
  return os.path.splitext(re.sub(r"\.(gz|zst)$", "", path))[1]


def _lines(path, dialect):
  if not dialect:
    yield from textfiles.text_lines(path)
    return
  end = " "
  for number, line in enumerate(textfiles.decoded_lines(path, dialect[1])):
    if not number:
      end = "\n" if "\r" in line else " "
      line = re.sub('^\ufeff?("?sep=.?"?$)?', "", line)  # Excel's sep=;
    yield from line.replace("\r", end).split("\n")


def _find_format(path, columns, dialect):
  """Finds the header's delimiter, and if a quote is an ordinary character."""
  usual = "," if _extension(path) == ".csv" else "\t"
  given = dialect[0] and _DELIMITERS.get(dialect[0].lower(), dialect[0])
  if given and len(given) != 1:
    raise UserError(
      f"{setting('delimiter', given)} is not a delimiter: give tab, comma, "
      "semicolon, pipe or one character"
    )
  head = [*islice(_lines(path, dialect), quotes.HEAD)]
  fits = {}
  for delimiter in given or usual + ",;\t|":
    _, names = next(_records(path, head, delimiter, strict=False), (1, []))
    has_all = {*columns} <= {*map(str.strip, names)}
    fits[delimiter] = (has_all, not has_all and len(names))
  best = max(fits, key=fits.__getitem__)
  if best not in (given, usual):
    _log_once("%s: the columns are separated by %r", path, best)
  may_be_plain = best == usual == "\t" and not given
  return best, may_be_plain and not quotes.enclose_cells(path, head)


def _table(path, columns, header, skip_broken, dialect):
  delimiter, is_plain = "\t", True
  if dialect:
    delimiter, is_plain = _find_format(path, columns, dialect)
  records = _records(path, _lines(path, dialect), delimiter, is_plain)
  has_header = header is None
  if has_header:
    header = _read_header(path, records, columns, dialect)
  # Empty cells may follow the last column that has a name.
  width, first = len(header), None
  may_trim = dialect and (width > 1 or delimiter == "\t")
  while may_trim and not header[-1]:
    header.pop()
  if dialect:
    records = _without_rule(path, header, records)
    records = quotes.checked(path, records, delimiter, is_plain)
  broken = []
  for index, (line, fields) in enumerate(records, has_header):
    if may_trim:
      first = first or (line, list(fields))
      if not any(map(str.strip, fields[len(header) :])):
        _check_length(path, (line, fields), first, width, delimiter)
        del fields[len(header) :]
    if len(fields) == len(header):
      cells = [cell.strip("\ufeff ") for cell in fields]
      if dialect and has_header and len(header) > 1 and cells == header:
        text = "the header again: were files joined? Remove the line"
        raise UserError(f"{path}, line {line}: {text}")
      number = line - 1 if is_plain else index
      yield Row(line, dict(zip(header, fields, strict=True)), number)
    elif skip_broken:
      broken.append(line)
    else:
      raise _wrong_width(
        path, line, fields, header, delimiter, is_plain, dialect
      )
  if broken:
    text = "%s: left out %d rows with a wrong number of columns (lines %s)"
    logging.warning(text, path, len(broken), first_of(broken))


def _without_rule(path, header, records):
  """Leaves out a rule under the header, and "(2 rows)" at the end."""
  rule, last = 0, None
  for index, (line, fields) in enumerate(records):
    if last:
      yield last
    last = None
    if index and not fields[0].lstrip().startswith("("):
      yield line, fields
      continue
    cells = [cell.strip() for cell in fields if cell.strip()]
    is_rule = not index and cells and all(map(_RULE.fullmatch, cells))
    word = r"\D+" if rule else "rows?"
    total = re.fullmatch(rf"\((\d{{1,9}}) {word}\)", "\t".join(cells))
    # A single "---" may be a text.
    if is_rule and (cells[1:] or len(cells[0]) >= len("".join(header))):
      rule = line
      _log_once("%s, line %d: left out %r", path, line, "  ".join(cells))
    elif total and line - (rule or 1) - int(total[1]) in (1, 2):
      last = line, fields
    else:
      yield line, fields
  if last:
    _log_once("%s, line %d: left out %r", path, line, "  ".join(cells))


def _check_length(path, row, first, width, delimiter):
  """Raises UserError if only one of two rows is longer than the header."""
  (line, fields), (first_line, first_fields) = row, first
  longer = max(first, row, key=lambda row: len(row[1]))
  if len(fields) != len(first_fields) and len(longer[1]) > width:
    sizes = f"{len(fields)} columns, but line {first_line} has"
    raise UserError(
      f"{path}, line {line}: {sizes} {len(first_fields)}. If a text has "
      f"{delimiter!r}, put the text in quotes in a .csv, or write .jsonl. If "
      f"not, remove {delimiter!r} at the end of line {longer[0]}"
    )


def _read_header(path, records, columns, dialect):
  """Returns the columns' names; UserError if one of `columns` is missing."""
  line, header = next(records, (1, []))
  if not header:
    raise UserError(f"{path} is empty")
  # Accents may be composed (NFC) or not, as in files of macOS.
  meant = {_compose(name): name for name in columns}
  header = [meant.get(_compose(x), x) for x in map(str.strip, header)]
  where = f"{path}, line {line} (the header)"
  _require(columns, header, where)
  for name in filter(None, dict.fromkeys(header) if dialect else columns):
    if header.count(name) > 1:
      text = f"{where}: column {name!r} occurs twice"
      if name in columns:
        raise UserError(f"{text}: rename one")
      _warn_once(f"{text}: the last one counts")
  return header


def _wrong_width(path, line, fields, header, delimiter, is_plain, dialect):
  remedy = f"put texts with {delimiter!r} or line breaks in quotes"
  if len(header) == 1:
    other = setting("delimiter", "tab" if delimiter == ";" else "semicolon")
    remedy += f", or give {other}"
  if is_plain:
    remedy = "fetch the file again, or remove tabs and line breaks in texts"
    if dialect:
      remedy = "remove tabs and line breaks in texts, or write .csv or .jsonl"
      remedy += f"; if cells are quoted, give {setting('delimiter', 'tab')}"
  if dialect and len(fields) > len(header) > 1:
    remedy += "; or name all columns in the header"
  if dialect and len(fields) < len(header):
    remedy += "; spreadsheets may leave out empty cells at the end of a row"
    remedy += ": remove such columns"
  return UserError(
    f"{path}, line {line}: {len(fields)} columns, expected {len(header)} "
    f"({', '.join(header)}): is it the file of another task? If not, {remedy}"
  )


def _records(path, lines, delimiter, is_plain=False, strict=True):
  """Yields the number of each row's first line, and the row's fields.

  Skips blank rows and logs their lines, but keeps the row "". Also skips empty
  lines; logs these only in a table of one column.
  """
  csv.field_size_limit(textfiles.MAX_LINE_BYTES)
  quoting = csv.QUOTE_NONE if is_plain else csv.QUOTE_MINIMAL
  options = {"delimiter": delimiter, "quoting": quoting, "strict": strict}
  lines, first = iter(lines), []
  for line in lines:
    first.append(line)
    if line.strip():
      break
  names = "".join(first[-1:]).split(delimiter)[1:]
  if names and all(name.startswith(" ") for name in names):
    options["skipinitialspace"] = not is_plain  # as in "a", "b"
  reader = csv.reader((f"{x}\n" for x in chain(first, lines)), **options)
  start, blank = 1, []
  try:
    for fields in reader:
      if any(map(str.strip, fields)) or fields == [""]:
        yield start, fields
      elif fields or not names:
        blank.append(start)
      start = reader.line_num + 1
  except csv.Error as error:
    raise UserError(
      f"{path}: the row that begins on line {start} is not CSV ({error}); is a "
      "quote never closed, or not written twice inside quotes?"
    ) from error
  if blank:
    text = f"left out {number_of(len(blank), 'blank row')}"
    _log_once("%s: %s (lines %s)", path, text, first_of(blank))


def _objects(path, columns, dialect, is_text):
  for number, values in textfiles.json_objects(path, _lines(path, dialect)):
    where = f"{path}, line {number}"
    _require(columns, values, where)
    for name in filter(is_text, values):
      if isinstance(values[name], list | dict):
        shown = _to_json(values[name])[:40]
        raise UserError(f"{where}: {name!r} is not text but {shown}")
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
  if not (missing := [name for name in columns if name not in present]):
    return
  letters = [name.casefold() for name in missing]
  meant = [repr(name) for name in present if name.casefold() in letters]
  guess = f"Did you mean {', '.join(meant)}? " if meant else ""
  raise UserError(
    f"{where}: no column {', '.join(map(repr, missing))}; there are "
    f"{', '.join(map(repr, present))}. {guess}Is it a file of this task? A "
    f"table begins with its header; {setting('delimiter')} says what separates "
    f"columns; for texts with labels, {setting('task_name', 'tsv')} with "
    f"{setting('text_a_column')}, {setting('label_column')} and so on names "
    "other columns"
  )
