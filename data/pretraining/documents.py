"""Finds documents, paragraphs, passages and duplicates in texts.

The choice of passages follows section 3.1 of the paper.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import chain, groupby

from data.pretraining.sentences import (
  BLANKLESS,
  CLOSING,
  MARKS,
  UNSPLIT,
  is_unsplit,
  split_sentences,
)
from storage import Progress, UserError, files, setting, textfiles

Document = list[list[int]]  # ids of the tokens of each sentence
_COMPRESSION_RATIO = 3  # approximate bytes of text per compressed byte


def split_documents(lines: Iterable[str]) -> Iterator[list[str]]:
  """Groups lines into documents at blank lines, which are dropped."""
  for is_text, group in groupby(lines, lambda line: bool(line.strip())):
    if is_text:
      yield list(group)


def paragraphs(lines: Iterable[str]) -> Iterator[str]:
  """Joins the lines of each paragraph. Blank lines separate paragraphs."""
  parts = chain.from_iterable(line.split("\r") for line in lines)
  for document in split_documents(parts):
    yield " ".join(map(str.strip, document))


@dataclass(frozen=True)
class TextFormat:
  """Layout of documents in text files.

  "lines" has one sentence a line and a blank line between documents, as in the
  original. "paragraphs" is prose with a blank line between documents.
  "documents" is prose with one document a file. `field` names the field of JSON
  lines that holds such a text; None stands for plain text.
  """

  layout: str = "lines"
  field: str | None = None

  @property
  def is_prose(self) -> bool:
    """True if the text has to be split into sentences."""
    return self.layout != "lines"

  def lines(
    self, path: str, start: int = 0, end: int | None = None
  ) -> Iterator[str]:
    """Yields the sentences and blank lines of a file, in the original's format.

    Documents begin at the bytes `start` and `end`; None is the end of the file.
    Raises ValueError if a line is not UTF-8 or no JSON object with the field.
    """
    if self.field:
      texts = textfiles.json_texts(path, self.field, start, end)
    else:
      texts = [textfiles.lines(path, start, end)]
    for text in texts:
      if not self.is_prose:
        yield from text
      else:
        for paragraph in paragraphs(text):
          yield from split_sentences(paragraph)
          if self.layout == "paragraphs":
            yield ""
      if self.field or self.is_prose:
        yield ""

  def is_divisible(self, path: str) -> bool:
    """True if JSON lines or blank lines divide the bytes of a file."""
    is_document = self.layout == "documents" and not self.field
    return not (is_document or path.endswith(textfiles.COMPRESSED))


def read_documents(
  lines: Iterable[str],
  ids: Callable[[str], list[int]],
  progress: Progress,
  min_tokens: int = 1,
  max_tokens: int | None = None,
) -> list[Document]:
  """Tokenizes lines, one segment each. A blank line ends a document.

  Drops segments of fewer than `min_tokens` and documents without segments.
  Splits segments of more than `max_tokens`.
  """
  corpus = []
  document = []
  for line in lines:
    text = line.replace("\r", "").strip()  # as the original reads lines
    segment = ids(text) if text else []
    if len(segment) >= min_tokens:
      if max_tokens and len(segment) > max_tokens:
        document += [
          segment[start : start + max_tokens]
          for start in range(0, len(segment), max_tokens)
        ]
        progress.add(0, cut_lines=1)
      else:
        document.append(segment)
    elif text:
      progress.add(0, dropped_lines=1)
    elif document:
      corpus.append(document)
      document = []
    megabytes = (len(line.encode()) + 1) / 1e6
    progress.add(megabytes, lines=1, tokens=len(segment))
  if document:
    corpus.append(document)
  progress.add(0, documents=len(corpus), sentences=sum(map(len, corpus)))
  return corpus


def text_size(path: str) -> int:
  """Size of a text in bytes, estimated if it is compressed."""
  factor = _COMPRESSION_RATIO if path.endswith(textfiles.COMPRESSED) else 1
  return factor * files.size(path)


# --- Texts that make poor records -------------------------------------------

_JOINT = re.compile(r"\w[\r\v\f\x85]+\w")  # cleaning joins these words


def doubts(
  lines: Sequence[str], is_prose: bool, words: Callable, max_words: int
) -> Iterator[str]:
  """Yields warnings about the first lines, or sentences, of a corpus.

  `words` splits a text. A record has `max_words` at most.
  """
  texts = list(split_documents(lines))
  sentences = list(chain.from_iterable(texts))
  noun = "sentences" if is_prose else "lines"
  some = f"of the first {len(sentences):,} {noun}"
  if 0 < 0.5 * len(texts) <= (single := sum(len(text) == 1 for text in texts)):
    yield (
      f"{single:,} of the first {len(texts):,} documents have one sentence, "
      "and thus a random next one: put blank lines between documents only, "
      f"or all of a document into a JSON line, or see {setting('input_format')}"
    )
  cut = [len(words(text[: 10 * max_words])) > max_words for text in sentences]
  if is_prose and (unsplit := sum(map(is_unsplit, sentences))):
    yield f"{unsplit:,} {some} {UNSPLIT}"
  elif not is_prose and sum(cut) > 0.1 * len(cut):
    yield (
      f"{sum(cut):,} {some} have more words than "
      f"{setting('max_seq_length', max_words)} and are cut; "
      "split_sentences.py makes a line of each sentence"
    )
  if joints := sum(bool(_JOINT.search(line)) for line in sentences):
    yield (
      f"{joints:,} {some} have a carriage return or form feed between words, "
      "which are joined, as in the original: replace it by a blank"
    )


# --- Passages of Wikipedia articles and books -------------------------------

# The start of lists, tables and headers of an article, in WikiExtractor's
# output or in wiki markup.
_MARKUP = re.compile(r"[*#|!=;:<{}•·–—-]|\d+[.)]\s|(BULLET|Section)::::")
_MIN_WORDS = 8  # in an article's passage; headers may end with a full stop
_MANY_WORDS = 20  # in a passage that need not end like a sentence
# Characters in a line. In a block with a longer line, each line is a paragraph.
_MAX_WRAPPED = 200
_CLOSING = rf"[{CLOSING}»*]*$"
_ARTICLE_SENTENCE_END = re.compile(rf"[{MARKS}]{_CLOSING}")
_BOOK_SENTENCE_END = re.compile(rf"[{MARKS}:;—-]\s*{_CLOSING}")
# The gap between two cells of a table row.
_GAP = re.compile(r"(?<=\S)(?:\s*\|\s*|\t|\s{4,})(?=\S)")
_LEADERS = re.compile(r"(?:\. ?){5,}")  # dots of a table of contents
_CHAPTER = re.compile(
  r"(?i:chapter|book|part|volume|act|scene|canto)\s+"
  r"(?:[IVXLC]+|\d+|(?i:the\s+\w+|one|two|three))[.:]?(?:\s|$)"
)
_MAX_HEADING_WORDS = 12
_ARTICLE_START = re.compile(r"\ufeff?<doc\b[^>]*>\s*$")
_ARTICLE_END = "</doc>"
# The marks around the text in a file of Project Gutenberg.
_LICENCE = re.compile(
  r"\*\*\* ?(START|END) OF TH(?:E|IS) PROJECT GUTENBERG", re.IGNORECASE
)


def read_wikipedia(path: str, progress: Progress) -> Iterator[list[str]]:
  """Yields the passages of each article in an output file of WikiExtractor.

  An article is a <doc ...> block or a JSON line with a `text`, else ValueError.
  """
  for article in _articles(path):
    paragraphs = [[line] for line in article if line.strip()]
    yield _select(paragraphs, _is_article_passage, progress)


def _articles(path) -> Iterator[list[str]]:
  lines = textfiles.lines(path)  # read once, as the file may be a pipe
  head: list[str] = []
  for line in lines:
    head.append(line)
    if line.strip():
      break
  lines = chain(head, lines)
  if head and head[-1].lstrip("\ufeff").startswith("{"):
    remedy = "see WikiExtractor"
    yield from textfiles.json_texts(path, "text", remedy=remedy, read=lines)
    return
  article: list[str] | None = None
  for number, line in enumerate(lines, 1):
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
        f"{_ARTICLE_END}; {setting('source', 'wikipedia')} reads the output of "
        "WikiExtractor"
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
  # In scripts without blanks, count three characters as a word.
  words = max(number, len(BLANKLESS.findall(text)) // 3)
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


def _is_row(line):
  """True for a row of a table or of a table of contents."""
  has_cells = len(_GAP.findall(line)) > 1 or _LEADERS.search(line)
  return bool(has_cells) and len(line.split()) < _MANY_WORDS


def _select(paragraphs, is_passage, progress) -> list[str]:
  """Joins the lines of paragraphs that are passages; counts the others."""
  texts = (
    " ".join(map(str.strip, lines))
    for lines in paragraphs
    if 2 * sum(map(_is_row, lines)) < len(lines)
  )
  result = list(filter(is_passage, texts))
  progress.add(0, dropped_paragraphs=len(paragraphs) - len(result))
  return result


# --- Duplicates, in lines as from TextFormat.lines -------------------------


def digest(document: Iterable[str]) -> int:
  """Hash of a document, 64 bits, that ignores the amount of white space.

  The probability of a collision among n different documents is n**2 / 2**65:
  one in 3,700 for a hundred million documents.
  """
  text = "\n".join(" ".join(line.split()) for line in document)
  return int.from_bytes(blake2b(text.encode(), digest_size=8).digest())


def drop_documents(
  lines: Iterable[str], progress: Progress, indices: Iterable[int] | None = None
) -> Iterator[str]:
  """Yields the lines of all documents except those at `indices`.

  Without indices, drops repeats; this takes about 80 bytes a document.
  """
  dropped = None if indices is None else frozenset(indices)
  seen = set()
  for index, document in enumerate(split_documents(lines)):
    if dropped is None:
      number = digest(document)
      is_dropped = number in seen
      seen.add(number)
    else:
      is_dropped = index in dropped
    if is_dropped:
      progress.add(0, dropped_documents=1)
    else:
      yield from document
      yield ""
