"""Documents in texts: sentences of prose, passages, duplicates.

Source of the choice of passages: section 3.1 of the paper.
"""

import re
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from itertools import chain, groupby

from storage import UserError, textfiles
from storage.progress import Progress


def split_documents(lines: Iterable[str]) -> Iterator[list[str]]:
  """Groups lines into documents: lists of lines, none of them blank."""
  for is_text, group in groupby(lines, lambda line: bool(line.strip())):
    if is_text:
      yield list(group)


def paragraphs(lines: Iterable[str]) -> Iterator[str]:
  """Joins the lines between blank lines into one string each."""
  for document in split_documents(lines):
    yield " ".join(map(str.strip, document))


# --- Sentences -------------------------------------------------------------

# A punctuation mark, closing quotes or brackets, white space, then a possible
# start of a sentence: an upper-case letter, a digit, an opening quote or
# bracket. Possessive quantifiers scan a run of marks once, in linear time.
_SENTENCE_END = re.compile(
  r"""(?<![.!?…])(?P<mark>[.!?…]++)['"”’»)\]]*+\s++"""
  r"""(?=['"“‘«(\[¿¡—-]*+[^\W_a-zß-öø-ÿ])"""
)
_WORD_START = re.compile(r"""[\s(\["'“‘]""")
# Lower-cased, without the full stop. None ends a sentence.
_ABBREVIATIONS = frozenset([
  "mr", "mrs", "ms", "messrs", "mt", "dr", "prof", "rev", "hon", "st", "sr",
  "jr", "gen", "col", "capt", "lieut", "lt", "sgt", "maj", "gov", "pres", "esq",
  "ed", "eds", "vs", "etc", "e.g", "i.e", "cf", "al", "viz", "fig", "vol", "no",
  "nos", "p", "pp", "ch", "sec",
])  # fmt: skip
_MAX_ABBREVIATION_LENGTH = 10
_HEADING = re.compile(r"\d{1,2}|[\uac00-\ud7a3]")  # its number or letter
_DATE = re.compile(r"\b\d{4}\.(?: \d{1,2}\.){1,2}(?= )")  # 2024. 3. 15.


def split_sentences(paragraph: str) -> list[str]:
  """Splits a paragraph into sentences; white space becomes single spaces."""
  text = " ".join(paragraph.split())
  in_dates = {i for date in _DATE.finditer(text) for i in range(*date.span())}
  sentences, begin = [], 0
  for end in _SENTENCE_END.finditer(text):
    near = max(begin, end.start() - _MAX_ABBREVIATION_LENGTH)
    if end["mark"] == "." and (
      _is_abbreviation(text[near : end.start()])
      or _HEADING.fullmatch(text, begin, end.start())
      or end.start() in in_dates
    ):
      continue
    sentences.append(text[begin : end.end()].rstrip())
    begin = end.end()
  sentences.append(text[begin:])
  return [sentence for sentence in sentences if sentence]


def _is_abbreviation(text: str) -> bool:
  """True if the last word of the text before a full stop is an abbreviation."""
  word = _WORD_START.split(text)[-1].lower()
  has_case = word != word.upper()  # a Hangul syllable is no initial
  initial = len(word) == 1 and has_case and word != "i"
  return initial or word in _ABBREVIATIONS


# --- Passages of Wikipedia articles and books -------------------------------

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
_CHAPTER = re.compile(
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

  These are <doc ...> blocks or JSON lines with a `text`, else ValueError.
  """
  for article in _articles(path):
    paragraphs = [[line] for line in article if line.strip()]
    yield _select(paragraphs, _is_article_passage, progress)


def _articles(path) -> Iterator[list[str]]:
  lines = textfiles.lines(path)  # of a file that may be a pipe
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
  is_heading = text.isupper() or (
    _CHAPTER.match(text) and len(text.split()) <= _MAX_HEADING_WORDS
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


# --- Duplicates, in lines as from TextFormat.lines -------------------------


def digest(document: Iterable[str]) -> int:
  """Hash of a document, 64 bits, that ignores the amount of white space.

  Among n different documents two have the same hash with a probability of n**2
  / 2**65: one in 3,700 for a hundred million.
  """
  text = "\n".join(" ".join(line.split()) for line in document)
  return int.from_bytes(blake2b(text.encode(), digest_size=8).digest())


def drop_documents(
  lines: Iterable[str], indices: Iterable[int], progress: Progress
) -> Iterator[str]:
  """Yields the lines of all documents but those of the indices."""
  indices = frozenset(indices)
  for index, document in enumerate(split_documents(lines)):
    if index in indices:
      progress.add(0, dropped_documents=1)
    else:
      yield from document
      yield ""


def drop_repeated(lines: Iterable[str], progress: Progress) -> Iterator[str]:
  """Yields the lines of new documents; takes some 80 bytes for each."""
  seen = set()
  for document in split_documents(lines):
    number = digest(document)
    if number in seen:
      progress.add(0, dropped_documents=1)
    else:
      seen.add(number)
      yield from document
      yield ""
