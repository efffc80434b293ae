"""Text files to documents: formats, sentences, token ids, duplicates."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import groupby

import numpy as np

from data.tables import parse_json
from storage import UserError, files
from storage.compression import is_compressed
from storage.progress import Progress

Segment = list[int]
Document = list[Segment]


def read_documents(
  lines: Iterable[str],
  ids: Callable[[str], list[int]],
  progress: Progress,
  min_tokens: int = 1,
  max_tokens: int | None = None,
) -> list[Document]:
  """Tokenizes lines, one segment each; a blank line ends a document.

  Lines without tokens and documents without segments are dropped, as are
  segments of fewer than `min_tokens`; those of more than `max_tokens` are
  split.
  """
  documents = []
  document = []
  for line in lines:
    text = line.strip()
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
      documents.append(document)
      document = []
    megabytes = (len(line.encode()) + 1) / 1e6
    progress.add(megabytes, lines=1, tokens=len(segment))
  if document:
    documents.append(document)
  progress.add(0, documents=len(documents), sentences=sum(map(len, documents)))
  return documents


@dataclass(frozen=True)
class TextFormat:
  """Layout of documents in text files.

  "lines": one sentence a line and a blank line between documents, as in the
  original; "paragraphs": prose with a blank line between documents;
  "documents": prose, one document a file. `field` of JSON lines holds such a
  text; None for plain text.
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

    `start` and `end` are bytes at which documents begin, None the file's end.
    Raises ValueError also if a line is not a JSON object with the field.
    """
    if self.field:
      texts = json_texts(path, self.field, start, end)
    else:
      texts = [files.lines(path, start, end)]
    for text in texts:
      if self.is_prose:
        yield from self._sentences(text)
      else:
        yield from text
      if self.field or self.is_prose:
        yield ""

  def _sentences(self, text):
    for paragraph in paragraphs(text):
      yield from split_sentences(paragraph)
      if self.layout == "paragraphs":
        yield ""

  def ends_document(self, path: str) -> Callable[[bytes], bool] | None:
    """Test for lines that end a document; None if a file cannot be divided."""
    if is_compressed(path):
      return None
    if self.field:
      return lambda line: True
    if self.layout == "documents":
      return None
    return lambda line: not line.decode(errors="replace").strip()


ORIGINAL = TextFormat()


def paragraphs(lines: Iterable[str]) -> Iterator[str]:
  """Joins the lines between blank lines into one string each."""
  for document in split_documents(lines):
    yield " ".join(map(str.strip, document))


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


def json_texts(
  path: str,
  field: str,
  start: int = 0,
  end: int | None = None,
  remedy: str = "--text_field names it",
) -> Iterator[list[str]]:
  """Yields a field of each JSON line, as a list of its lines."""
  for number, line in enumerate(files.lines(path, start, end)):
    line = line.removeprefix("\ufeff")  # a byte order mark
    if not line.strip():
      continue
    try:
      value = parse_json(line)
      text = value[field] if isinstance(value, dict) else None
      if not isinstance(text, str):
        raise TypeError(f"it is {json.dumps(value)[:40]}")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
      raise UserError(
        f"{path}, line {files.line_number(path, start) + number}: not a JSON "
        f"object with a text as {field!r} ({error}); {remedy}"
      ) from error
    yield text.replace("\r", "").split("\n")


# --- Duplicates, in lines as from TextFormat.lines -------------------------


def split_documents(lines: Iterable[str]) -> Iterator[list[str]]:
  """Groups lines into documents: lists of lines, none of them blank."""
  for is_text, group in groupby(lines, lambda line: bool(line.strip())):
    if is_text:
      yield list(group)


def digest(document: Iterable[str]) -> int:
  """Hash of a document, 64 bits, that ignores the amount of white space.

  Among n different documents two have the same hash with a probability of n**2
  / 2**65: one in 3,700 for a hundred million.
  """
  text = "\n".join(" ".join(line.split()) for line in document)
  return int.from_bytes(blake2b(text.encode(), digest_size=8).digest())


def digests(lines: Iterable[str]) -> np.ndarray:
  """Hash of each document, [documents] uint64."""
  return np.fromiter(map(digest, split_documents(lines)), np.uint64)


def find_repeated(shards: Sequence[np.ndarray]) -> list[tuple[int, ...]]:
  """Indices of each shard's documents whose digest has occurred before."""
  _, first = np.unique(np.concatenate(shards), return_index=True)
  is_repeated = np.ones(sum(map(len, shards)), bool)
  is_repeated[first] = False
  ends = np.cumsum([len(shard) for shard in shards])
  return [
    tuple(np.flatnonzero(flags).tolist())
    for flags in np.split(is_repeated, ends[:-1])
  ]


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
