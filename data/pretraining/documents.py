"""Finds documents and duplicates in texts, and divides a corpus into shards."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import chain
from typing import NamedTuple

from data.pretraining.sentences import UNSPLIT, is_unsplit, split_sentences
from storage import Progress, files, setting, textfiles

_COMPRESSION_RATIO = 3  # approximate bytes of text per compressed byte


def split_documents(lines: Iterable[str]) -> Iterator[list[str]]:
  """Groups lines into documents at blank lines, which are dropped."""
  document: list[str] = []
  for line in chain(lines, [""]):
    if line.strip():
      document.append(line)
    elif document:
      yield document
      document = []


def paragraphs(lines: Iterable[str]) -> Iterator[str]:
  """Yields paragraphs, with their line ends. Blank lines separate them."""
  parts = chain.from_iterable(line.split("\r") for line in lines)
  yield from map("\n".join, split_documents(parts))


@dataclass(frozen=True)
class TextFormat:
  """Layout of documents in text files.

  "lines" has one sentence a line and a blank line between documents, as in the
  original. "paragraphs" is prose with a blank line between documents.
  "documents" is prose with one document a file. `field` names the field of JSON
  lines that has the text; None stands for plain text.
  """

  layout: str = "lines"
  field: str | None = None

  @property
  def is_prose(self) -> bool:  # the text has to be split into sentences
    return self.layout != "lines"

  def lines(
    self, path: str, start: int = 0, end: int | None = None
  ) -> Iterator[str]:
    """Yields a file's sentences and blank lines, in the original's format.

    Reads bytes [start, end), or all from `start` if `end` is None. A document
    must begin at `start` and at `end`. Raises ValueError for a line that is not
    UTF-8, or is no JSON object with the field.
    """
    lines = textfiles.lines(path, start, end)
    texts: Iterable[Iterable[str]] = [lines]
    if self.field:
      texts = textfiles.json_texts(path, self.field, lines, start)
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


def text_size(path: str) -> int:
  """Size of a text in bytes, estimated if it is compressed."""
  factor = _COMPRESSION_RATIO if path.endswith(textfiles.COMPRESSED) else 1
  return factor * files.size(path)


# --- Texts that make poor records -------------------------------------------


def doubt_format(first: str) -> str | None:
  """Returns a warning if a text's first line is JSON or a dump, else None."""
  if re.match(r"\ufeff?\s*<(doc |mediawiki)", first):
    return (
      "the text looks like Wikipedia: split_sentences.py reads the output of "
      f"WikiExtractor by {setting('source', 'wikipedia')}"
    )
  if not re.match(r'\ufeff?\s*(\{\s*"|\[\s*(\{|$))', first):
    return None
  return (
    "the text looks like JSON: build_vocab.py and create_pretraining_data.py "
    f"read JSON lines by {setting('text_field')}"
  )


def doubts(
  lines: Sequence[str], is_prose: bool, words: Callable, max_words: int
) -> Iterator[str]:
  """Yields warnings about the first lines, or sentences, of a corpus.

  `words` splits a text into words. A record has at most `max_words` words.
  """
  if lines and (doubt := doubt_format(lines[0])):
    yield doubt
  texts = list(split_documents(lines))
  sentences = list(chain.from_iterable(texts))
  single = [*map(len, texts)].count(1)
  if texts and single >= 0.5 * len(texts):
    yield (
      f"{single:,} of the first {len(texts):,} documents have one sentence, "
      "and thus a random next one: put a line for each sentence, and blank "
      "lines between documents only"
    )
  some = f"of the first {len(sentences):,}"
  if is_prose and (unsplit := sum(map(is_unsplit, sentences))):
    yield f"{unsplit:,} {some} sentences {UNSPLIT}"
  cut = [len(words(text[: 10 * max_words])) > max_words for text in sentences]
  if not is_prose and sum(cut) > 0.1 * len(cut):
    yield (
      f"{sum(cut):,} {some} lines have more words than "
      f"{setting('max_seq_length', max_words)} and are cut; "
      "split_sentences.py makes a line of each sentence"
    )


# --- Duplicates, in the lines of TextFormat.lines --------------------------


def digest(document: Iterable[str]) -> int:
  """Hash of a document, 64 bits, that ignores the amount of white space.

  The probability of a collision among n different documents is n**2 / 2**65:
  one in 3,700 for a hundred million documents.
  """
  text = "\n".join(" ".join(line.split()) for line in document)
  return int.from_bytes(blake2b(text.encode(), digest_size=8).digest())


def drop_documents(
  lines: Iterable[str], progress: Progress, indices: set[int] | None = None
) -> Iterator[str]:
  """Yields the lines of all documents except those at `indices`.

  Without indices, drops repeated documents, in 80 bytes of memory a document.
  """
  seen = set()
  for index, document in enumerate(split_documents(lines)):
    if indices is None:
      number = digest(document)
      is_dropped = number in seen
      seen.add(number)
    else:
      is_dropped = index in indices
    if is_dropped:
      progress.add(0, dropped_documents=1)
    else:
      yield from document
      yield ""


# --- The corpus in shards ----------------------------------------------------

# Many shards keep many workers busy. A shard is large enough to draw random
# sentences from, and small enough for the memory of a worker.
_SHARDS = 32
_MIN_BYTES, _MAX_BYTES = 1 << 20, 4 << 20


class Span(NamedTuple):
  """Complete documents of a file: bytes [start, end), or all from `start`."""

  path: str
  start: int
  end: int | None
  size: int


class Shard(NamedTuple):
  """A part of a corpus: the unit of work of a worker process."""

  number: int  # position in the corpus; determines the seed
  spans: tuple[Span, ...]
  dropped: tuple[int, ...] = ()  # indices of documents to drop

  def __str__(self) -> str:
    return ", ".join(span.path for span in self.spans)

  @property
  def megabytes(self) -> float:
    """Approximate size of the text."""
    return sum(span.size for span in self.spans) / 1e6

  def lines(self, text_format: TextFormat) -> Iterator[str]:
    """Yields the lines of all documents, including documents to drop."""
    for span in self.spans:
      yield from text_format.lines(span.path, span.start, span.end)
      yield ""  # the end of a file ends a document


def split_corpus(paths: list[str], text_format: TextFormat) -> list[Shard]:
  """Divides files, in order, into shards of about the same size.

  Large files are cut at ends of documents, unless compressed. Small files are
  grouped. A shard is about a 32nd of the input, at least 1 MB, at most 4 MB.
  """
  total = sum(map(text_size, paths))
  size = min(max(total // _SHARDS, _MIN_BYTES), _MAX_BYTES)
  shards: list[Shard] = []
  spans, filled = (), 0
  parts = (_spans(path, size, text_format) for path in paths)
  for span in chain.from_iterable(parts):
    if spans and filled + span.size > size:
      shards.append(Shard(len(shards), spans))
      spans, filled = (), 0
    spans += (span,)
    filled += span.size
  return [*shards, Shard(len(shards), spans)]


def _spans(path: str, size: int, text_format: TextFormat) -> Iterator[Span]:
  length = text_size(path)
  start = 0
  is_document = text_format.layout == "documents" and not text_format.field
  is_divisible = not (is_document or path.endswith(textfiles.COMPRESSED))
  while is_divisible and length - start > 1.5 * size:
    end = start + size - 1
    with textfiles.open_text(path, end) as file:
      end += len(file.readline())
      for line in file:
        end += len(line)
        if text_format.field or not line.decode(errors="replace").strip():
          break  # this line ends a document
      else:
        break
    yield Span(path, start, end, end - start)
    start = end
  yield Span(path, start, None, length - start)
