"""Sentences with tags, from columns (CoNLL) or JSON lines.

A blank line ends a sentence. A line with a tab is split at tabs, any other line
at blanks. KLUE's files have one character a line, and BLANK for a blank. A line
that begins with "#" is a comment, unless it looks like a word with a tag.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import groupby
from operator import ne
from typing import NamedTuple

from absl import logging

from storage import UserError, number_of, setting, textfiles
from tasks.ner.schemes import Scheme, recognize

DOCUMENT_START = "-DOCSTART-"
# Beginnings of the lines between documents, in CoNLL, OntoNotes and CoNLL-U.
_STARTS = (DOCUMENT_START, "#begin document", "#end document", "# newdoc")
BLANK = "\u2581"  # stands for a blank, as in SentencePiece
_NUMBER = re.compile(r"\d+([-.:]\d*)?")  # of a word in a sentence, or offsets
_ID = re.compile(r"\d+[-.]\d+")  # CoNLL-U: 2-3 is a range, 2.1 an empty node
# A tag in CoNLL-U's last column, such as NER=B-PER|SpaceAfter=No.
_NAMED = re.compile(r"(?:.*\|)?\w+=(O|[BIESMLUW]-[^|]+)(?:\|.*)?")
# Names of the columns of words and tags, in a header.
_HEADER = (
  re.compile(r"(?i)(word|token|text|form|wort|id)s?"),
  re.compile(r"(?i)((ner|pos|bio|iob)[ _-]?)?(tag|label)s?|ner|pos|entity"),
)
_BRACKETS = re.compile(r"(\([^()*]+)?\*?\)?")  # CoNLL-2012 writes (PER* *) *
_SPANS = re.compile(r"T\d+\t\S+ \d+ \d+|\d+\|t\|")  # of brat, PubTator
_LANGUAGE = re.compile(r"[a-z]{2,9}(-[a-z]+)*:(?!//)(.+)")  # WikiANN's en:Ann
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u9fff]")
_QUOTED = re.compile(r'"(?:(?:"")+|.*,.*)"')  # """" and "1,000" of .csv
_LONG = 200  # words; a longer sentence is perhaps several
# Keys of JSON lines, for words and tags.
_KEYS = (("tokens", "words"), ("ner_tags", "tags", "labels", "ner"))
_REMEDY = (
  "write each word on a line, then a tab and its tag, and a blank line after "
  "each sentence"
)
_FROM_SPANS = "turn spans of characters into words (docs/named_entities.md)"
Columns = tuple[int, int]  # numbers of words' and tags' columns; -1 is the last


class Sentence(NamedTuple):
  """Words of a sentence, and their tags."""

  words: list[str]
  tags: list[str] | None  # None if the file has no tags
  document: int = 0  # number of the document, from 0
  lines: Sequence[int] = ()  # line of each word in the file, from 1
  scheme: Scheme | None = None  # the file's scheme, if tags were converted


def read_sentences(
  path: str, word_column: int = 0, tag_column: int | None = -1
) -> list[Sentence]:
  """Reads the sentences of a file. If `tag_column` is None, reads no tags.

  Raises OSError. Raises ValueError for an unknown layout or a wrong row. A call
  without tags follows one with tags, and does not repeat that call's messages.
  """
  columns = tuple(c for c in (word_column, tag_column) if c is not None)
  first = next(filter(str.strip, textfiles.text_lines(path)), "")
  if first.startswith("#FORMAT=WebAnno"):
    raise UserError(f"{path} is a file of WebAnno: export it as CoNLL 2002")
  if _SPANS.match(first):
    raise UserError(f"{path} is a file of brat or PubTator: {_FROM_SPANS}")
  read = _read_json if _is_json(path, first) else _read_columns
  sentences = list(read(path, columns))
  if not sentences:
    raise UserError(f"{path} has no words")
  if len(sentences) == 1 and len(sentences[0].words) > _LONG:
    text = "%s: all %d words are one sentence; a blank line should end each"
    logging.warning(text, path, len(sentences[0].words))
  if len(sentences) >= 20 and all(len(s.words) == 1 for s in sentences):
    text = "%s: each of the %d words is a sentence; are there blank lines "
    logging.warning(text + "between all words?", path, len(sentences))
  return sentences


def _is_json(path, line) -> bool:
  """True if the name of a file or one of its lines shows JSON lines."""
  by_name = path.removesuffix(".gz").endswith((".json", ".jsonl"))
  return by_name or bool(re.match(r'\s*\[?\s*\{\s*"[^"]*"\s*:', line))


def _read_json(path, columns) -> Iterator[Sentence]:
  kinds = _KEYS[: len(columns)]
  for line, values in textfiles.json_objects(path):
    where = f"{path}, line {line}"
    words, *tags = (_texts(values, keys, where) for keys in kinds)
    if tags and len(tags[0]) != len(words):
      raise UserError(f"{where}: {len(words)} words, but {len(tags[0])} tags")
    if words:
      lines = [line] * len(words)
      yield Sentence(words, tags[0] if tags else None, 0, lines)


def _texts(values, keys, where) -> list[str]:
  """Returns the first list of texts among the values of `keys`."""
  for key in keys:
    value = values.get(key)
    if isinstance(value, list) and all(isinstance(t, str) and t for t in value):
      return value
  shown = {key: values[key] for key in keys if key in values} or [*values]
  has_text = isinstance(values.get("text"), str) or "data" in values
  has_spans = keys == _KEYS[0] and has_text
  raise UserError(
    f"{where}: expected {' or '.join(keys)} with a list of texts, none empty "
    f"(names of tags, not numbers), but there is {json.dumps(shown)[:80]}"
    + (f"; {_FROM_SPANS}" if has_spans else "")
  )


def _read_columns(path, columns) -> Iterator[Sentence]:
  lines = [*enumerate(map(_parse, textfiles.text_lines(path)), 1)]
  rows = [(number, cells) for number, (kind, cells) in lines if kind == "words"]
  left_out = _left_out(path, rows, columns)
  lines = [line for line in lines if line[0] not in left_out]
  rows = [row for row in rows if row[0] not in left_out]
  _remove_languages(path, rows, columns[0])
  column = columns[-1] if columns[1:] else -1
  tags = {tag for _, cells in rows for tag in cells[column:][:1]}
  if any((named := _NAMED.fullmatch(tag)) and named[1] != "O" for tag in tags):
    complete = [cells for _, cells in rows if len(cells) > column]
    for cells in complete:
      named = _NAMED.fullmatch(cells[column])
      cells[column] = named[1] if named else "O"
    tags = {cells[column] for cells in complete}
  _check_rows(path, rows[:1000], tags)
  _check_columns(path, rows, columns, tags)
  sizes = Counter(len(cells) for _, cells in rows)
  [(usual, _)] = sizes.most_common(1) or [(0, 0)]
  has_brackets = "*" in tags and all(map(_BRACKETS.fullmatch, tags))
  document, is_empty = 0, True

  def find_kind(line):
    _, (kind, cells) = line
    is_word = kind == "#" and (not rows or _is_row(cells, sizes, tags, column))
    return "words" if is_word else kind

  for kind, group in groupby(lines, find_kind):
    if kind == "start":
      document += not is_empty
    elif kind == "words":
      block = [(number, cells) for number, (_, cells) in group]
      picked = [_pick(path, *row, columns) for row in block]
      words, *more = map(list, zip(*picked, strict=True))
      width, line = min((len(cells), number) for number, cells in block)
      is_short = width < usual <= max(len(cells) for _, cells in block)
      if is_short and min(columns) < 0:
        raise UserError(
          f"{path}, line {line}: {width} columns, but most lines have {usual}: "
          "add the word or tag that is missing"
        )
      known_tags = more[0] if more else None
      if known_tags and has_brackets:
        known_tags = _from_brackets(known_tags)
      numbers = [number for number, _ in block]
      yield Sentence(words, known_tags, document, numbers)
      is_empty = False
  odd = [row for row in rows if len(row[1]) != usual]
  if odd and min(columns) < 0:
    text = "%s, line %d: %d columns, but most have %d; is something missing?"
    logging.warning(text, path, odd[0][0], len(odd[0][1]), usual)


def _remove_languages(path, rows, column) -> None:
  """Makes "Ann" of "en:Ann", if a language stands before each word."""
  texts = [cells[column] for _, cells in rows if len(cells) > column]
  words = [match[2] for match in map(_LANGUAGE.fullmatch, texts) if match]
  if len(words) == len(rows) > 2:
    text = "%s: the language before words such as %r is left out"
    logging.info(text, path, texts[0])
    for (_, cells), word in zip(rows, words, strict=True):
      cells[column] = word


def _from_brackets(tags) -> list[str]:
  """Converts tags to BIO from brackets around the words of each entity."""
  result, kind = [], ""
  for tag in tags:
    begins = tag.startswith("(")
    kind = tag.strip("(*)") if begins else kind
    result.append(f"{'B' if begins else 'I'}-{kind}" if kind else "O")
    kind = "" if tag.endswith(")") else kind
  return result


def _left_out(path, rows, columns) -> set[int]:
  """Finds lines without a word: a header, CoNLL-U's ranges and empty nodes."""
  result = set()
  line, cells = rows[0] if rows else (0, [])
  names = [cells[c] for c in columns if -len(cells) <= c < len(cells)]
  is_header = len(names) == 2 and all(map(re.fullmatch, _HEADER, names))
  if is_header and not any(names[1] in cells for _, cells in rows[1:]):
    text = "%s, line %d: left out, because it is a header (%s)"
    logging.info(text, path, line, ", ".join(names))
    result, rows = {line}, rows[1:]
  ids = {cells[0] for _, cells in rows} if columns[0] else set()
  others = {one for one in ids if not one.isdigit()}
  if "1" in ids and others and all(map(_ID.fullmatch, others)):
    lines = {line for line, cells in rows if cells[0] in others}
    if columns[1:]:
      text = "%s: left out %d lines with ids such as %s (ranges, empty nodes)"
      logging.info(text, path, len(lines), min(others))
    result |= lines
  return result


def _parse(line: str) -> tuple[str, list[str]]:
  """Kind and cells of a line; the kind is "#" for a possible comment."""
  if line.startswith(_STARTS):
    return "start", []
  if not (stripped := line.rstrip(" \t")):
    return "blank", []
  # Only U+0020 separates columns: in texts of the web, other blanks are words.
  cells = [cell for cell in stripped.split(" ") if cell]
  if "\t" in stripped:
    cells = [cell.strip(" ") for cell in stripped.split("\t")]
    if line.startswith(" \t"):
      cells[0] = BLANK
  return "#" if line.startswith("#") else "words", cells


def _is_row(cells, widths, tags, column) -> bool:
  """True if a line such as "#topic O" is a word, not a comment."""
  is_name = " " not in cells[0] and cells[0].strip("#")
  tag = "".join(cells[column:][:1])
  is_known = " " not in cells[0] + tag and recognize({tag}).name
  is_tag = tag in tags or tag == cells[0] or is_known
  return len(cells) in widths and bool(is_name or is_tag)


def _check_rows(path, rows, tags) -> None:
  """Raises ValueError for lines such as Ann/B-PER, a table, or running text."""
  for separator in ",; /|_":
    end = -1 if separator in ",; " else None  # as in "Ann, B-PER"
    joined = [
      (number, cells[0])
      for number, cells in rows
      if all(separator in cell[1:] for cell in cells[:end] or cells)
    ]
    if 2 * len(joined) > len(rows):
      number, cell = joined[0]
      table = "; run_classifier.py reads tables of texts" * (separator == " ")
      raise UserError(
        f"{path}, line {number}: {separator!r} is in {cell[:40]!r}, as in most "
        f"lines: {_REMEDY}{table}"
      )
  widths = [len(cells) for _, cells in rows]
  changes = list(map(ne, widths, widths[1:]))
  is_prose = 2 * sum(changes) > len(rows) and len({*widths}) > 2
  is_prose |= not recognize(tags).name and 2 * len(tags) > len(rows)
  is_prose |= bool(re.fullmatch(r"[^\w-]+", "".join(tags)))  # as in "Ann ran ."
  if is_prose and any(changes):
    raise UserError(
      f"{path}, line {rows[changes.index(True) + 1][0]}: another number of "
      f"columns than before, as in running text: {_REMEDY}"
    )
  if is_prose and len(rows) == 1 and widths[0] > 2:
    raise UserError(f"{path} is a line of running text: {_REMEDY}")
  if {*widths} == {1}:  # Chinese and Thai text has no blanks
    cells = [cells[0] for _, cells in rows]
    ends = sum(cell[-1] in "。！？।؟" for cell in cells if cell[1:])
    letters = len(_UNSPACED.findall("".join(cells)))
    is_long = len(rows) >= 20 and letters > 8 * len(rows)
    if 2 * ends > len(rows) or is_long:
      raise UserError(f"{path}: {cells[0][:40]!r} is running text: {_REMEDY}")


def _check_columns(path, rows, columns, tags) -> None:
  """Raises ValueError if columns have no words or tags; warns if in doubt."""
  words = [(line, word) for line, row in rows for word in row[columns[0] :][:1]]
  doubtful = [cell for cell in words if "," in cell[1] or '"' in cell[1]]
  is_quoted = all(_QUOTED.fullmatch(word) for _, word in doubtful)
  if doubtful and is_quoted and columns[1:]:
    text = "%s, line %d: quotes as in .csv are read as text: %s; write words "
    text += "without them (pandas: quoting=csv.QUOTE_NONE), or JSON lines"
    logging.warning(text, path, *doubtful[0])
  repeats = {(line + 1, word) for line, word in words} & {*words}
  names = [word for _, word in words]
  has_more = len(names) > 1 and all(len(row) > len(columns) for _, row in rows)
  if has_more and all(map(_NUMBER.fullmatch, names)):
    raise UserError(
      f"{path}: the words are numbers, as in column 0 of CoNLL-U; give "
      f"--word_column={columns[0] + 1}, and --tag_column for the tags"
    )
  is_repeated = (
    len(rows) >= 20
    and 2 * len(repeats) > len(rows)
    # Names of documents do not return after another name; words do.
    and sum(map(ne, names, names[1:])) < len({*names})
  )
  is_chain = re.fullmatch(r"(?=.*\(\d)[-_*\d()| ]+", " ".join(tags))  # (5 5) -
  if tags and (is_repeated or (is_chain and columns[1:])):
    raise UserError(
      f"{path}: {words[-1][1]!r} and {min(tags)!r} are no word and tag. Give "
      "--word_column and --tag_column, in CoNLL-2012 --word_column=3 "
      f"--tag_column=10; of a csv, {_REMEDY}"
    )
  has_tags = columns[1:] and any(len(cells) > 1 for _, cells in rows)
  if has_tags and len(rows) >= 20 and 2 * len(tags) > len(rows):
    text = "%s: %d different tags, such as %r, of %d words: is that the right "
    text += "%s? It may hold lemmas, ids or texts"
    numbers = len(tags), min(tags), len(rows)
    logging.warning(text, path, *numbers, setting("tag_column"))


def _pick(path, number, cells, columns) -> list[str]:
  """Returns a line's word, and its tag if `columns` has two numbers."""
  width = len(cells)
  start = f"{path}, line {number}: {number_of(width, 'column')}, so that"
  if not all(-width <= column < width for column in columns):
    raise UserError(
      f"{start} there is no column {max(columns, key=abs)}; is the separator a "
      "tab or a blank?"
    )
  if len({column % width for column in columns}) < len(columns):
    raise UserError(
      f"{start} columns {columns[0]} and {columns[1]} are the same one; "
      "expected a word and its tag"
    )
  result = [cells[column] for column in columns]
  if not all(result):
    raise UserError(f"{path}, line {number}: the word or the tag is empty")
  return result


def has_tags(path: str, columns: Columns) -> bool:
  """Returns whether any line has a word and a tag."""
  for number, line in enumerate(textfiles.text_lines(path), 1):
    kind, cells = _parse(line)
    if _is_json(path, line):
      if re.search(rf'"({"|".join(_KEYS[1])})"\s*:', line):
        return True
    elif kind == "words":
      with suppress(ValueError):
        _pick(path, number, cells, columns)
        return True
  return False
