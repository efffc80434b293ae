"""Quotes in a user's table: around cells as in RFC 4180, or in the texts."""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cache

from absl import logging

from storage import setting

HEAD = 1000  # lines that show the format
_QUOTED_CELL = re.compile(r'(?<![^\t\n])"[^"]*(?:""[^"]*)*"(?![^\t\n])')
Rows = Iterator[tuple[int, list[str]]]  # the first line, and the cells
_log_once, _warn_once = map(cache, (logging.info, logging.warning))


def first_of(lines: Sequence) -> str:
  """Lists the first line numbers, for a message."""
  return ", ".join(map(str, lines[:5])) + ", ..." * (len(lines) > 5)


def enclose_cells(path: str, head: Sequence[str]) -> bool:
  """True if quotes in a .tsv file are as in .csv, around cells that need them.

  pandas quotes cells with a quote or a line break, Excel also with a comma.
  Databases may quote all cells but numbers and the header.
  """
  text = "\n".join(head)
  if len(head) == HEAD and text.count('"') % 2:
    text += '"'  # the last cell goes on after these lines
  others = _QUOTED_CELL.sub("", text)
  cells = [] if '"' in others else _QUOTED_CELL.findall(text)
  cells = [cell for cell in cells if "\t" not in cell]
  breaks = [cell for cell in cells if "\n" in cell]
  body = others.partition("\n")[2]
  are_all = "\t" in body and not re.search(r"[^\s\d.,+-]", body)
  has_commas = "," not in others and all("," in cell for cell in cells)
  is_quoted = (
    text.startswith('"')
    or any('""' in cell for cell in cells)
    or ((has_commas or are_all) and len(cells) > 2 and not breaks)
    or (any(breaks) and ("\t" in text or 2 < len(breaks) == len(cells)))
  )
  if is_quoted:
    _log_once("%s: quotes are read as in .csv; .jsonl keeps quotes", path)
  return is_quoted


def checked(path: str, rows: Rows, delimiter: str, is_plain: bool) -> Rows:
  """Yields `rows`; then warns of quotes that are probably misread."""
  remedy = f"{setting('delimiter', 'tab')} reads"
  doubts = defaultdict[str, list](list)
  start, breaks, are_cells = 0, [], True
  is_cell = _QUOTED_CELL.fullmatch
  for line, fields in rows:
    yield line, fields
    if is_plain and any('""' in x and is_cell(x) for x in fields):
      text = f"quotes as in .csv are read as text; {remedy} them as .csv does"
      doubts[text].append(line)
    if is_plain and len(fields) == 1:
      # The line, without doubled quotes, after the cell that it continues.
      text = '"' * bool(start) + fields[0].replace('""', "")
      cell = re.fullmatch('[^"]*|(")[^"]*(")?', text)
      are_cells = are_cells and cell is not None
      is_open = cell and cell[1] and not cell[2]
      breaks += [start] if start and not is_open else []
      start = (start or line) if is_open else 0
    for cell in fields if len(fields) > 1 else ():
      inner = cell.split("\n")[1:-1]
      widths = {row.count(delimiter) + 1 for row in inner}
      # In a text, a blank follows a comma. No blank follows a delimiter.
      if widths == {len(fields)} and f"{delimiter} " not in "".join(inner):
        text = "a cell in quotes has rows of the table: is a quote never closed"
        text += ", or not written twice inside quotes?"
        doubts[text].append(f"{line} to {line + len(inner) + 1}")
  if breaks and are_cells and not start:  # else direct speech, as in novels
    text = f"each line is a text, also between quotes; {remedy} a text in "
    doubts[text + "quotes as one"] = breaks
  for text, lines in doubts.items():
    _warn_once("%s, lines %s: %s", path, first_of(lines), text)
