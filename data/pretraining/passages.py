"""Finds passages in Wikipedia articles and books (section 3.1 of the paper)."""

import html
import re
from collections.abc import Iterator
from itertools import chain

from absl import logging

from data.pretraining.documents import split_documents
from data.pretraining.sentences import CLOSING, MARKS
from storage import Progress, UserError, setting, textfiles

# Starts of lists, tables, headers in WikiExtractor's output or wiki markup.
_MARKUP = re.compile(r"[*#|!=;:<{}•·–—-]|\d+[.)]\s|(BULLET|Section)::::")
_MIN_WORDS = 8  # fewer words in an article may be a header with a full stop
_MANY_WORDS = 20  # a passage with so many words need not end like a sentence
# Characters of most scripts without blanks between words.
_BLANKLESS = re.compile("[\u0e00-\uffff]")
_CLOSING = rf"[{CLOSING}»]*$"
_ARTICLE_SENTENCE_END = re.compile(rf"[{MARKS}]{_CLOSING}")
_BOOK_SENTENCE_END = re.compile(rf"[{MARKS}:;—-]\s*{_CLOSING}")
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
    passages = []
    # WikiExtractor writes &lt;, &gt; and &amp;.
    paragraphs = [x for line in article if (x := html.unescape(line).strip())]
    for text in paragraphs:
      words = _num_words(text)
      is_complete = words >= _MANY_WORDS or _ARTICLE_SENTENCE_END.search(text)
      # Others are headers and list items.
      if is_complete and words >= _MIN_WORDS and not _MARKUP.match(text):
        passages.append(text)
    progress.add(0, dropped_paragraphs=len(paragraphs) - len(passages))
    yield passages


def _articles(path) -> Iterator[list[str]]:
  lines = textfiles.lines(path)  # read once, because the file may be a pipe
  first = next(lines, "")
  lines = chain([first], lines)
  if first.lstrip("\ufeff").startswith("{"):
    yield from textfiles.json_texts(path, "text", lines)
    return
  article: list[str] | None = None
  for number, line in enumerate(lines, 1):
    if _ARTICLE_START.match(line):
      if article:  # its </doc> is missing
        yield article
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
    logging.warning("%s ends within an article: is it complete?", path)
    yield article


def read_book(path: str, progress: Progress) -> list[str]:
  """Reads the passages of books, without Project Gutenberg's licences."""
  lines: list[str] = []
  is_text, is_first = True, True
  for line in textfiles.lines(path):
    if mark := _LICENCE.search(line):
      is_text = mark[1].upper() == "START"
      if is_text and is_first:
        lines.clear()  # the licence before the first book
      is_first = False
    elif is_text:
      lines.append(line)
  passages, blocks = [], list(split_documents(lines))
  for block in blocks:
    text = " ".join(map(str.strip, block))
    is_long = _num_words(text) >= _MANY_WORDS
    is_complete = is_long or _BOOK_SENTENCE_END.search(text)
    # Others are headings and ornaments.
    if is_complete and not text.isupper() and any(map(str.isalpha, text)):
      passages.append(text)
  progress.add(0, dropped_paragraphs=len(blocks) - len(passages))
  return passages


def _num_words(text):
  """Number of words; in scripts without blanks, a word has three characters."""
  return max(len(text.split()), len(_BLANKLESS.findall(text)) // 3)
