"""CoNLL files to tagged sentences: a word a line, blank lines in between.

Columns are separated by tabs if a line has one, else by blanks. The word
"-DOCSTART-" begins a document. In files of characters, as KLUE's, a row of a
blank is the word BLANK, and lines as "## id<tab>text" are comments.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import groupby
from typing import NamedTuple

from absl import logging

from data import labels
from storage import UserError, textfiles
from storage.progress import number_of

DOCUMENT_START = "-DOCSTART-"
OUTSIDE = "O"
BLANK = "\u2581"  # as in SentencePiece
_PREFIXES = {"B": "B", "I": "I", "E": "E", "S": "S", "L": "E", "U": "S"}
_LONG = 200  # words; a longer sentence may be several
# Columns of words and tags; negative numbers count from the last one.
Columns = tuple[int, int]


class Sentence(NamedTuple):
  """Words, unchanged, with their tags."""

  words: list[str]
  tags: list[str] | None  # None if the file has none
  document: int = 0  # number, from 0
  line: int = 1  # number of the first word's line, from 1; the others follow


def read_sentences(
  path: str, word_column: int = 0, tag_column: int | None = -1
) -> list[Sentence]:
  """Reads the sentences of a file; with None as `tag_column` without tags.

  Raises OSError, or ValueError if a line has too few columns (it is named),
  there is no word, or the file is a table of texts.
  """
  columns = tuple(c for c in (word_column, tag_column) if c is not None)
  sentences: list[Sentence] = []
  widths: dict[int, int] = {}  # number of columns -> the first line with it
  document = 0
  for line_type, lines in groupby(
    enumerate(textfiles.text_lines(path), 1),
    key=lambda pair: _line_type(pair[1]),
  ):
    if line_type == "start":
      document += bool(sentences)
    elif line_type == "words":
      rows = list(lines)
      cells = [_cells(*row, columns, path, widths) for row in rows]
      words, *more = map(list, zip(*cells, strict=True))
      tags = more[0] if more else None
      sentences.append(Sentence(words, tags, document, rows[0][0]))
  if not sentences:
    raise UserError(f"{path} has no words")
  _check_layout(path, sentences)
  if len(widths) > 1 and min(columns) < 0:
    (width, line), (other_width, other_line), *_ = widths.items()
    text = "%s, line %d: %d columns, but line %d has %d; is something missing?"
    logging.warning(text, path, other_line, other_width, line, width)
  return sentences


def _check_layout(path, sentences):
  """Raises ValueError for a table of texts; warns of a file as one sentence."""
  words = [word for sentence in sentences for word in sentence.words]
  texts = [word for word in words if " " in word]
  if 2 * len(texts) > len(words):
    raise UserError(
      f"{path} looks like a table of texts, such as {texts[0][:40]!r}: here a "
      "line has one word and its tag, and a blank line ends a sentence. "
      "run_classifier.py --task_name=tsv reads tables"
    )
  if len(sentences) == 1 and len(words) > _LONG:
    text = "%s: all %d words are one sentence; a blank line should end each"
    logging.warning(text, path, len(words))


def _line_type(line: str) -> str:
  if line.startswith(DOCUMENT_START):
    return "start"
  if line.startswith("## ") and "\t" in line:
    return "comment"
  return "words" if line.strip(" \t") else "blank"


def _cells(number, line, columns, path, widths) -> list[str]:
  """Cells of some columns of a line; enters its width into `widths`."""
  # Blanks are U+0020 only: others may be words, as in texts of the web.
  if "\t" in line:
    cells = [cell.strip(" ") for cell in line.split("\t")]
    if line.startswith(" \t"):
      cells[0] = BLANK
  else:
    cells = [cell for cell in line.split(" ") if cell]
  width = len(cells)
  widths.setdefault(width, number)
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


def split_tag(tag: str) -> tuple[str, str]:
  """Splits a tag into its prefix and the type of its entity.

  "B-PER" is ("B", "PER"), "B" alone ("B", ""), "O" ("O", ""), and "PER" counts
  as "I-PER". L(ast) and U(nit) of BILOU are E and S of BIOES.
  """
  if tag == OUTSIDE:
    return OUTSIDE, ""
  prefix, _, entity_type = tag.partition("-")
  if prefix not in _PREFIXES:
    return "I", tag
  return _PREFIXES[prefix], entity_type


def mark_entities(tags: Iterable[str]) -> bool:
  """True unless the tags are of single words, such as parts of speech."""
  return any(
    tag == OUTSIDE or split_tag(tag)[1] not in ("", tag) for tag in tags
  )


def tag_set(sentences: Iterable[Sentence]) -> tuple[str, ...]:
  """All tags: "O", then sorted by type, and within a type by prefix.

  Every type has the prefixes that any type has: with B-PER, I-PER and B-LOC,
  I-LOC is a tag, too. Tags that do not mark entities are sorted, without "O".
  """
  tags = {tag for sentence in sentences for tag in sentence.tags or ()}
  if tags and not mark_entities(tags):
    return tuple(sorted(tags))
  tags.discard(OUTSIDE)
  typed = {tag for tag in tags if tag[1:] == f"-{split_tag(tag)[1]}"}
  tags |= {prefix[:2] + tag[2:] for prefix in typed for tag in typed}
  by_type = sorted(tags, key=lambda tag: (split_tag(tag)[1], tag))
  return (OUTSIDE, *by_type)


def require_known(
  sentences: Iterable[Sentence], tags: Sequence[str], path: str
) -> None:
  """Raises ValueError, with file and line, if a model cannot predict a tag."""
  for sentence in sentences:
    for number, tag in enumerate(sentence.tags or (), sentence.line):
      if tag not in tags:
        raise UserError(
          f"{path}, line {number}: {tag!r} is none of the model's tags, which "
          f"are {labels.known_labels(tags)}"
        )


def find_tags(train_file: str, columns: Columns) -> labels.LabelSet:
  """Tags of a training file, as `tag_set`; ValueError if there is only one."""
  sentences = read_sentences(train_file, *columns)
  tags = tag_set(sentences)
  if len(tags) < 2:
    raise UserError(
      f"{train_file}: every tag is {tags[0]!r}; are they in another column?"
    )
  return labels.LabelSet(tags, train_file)


def read_tagged(
  path: str, columns: Columns, tags: Sequence[str], needs_tags: bool
) -> list[Sentence]:
  """Reads sentences, with their tags if the model knows all of them.

  Raises OSError, or ValueError for another file and without needed tags.
  """
  try:
    sentences = read_sentences(path, *columns)
    require_known(sentences, tags, path)
  except ValueError as error:
    if needs_tags:
      raise
    sentences = read_sentences(path, columns[0], None)
    if _has_tags(path, columns):
      logging.warning("words are tagged, but nothing is scored: %s", error)
    else:
      logging.info("%s has no tags: words are tagged, but not scored", path)
    return sentences
  all_tags = [tag for sentence in sentences for tag in sentence.tags or ()]
  labels.log_labels(path, all_tags, unit="word")
  others = sorted(tag for tag in {*all_tags} if tag[1:2] not in ("", "-"))
  if others and any(tag[1:2] == "-" for tag in all_tags):
    logging.warning(
      "%s has tags with a prefix and others without, such as %s: is it spelled "
      "wrongly?",
      path,
      ", ".join(others[:5]),
    )
  return sentences


def _has_tags(path, columns) -> bool:
  """True if any line with a word has a tag, too."""
  for number, line in enumerate(textfiles.text_lines(path), 1):
    if _line_type(line) == "words":
      with suppress(ValueError):
        _cells(number, line, columns, path, {})
        return True
  return False
