"""Sentences with tags, from columns (CoNLL) or JSON lines.

A blank line ends a sentence. A line with a tab is split at tabs, any other line
at blanks. KLUE's files have one character a line, and BLANK for a blank. A line
that begins with "#" is a comment, unless it looks like a word with a tag.
"""

import json
import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from storage import UserError, number_of, textfiles
from tasks.ner.schemes import OUTSIDE, Scheme

# Beginnings of the lines between documents, in CoNLL, OntoNotes and CoNLL-U.
_STARTS = ("-DOCSTART-", "#begin document", "#end document", "# newdoc")
BLANK = "\u2581"  # stands for a blank, as in SentencePiece
_NUMBER = re.compile(r"\d[\d.:-]*")  # of a word in a sentence, or offsets
_ID = re.compile(r"\d+[-.]\d+")  # CoNLL-U: 2-3 is a range, 2.1 an empty node
# A tag in CoNLL-U's last column, such as NER=B-PER|SpaceAfter=No.
_NAMED = re.compile(r"(?:^|\|)\w+=([BIESMLUW]-[^|]+)")
_BRACKETS = re.compile(r"(\([^()*]+)?\*?\)?")  # CoNLL-2012 writes (PER* *) *
# Keys of JSON lines, for words and tags.
_KEYS = (("tokens", "words"), ("ner_tags", "tags", "labels", "ner"))
_REMEDY = (
  "write each word on a line, then a tab and its tag, and a blank line after "
  "each sentence"
)
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

  Raises OSError. Raises ValueError for an unknown layout or a wrong row.
  """
  columns = tuple(c for c in (word_column, tag_column) if c is not None)
  lines = [*textfiles.text_lines(path)]  # the file may be a pipe
  first = next(filter(str.strip, lines), "")
  by_name = bool(re.search(r"\.jsonl?(\.gz|\.zst)?$", path))
  read = _read_json if by_name or first.startswith('{"') else _read_columns
  sentences = list(read(path, lines, columns))
  if not sentences:
    raise UserError(f"{path} has no words")
  return sentences


def _read_json(path, texts, columns) -> Iterator[Sentence]:
  kinds = _KEYS[: len(columns)]
  for line, values in textfiles.json_objects(path, texts):
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
  raise UserError(
    f"{where}: expected {' or '.join(keys)} with a list of texts, none empty "
    f"(names of tags, not numbers), but there is {json.dumps(shown)[:80]}"
  )


class _Line(NamedTuple):
  number: int  # from 1
  kind: str  # "words", "start", "blank", or "#" for a possible comment
  cells: list[str]


def _read_columns(path, texts, columns) -> list[Sentence]:
  lines = [_parse(number, text) for number, text in enumerate(texts, 1)]
  if columns[0]:
    lines = [line for line in lines if not _ID.fullmatch(line.cells[0])]
  rows = [line for line in lines if line.kind == "words"]
  _check_rows(path, rows[:1000], columns[0])
  widths = {len(row.cells) for row in rows}
  tags = {tag for row in rows for tag in row.cells[columns[-1] :][:1]}

  def find_kind(line):
    """Lines such as "#topic O" are words. They have as many columns as words.

    The word "#" has the tag of a word, too, or the tag "#".
    """
    first, tag = line.cells[0], "".join(line.cells[columns[-1] :][:1])
    if line.kind != "#" or " " in first or len(line.cells) not in widths:
      return line.kind
    is_word = first.strip("#") or tag in tags or tag == first
    return "words" if is_word else "#"

  sentences: list[Sentence] = []
  document = 0
  for kind, group in groupby(lines, find_kind):
    if kind == "start":
      document += bool(sentences)
    elif kind == "words":
      block = [*group]
      picked = [_pick(path, line, block[0], columns) for line in block]
      words, *more = map(list, zip(*picked, strict=True))
      known_tags = more[0] if more else None
      numbers = [line.number for line in block]
      sentences.append(Sentence(words, known_tags, document, numbers))
  return _decode_tags(sentences) if columns[1:] else sentences


def _parse(number, text) -> _Line:
  if text.startswith(_STARTS):
    return _Line(number, "start", [""])
  stripped = text.rstrip(" \t")
  # Only U+0020 separates columns: in texts of the web, other blanks are words.
  cells = [cell for cell in stripped.split(" ") if cell]
  if "\t" in stripped:
    cells = [cell.strip(" ") for cell in stripped.split("\t")]
    if text.startswith(" \t"):
      cells[0] = BLANK
  if not cells:
    return _Line(number, "blank", [""])
  return _Line(number, "#" if text.startswith("#") else "words", cells)


def _check_rows(path, rows, word_column) -> None:
  """Raises ValueError for lines such as Ann/B-PER, or a column of numbers."""
  # A line of a .csv is one cell, or several, as in "Sentence: 1,Ann,O".
  lines = [x for *_, x in rows if len(x) == 1 or x[-1].endswith((",O", ";O"))]
  is_csv = 2 * len(lines) >= len(rows)
  for separator in ",;/|_":
    first = -1 if is_csv and separator in ",;" else 0
    joined = [
      row
      for row in rows
      if all(separator in cell[1:] for cell in row.cells[first:])
    ]
    if 2 * len(joined) > len(rows):
      number, _, cells = joined[0]
      raise UserError(
        f"{path}, line {number}: {separator!r} is in {cells[-1][:40]!r}, as in "
        f"most lines: {_REMEDY}"
      )
  words = [word for row in rows for word in row.cells[word_column:][:1]]
  has_more = all(len(row.cells) > 2 for row in rows)
  if rows and has_more and all(map(_NUMBER.fullmatch, words)):
    raise UserError(
      f"{path}: {words[0]!r} and so on in column {word_column} are numbers, "
      "not words: give --word_column and --tag_column. In CoNLL-U, words are "
      "in column 1"
    )


def _pick(path, line, first, columns) -> list[str]:
  """Returns a line's word, and its tag if `columns` has two numbers.

  The `first` line of the sentence must have as many columns.
  """
  cells, width = line.cells, len(line.cells)
  where = f"{path}, line {line.number}"
  if width != len(first.cells):
    raise UserError(
      f"{where}: {number_of(width, 'column')}, but line {first.number} has "
      f"{len(first.cells)}: {_REMEDY}"
    )
  exist = all(-width <= column < width for column in columns)
  if not exist or len({column % width for column in columns}) < len(columns):
    expected = " and ".join(map(str, columns))
    raise UserError(
      f"{where}: {number_of(width, 'column')}, but expected a word and its tag "
      f"in columns {expected}: {_REMEDY}"
    )
  result = [cells[column] for column in columns]
  if not all(result):
    raise UserError(f"{where}: the word or the tag is empty")
  return result


def _decode_tags(sentences) -> list[Sentence]:
  """Makes plain tags of CoNLL-2012's brackets, and of CoNLL-U's last column."""
  tags = {tag for sentence in sentences for tag in sentence.tags}
  if "*" in tags and all(map(_BRACKETS.fullmatch, tags)):
    decoded = []
    for sentence in sentences:
      result, kind = [], ""  # BIO, from brackets around each entity's words
      for tag in sentence.tags:
        begins = tag.startswith("(")
        kind = tag.strip("(*)") if begins else kind
        result.append(f"{'B' if begins else 'I'}-{kind}" if kind else "O")
        kind = "" if tag.endswith(")") else kind
      decoded.append(sentence._replace(tags=result))
    return decoded
  if any(map(_NAMED.search, tags)):
    named = {tag: match[1] for tag in tags if (match := _NAMED.search(tag))}
    return [
      s._replace(tags=[named.get(tag, OUTSIDE) for tag in s.tags])
      for s in sentences
    ]
  return sentences
