"""Text passages of Wikipedia articles and books: section 3.1 of the paper."""

import re
from collections.abc import Iterator

from data.pretraining import documents
from storage import UserError, files
from storage.progress import Progress

# What lists, tables and headers of an article begin with, in WikiExtractor's
# output or in wiki markup.
_MARKUP = re.compile(r"[*#|!=;:<{}•·–—-]|\d+[.)]\s|(BULLET|Section)::::")
_MIN_WORDS = 8  # of an article's passage; headers may end with a full stop
_MANY_WORDS = 20  # of a passage that need not end like a sentence
# Characters of a line; in a text with longer ones each is a paragraph.
_MAX_WRAPPED = 200
_CLOSING = r"""[\])}"'”’»_*]*$"""
_ARTICLE_SENTENCE_END = re.compile(rf"[.!?…。！？।]{_CLOSING}")
_BOOK_SENTENCE_END = re.compile(rf"[.!?…:;—。！？।-]\s*{_CLOSING}")
# Between the cells of a row of a table.
_GAP = re.compile(r"(?<=\S)(?:\s*\|\s*|\t|\s{4,})(?=\S)")
_LEADERS = re.compile(r"(?:\. ?){5,}")  # of a table of contents
_HEADING = re.compile(
  r"(?i:chapter|book|part|volume|act|scene|canto)\s+"
  r"(?:[IVXLC]+|\d+|(?i:the\s+\w+|one|two|three))[.:]?(?:\s|$)"
)
_MAX_HEADING_WORDS = 12
_ARTICLE_START = re.compile(r"\ufeff?<doc\b[^>]*>\s*$")
_ARTICLE_END = "</doc>"
# Around the text of a file of Project Gutenberg.
_LICENCE = re.compile(
  r"\*\*\* ?(START|END) OF TH(?:E|IS) PROJECT GUTENBERG", re.IGNORECASE
)


def read_wikipedia(path: str, progress: Progress) -> Iterator[list[str]]:
  """Yields the passages of each article in an output file of WikiExtractor.

  These are <doc ...> blocks or JSON lines with a `text`. Raises ValueError if
  it is no such file.
  """
  for article in _articles(path):
    paragraphs = [[line] for line in article if line.strip()]
    yield _select(paragraphs, _is_article_passage, progress)


def _articles(path) -> Iterator[list[str]]:
  first = next(filter(str.strip, files.lines(path)), "")
  if first.lstrip("\ufeff").startswith("{"):
    yield from documents.json_texts(path, "text", remedy="see WikiExtractor")
    return
  article: list[str] | None = None
  for number, line in enumerate(files.lines(path), 1):
    if _ARTICLE_START.match(line):
      if article is not None:
        raise UserError(
          f"{path}, line {number}: an article begins within another, which has "
          f"no {_ARTICLE_END}; extract it again with WikiExtractor"
        )
      article = []
    elif article is None and line.strip():
      raise UserError(
        f"{path}, line {number}: {line[:40]!r} is not within <doc ...> and "
        f"{_ARTICLE_END}; --source=wikipedia reads the output of WikiExtractor"
      )
    elif article is not None and line.strip() == _ARTICLE_END:
      yield article
      article = None
    elif article is not None:
      article.append(line)
  if article is not None:
    raise UserError(f"{path} ends within an article, without {_ARTICLE_END}")


def _is_article_passage(text):
  """True for text, False for headers and list items."""
  number = len(text.split())
  if number == 1:  # in a script without blanks three characters are a word
    number = len(text) // 3
  return (
    number >= _MIN_WORDS
    and not _MARKUP.match(text)
    and _is_complete(text, _ARTICLE_SENTENCE_END)
  )


def read_book(path: str, progress: Progress) -> list[str]:
  """Reads the passages of a book, without Project Gutenberg's licence."""
  lines: list[str] = []
  for line in files.lines(path):
    if (mark := _LICENCE.search(line)) and mark[1].upper() == "END":
      break
    if mark:
      lines.clear()
    else:
      lines.append(line)
  blocks = []
  for block in documents.split_documents(lines):
    is_wrapped = max(map(len, block)) <= _MAX_WRAPPED
    blocks += [block] if is_wrapped else [[line] for line in block]
  return _select(blocks, _is_book_passage, progress)


def _is_book_passage(text):
  """True for text, False for headings."""
  is_heading = text.isupper() or (
    _HEADING.match(text) and len(text.split()) <= _MAX_HEADING_WORDS
  )
  return (
    not is_heading
    and any(map(str.isalpha, text))
    and _is_complete(text, _BOOK_SENTENCE_END)
  )


def _is_row(line):
  """True for a row of a table, or of a table of contents."""
  has_cells = len(_GAP.findall(line)) > 1 or _LEADERS.search(line)
  return bool(has_cells) and len(line.split()) < _MANY_WORDS


def _is_complete(text, end):
  """True if a text ends like a sentence, or is long."""
  return bool(end.search(text)) or len(text.split()) >= _MANY_WORDS


def _select(paragraphs, is_passage, progress) -> list[str]:
  """Paragraphs, given as lines, that are passages; counts the others."""
  texts = (
    " ".join(map(str.strip, lines))
    for lines in paragraphs
    if 2 * sum(map(_is_row, lines)) < len(lines)
  )
  result = list(filter(is_passage, texts))
  progress.add(0, dropped_paragraphs=len(paragraphs) - len(result))
  return result
