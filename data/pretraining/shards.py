"""A corpus cut into shards, each a small corpus of its own.

How it is cut depends on the input only, so that any number of workers makes the
same records of it, and memory holds a shard for each worker, no more.
"""

from collections.abc import Callable, Iterator
from itertools import chain
from typing import NamedTuple

from absl import logging

from data import files, streams
from data.pretraining.text_format import ORIGINAL, TextFormat

# Shards per corpus, so that many workers have something to do, but each large
# enough to draw random sentences from and small enough for a worker's memory.
_SHARDS = 32
_SMALLEST, _LARGEST = 1 << 20, 4 << 20
_HUGE = 128 << 20  # bytes of a document that are worth a warning
# Bytes of text that a byte of a compressed file stands for, about.
_EXPANSION = 3


class Span(NamedTuple):
  """Whole documents of a file.

  Attributes:
    path: the file.
    start: the byte it begins at.
    end: the byte behind it; None for the end of the file.
    size: bytes of text, about.
  """

  path: str
  start: int
  end: int | None
  size: int

  def __str__(self) -> str:
    """As messages name it."""
    if self.end is None:
      return self.path
    return f"{self.path} (bytes {self.start:,} to {self.end:,})"


class Shard(NamedTuple):
  """What a worker takes at a time.

  Attributes:
    number: by which shards are ordered, and to draw a seed from.
    spans: the text.
    dropped: numbers of documents that are to be left out.
  """

  number: int
  spans: tuple[Span, ...]
  dropped: tuple[int, ...] = ()

  def __str__(self) -> str:
    """As messages name it."""
    return ", ".join(map(str, self.spans))

  @property
  def megabytes(self) -> float:
    """How much text it is."""
    return sum(span.size for span in self.spans) / 1e6

  def lines(self, text: TextFormat) -> Iterator[str]:
    """Its lines, those to be left out among them; see TextFormat.lines."""
    for span in self.spans:
      yield from text.lines(span.path, span.start, span.end)
      yield ""  # a document ends with its file


def cut(
  paths: list[str], size: int | None = None, text: TextFormat = ORIGINAL
) -> list[Shard]:
  """Cuts files into shards of about the same size.

  Large files are cut where a document ends, small ones are put together. No
  document goes beyond its file. A compressed file stays whole.

  Args:
    paths: text files.
    size: bytes of a shard; by default a 32nd of the input within 1 and 4 MB.
    text: how documents lie in them.

  Returns:
    Shards in the order of the input.
  """
  if size is None:
    total = sum(map(_text_size, paths))
    size = min(max(total // _SHARDS, _SMALLEST), _LARGEST)
  shards, spans, filled = [], (), 0
  for span in chain.from_iterable(_spans(path, size, text) for path in paths):
    if spans and filled + span.size > size:
      shards.append(Shard(len(shards), spans))
      spans, filled = (), 0
    spans += (span,)
    filled += span.size
  return [*shards, Shard(len(shards), spans)]


def _text_size(path: str) -> int:
  factor = _EXPANSION if streams.is_compressed(path) else 1
  return factor * files.size(path)


def _spans(path: str, size: int, text: TextFormat) -> Iterator[Span]:
  length = _text_size(path)
  ends_document = text.ends_document(path)
  start = 0
  while ends_document and length - start > 1.5 * size:
    end = _after_document(path, start + size, ends_document)
    if end is None:
      break
    yield Span(path, start, end, end - start)
    start = end
  if length - start > _HUGE:
    logging.warning(
      "%s: %d MB that cannot be cut; a worker holds them in memory",
      path,
      (length - start) / 1e6,
    )
  yield Span(path, start, None, length - start)


def _after_document(
  path: str, offset: int, ends_document: Callable[[bytes], bool]
) -> int | None:
  """Where the first document ends whose last line begins at a byte or later."""
  with files.open_for_reading(path) as file:
    file.seek(offset - 1)
    position = offset - 1 + len(file.readline())
    for line in file:
      position += len(line)
      if ends_document(line):
        return position
  return None
