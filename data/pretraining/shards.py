"""A corpus divided into shards, each a small corpus of its own.

Shards depend on the input only, so that any number of workers makes the same
records. Each worker holds one shard in memory.
"""

from collections.abc import Callable, Iterator
from itertools import chain
from typing import NamedTuple

from absl import logging

from data.pretraining.documents import ORIGINAL, TextFormat
from storage import compression, files

# Enough shards to employ many workers, each large enough to draw random
# sentences from and small enough for a worker's memory.
_SHARDS = 32
_MIN_BYTES, _MAX_BYTES = 1 << 20, 4 << 20
_LARGE_SPAN = 128 << 20  # bytes of a span above which a warning is logged
_COMPRESSION_RATIO = 3  # approximate bytes of text in a compressed byte


class Span(NamedTuple):
  """Complete documents of a file: its bytes from `start` to `end`.

  Without an `end` they go to that of the file. `size` is the approximate number
  of bytes of text.
  """

  path: str
  start: int
  end: int | None
  size: int

  def __str__(self) -> str:
    """Name in messages."""
    if self.end is None:
      return self.path
    return f"{self.path} (bytes {self.start:,} to {self.end:,})"


class Shard(NamedTuple):
  """Unit of work of a worker process."""

  number: int  # position in the corpus, on which its seed depends
  spans: tuple[Span, ...]
  dropped: tuple[int, ...] = ()  # indices of documents

  def __str__(self) -> str:
    """Name in messages."""
    return ", ".join(map(str, self.spans))

  @property
  def megabytes(self) -> float:
    """Approximate size of the text."""
    return sum(span.size for span in self.spans) / 1e6

  def lines(self, text_format: TextFormat) -> Iterator[str]:
    """Yields the lines of all documents, including those to drop."""
    for span in self.spans:
      yield from text_format.lines(span.path, span.start, span.end)
      yield ""  # a document ends with its file


def split_corpus(
  paths: list[str], size: int | None = None, text_format: TextFormat = ORIGINAL
) -> list[Shard]:
  """Divides files into shards of about the same size, in their order.

  Large files are divided between documents, small ones are grouped. Documents
  do not cross files. Compressed files are not divided. By default a shard is a
  32nd of the input, 1 to 4 MB.
  """
  if size is None:
    total = sum(map(_text_size, paths))
    size = min(max(total // _SHARDS, _MIN_BYTES), _MAX_BYTES)
  shards, spans, filled = [], (), 0
  for span in chain.from_iterable(
    _spans(path, size, text_format) for path in paths
  ):
    if spans and filled + span.size > size:
      shards.append(Shard(len(shards), spans))
      spans, filled = (), 0
    spans += (span,)
    filled += span.size
  return [*shards, Shard(len(shards), spans)]


def _text_size(path: str) -> int:
  factor = _COMPRESSION_RATIO if compression.is_compressed(path) else 1
  return factor * files.size(path)


def _spans(path: str, size: int, text_format: TextFormat) -> Iterator[Span]:
  length = _text_size(path)
  ends_document = text_format.ends_document(path)
  start = 0
  while ends_document and length - start > 1.5 * size:
    end = _document_end(path, start + size, ends_document)
    if end is None:
      break
    yield Span(path, start, end, end - start)
    start = end
  if length - start > _LARGE_SPAN:
    logging.warning(
      "%s: %d MB that cannot be divided; a worker holds them in memory",
      path,
      (length - start) / 1e6,
    )
  yield Span(path, start, None, length - start)


def _document_end(
  path: str, offset: int, ends_document: Callable[[bytes], bool]
) -> int | None:
  """Byte behind the first line, from an offset on, that ends a document."""
  with files.open_for_reading(path) as file:
    file.seek(offset - 1)
    position = offset - 1 + len(file.readline())
    for line in file:
      position += len(line)
      if ends_document(line):
        return position
  return None
