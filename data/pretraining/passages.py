"""Finds passages in Wikipedia articles and books (section 3.1 of the paper)."""

import re
from collections.abc import Iterator
from itertools import chain

from data.pretraining.documents import split_documents
from data.pretraining.sentences import CLOSING, MARKS
from storage import Progress, UserError, setting, textfiles

# The start of lists, tables and headers of an article, in WikiExtractor's
# output or in wiki markup.
_MARKUP = re.compile(r"[*#|!=;:<{}•·–—-]|\d+[.)]\s|(BULLET|Section)::::")
_MIN_WORDS = 8  # fewer words in an article may be a header with a full stop
_MANY_WORDS = 20  # a passage with so many words need not end like a sentence
# Characters of most scripts without blanks between words.
_BLANKLESS = re.compile("[\u0e00-\uffff]")
# Characters. In a block with a longer line, each line is a paragraph.
_MAX_WRAPPED = 200
_CLOSING = rf"[{CLOSING}»]*$"
_ARTICLE_SENTENCE_END = re.compile(rf"[{MARKS}]{_CLOSING}")
_BOOK_SENTENCE_END = re.compile(rf"[{MARKS}:;—-]\s*{_CLOSING}")
# The gap between two cells of a table row.
_GAP = re.compile(r"(?<=\S)(?:\s*\|\s*|\t|\s{4,})(?=\S)")
_LEADERS = re.compile(r"(?:\. ?){5,}")  # dots of a table of contents
_CHAPTER = re.compile(
  r"(?i:chapter|book|part|volume|act|scene|canto) [IVXLC\d]+"
)
_MAX_HEADING_WORDS = 12
_ARTICLE_START = re.compile(r"\ufeff?<doc\b[^>]*>\s*$")
# The marks around the text in a file of Project Gutenberg.
_LICENCE = re.compile(
  r"\*\*\* ?(START|END) OF TH(?:E|IS) PROJECT GUTENBERG", re.IGNORECASE
)


def read_wikipedia(path: str, progress: Progress) -> Iterator[list[str]]:
  """Yields the passages of each article in an output file of WikiExtractor.

  An article is a <doc ...> block or a JSON line with a `text`. Raises
  ValueError for anything else.
  """
  for article in _articles(path):
    paragraphs = [[line] for line in article if line.strip()]
    yield _select(paragraphs, _is_article_passage, progress)


def _articles(path) -> Iterator[list[str]]:
  lines = textfiles.lines(path)  # read once, because the file may be a pipe
  first = next(lines, "")
  lines = chain([first], lines)
  if first.lstrip("\ufeff").startswith("{"):
    remedy = "see WikiExtractor"
    yield from textfiles.json_texts(path, "text", lines, remedy=remedy)
    return
  article: list[str] | None = None
  for number, line in enumerate(lines, 1):
    if _ARTICLE_START.match(line):
      article = []
    elif article is not None and line.strip() == "</doc>":
      yield article
      article = None
    elif article is not None:
      article.append(line)
    elif line.strip():
      raise UserError(
        f"{path}, line {number}: {line[:40]!r} is not within <doc ...> and "
        f"</doc>; {setting('source', 'wikipedia')} reads the output of "
        "WikiExtractor"
      )
  if article is not None:
    raise UserError(f"{path} ends within an article, without </doc>")


def _is_article_passage(text):
  """True for text, False for headers and list items."""
  number = len(text.split())
  # In scripts without blanks, count three characters as a word.
  words = max(number, len(_BLANKLESS.findall(text)) // 3)
  is_complete = number >= _MANY_WORDS or _ARTICLE_SENTENCE_END.search(text)
  return is_complete and words >= _MIN_WORDS and not _MARKUP.match(text)


def read_book(path: str, progress: Progress) -> list[str]:
  """Reads the passages of a book, without Project Gutenberg's licence."""
  lines: list[str] = []
  for line in textfiles.lines(path):
    if (mark := _LICENCE.search(line)) and mark[1].upper() == "END":
      break
    if mark:
      lines.clear()
    else:
      lines.append(line)
  blocks = []
  for block in split_documents(lines):
    is_wrapped = max(map(len, block)) <= _MAX_WRAPPED
    blocks += [block] if is_wrapped else [[line] for line in block]
  return _select(blocks, _is_book_passage, progress)


def _is_book_passage(text):
  """True for text, False for headings."""
  number = len(text.split())
  if text.isupper() or (_CHAPTER.match(text) and number <= _MAX_HEADING_WORDS):
    return False
  is_complete = number >= _MANY_WORDS or _BOOK_SENTENCE_END.search(text)
  return is_complete and any(map(str.isalpha, text))


def _select(paragraphs, is_passage, progress) -> list[str]:
  """Joins the lines of each passage; counts paragraphs that are no passage."""
  result = []
  for lines in paragraphs:
    is_table = 2 * sum(map(_is_row, lines)) >= len(lines)
    text = " ".join(map(str.strip, lines))
    if is_passage(text) and not is_table:
      result.append(text)
  progress.add(0, dropped_paragraphs=len(paragraphs) - len(result))
  return result


def _is_row(line):
  """True for a row of a table or of a table of contents."""
  has_cells = len(_GAP.findall(line)) > 1 or _LEADERS.search(line)
  return bool(has_cells) and len(line.split()) < _MANY_WORDS
