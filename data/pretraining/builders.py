"""Pre-training records from text files, in memory or by worker processes.

In one process the records are the original's, byte for byte. Worker processes
take any amount of text: each turns shards of the corpus, which depend on the
input only, into temporary files that the parent joins in order.
"""

import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from itertools import chain
from random import Random
from tempfile import TemporaryDirectory
from typing import NamedTuple

from absl import logging

from data.pretraining import documents
from data.pretraining.documents import ORIGINAL, Document, TextFormat
from data.pretraining.instances import InstanceBuilder, InstanceConfig
from data.tokenization import CachedTokenizer, FullTokenizer
from storage import UserError, files, tfrecord, workers
from storage.compression import is_compressed
from storage.progress import Progress

# Enough shards to employ many workers, each large enough to draw random
# sentences from and small enough for a worker's memory.
_SHARDS = 32
_MIN_BYTES, _MAX_BYTES = 1 << 20, 4 << 20
_LARGE_SPAN = 128 << 20  # bytes of a span above which a warning is logged
_COMPRESSION_RATIO = 3  # approximate bytes of text in a compressed byte


@dataclass(frozen=True)
class BuildConfig:
  """Configuration of a data set, sent to every worker.

  A shard's seed is derived from `seed` and its number. `deduplicate` drops
  documents that are equal to an earlier one.
  """

  vocab_file: str
  do_lower_case: bool
  instance_config: InstanceConfig
  seed: int
  text_format: TextFormat = ORIGINAL
  deduplicate: bool = False


class Span(NamedTuple):
  """Complete documents of a file, from byte `start` to `end` or its end."""

  path: str
  start: int
  end: int | None
  size: int

  def __str__(self) -> str:
    if self.end is None:
      return self.path
    return f"{self.path} (bytes {self.start:,} to {self.end:,})"


class Shard(NamedTuple):
  """Unit of work of a worker process."""

  number: int  # position in the corpus, on which its seed depends
  spans: tuple[Span, ...]
  dropped: tuple[int, ...] = ()  # indices of documents

  def __str__(self) -> str:
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


class ShardResult(NamedTuple):
  """Records of a shard."""

  records: Sequence  # serialized, or paths of files of them
  counts: Mapping[str, int]  # see Progress.counts
  samples: list[str]  # a few examples as text


class RecordBuilder:
  """Builds records from text; `records` and `examples` from documents."""

  def __init__(self, config: BuildConfig):
    tokenizer = FullTokenizer(config.vocab_file, config.do_lower_case)
    builder = InstanceBuilder(tokenizer.vocab, config.instance_config)
    self.records, self.examples = builder.records, builder.all_examples
    self.vocab = tokenizer.vocab
    self._ids = CachedTokenizer(tokenizer).ids
    self._config = config

  def documents(
    self, lines: Iterable[str], progress: Progress
  ) -> list[Document]:
    """Tokenizes lines into documents; see documents.read_documents.

    Of prose, sentences of one token (page numbers, ornaments) are dropped and
    those longer than a record are split.
    """
    limits = ()
    if self._config.text_format.is_prose:
      limits = 2, self._config.instance_config.max_seq_length
    return documents.read_documents(lines, self._ids, progress, *limits)

  def corpus(self, paths: Sequence[str], progress: Progress) -> list[Document]:
    """Documents of files; ValueError if they hold no text."""
    lines = chain.from_iterable(map(self._config.text_format.lines, paths))
    if self._config.deduplicate:
      lines = documents.drop_repeated(lines, progress)
    corpus = self.documents(lines, progress)
    if not corpus:
      raise no_text(paths)
    return corpus

  def build_shard(self, shard: Shard) -> ShardResult:
    progress = Progress("", 0, "", log=lambda text: None)
    lines = shard.lines(self._config.text_format)
    if shard.dropped:
      lines = documents.drop_documents(lines, shard.dropped, progress)
    corpus = self.documents(lines, progress)
    rng = Random(f"{self._config.seed} {shard.number}")
    records, samples = self.records(corpus, rng, progress)
    return ShardResult(records, progress.counts, samples)


def write_in_memory(
  config: BuildConfig, inputs: Sequence[str], outputs: Sequence[str]
) -> int:
  """Writes the original's records, byte for byte, and returns their number.

  A document may continue in the next input. Records are distributed over the
  outputs round-robin.
  """
  builder = RecordBuilder(config)
  reading = Progress("read", sum(map(text_size, inputs)) / 1e6, "MB")
  corpus = builder.corpus(inputs, reading)
  reading.say()
  if len(corpus) == 1:
    logging.warning(
      "the text is a single document, from which random next sentences are "
      "drawn too; put a blank line between documents"
    )

  dupes = config.instance_config.dupe_factor
  unit = "copies of documents" if dupes > 1 else "documents"
  building = Progress("built from", len(corpus) * dupes, unit)
  records, samples = builder.records(corpus, Random(config.seed), building)
  building.say()
  _log_samples(samples)
  with ExitStack() as stack:  # all files appear, or none
    sinks = [stack.enter_context(files.open_for_writing(o)) for o in outputs]
    for i, sink in enumerate(sinks):
      tfrecord.write(sink, records[i :: len(sinks)])
  return len(records)


def no_text(paths: Iterable[str]) -> UserError:
  """Error for an input without tokens."""
  return UserError(f"there is no text in {', '.join(paths)}")


def _log_samples(samples):
  for text in samples:
    logging.info("*** Example ***\n%s", text)


def write_shards(
  config: BuildConfig, paths: list[str], outputs: list[str], processes: int
) -> int:
  """Writes records by worker processes and returns their number.

  Records are distributed over the outputs round-robin. Raises ValueError if
  files hold no text or no UTF-8, ChildProcessError if a worker died.
  """
  shards = split_corpus(paths, text_format=config.text_format)
  processes = min(processes, len(shards))
  logging.info("%d workers, %d shards of text", processes, len(shards))
  if config.deduplicate:
    shards = _mark_duplicates(shards, config.text_format, processes)
  progress = Progress("built from", sum(s.megabytes for s in shards), "MB")
  near = None
  if not files.is_remote(outputs[0]):
    near = os.path.dirname(os.path.abspath(outputs[0]))
  with ExitStack() as stack:
    sinks = [stack.enter_context(files.open_for_writing(o)) for o in outputs]
    folder = stack.enter_context(TemporaryDirectory(prefix="parts-", dir=near))
    prepare = partial(_shard_writer, config, folder, len(outputs))
    results = workers.ordered_map(prepare, shards, processes, progress.say)
    stack.enter_context(closing(results))  # workers end before their folder
    single = 0
    for shard, result in zip(shards, results, strict=True):
      written = progress.counts["instances"]
      if not written:
        _log_samples(result.samples)
      for i, part in enumerate(result.records, written):  # goes on round-robin
        with open(part, "rb") as file:
          shutil.copyfileobj(file, sinks[i % len(sinks)])
        os.remove(part)
      progress.add(shard.megabytes, **result.counts)
      single += result.counts.get("documents") == 1
    if not progress.counts["instances"]:
      raise no_text(paths)
  progress.say()
  if single:
    logging.warning(
      "%d of %d shards are a single document, from which their random next "
      "sentences are drawn too; blank lines divide documents",
      *(single, len(shards)),
    )
  return progress.counts["instances"]


def _shard_writer(
  config: BuildConfig, folder: str, parts: int
) -> Callable[[Shard], ShardResult]:
  """Function that writes a shard's records, round-robin, to several files."""
  builder = RecordBuilder(config)

  def write(shard: Shard) -> ShardResult:
    result = builder.build_shard(shard)
    paths = [f"{folder}/{shard.number}-{i}" for i in range(parts)]
    for i, path in enumerate(paths):
      with open(path, "wb") as file:
        tfrecord.write(file, result.records[i::parts])
    return result._replace(records=paths)

  return write


def _mark_duplicates(
  shards: list[Shard], text_format: TextFormat, processes: int
) -> list[Shard]:
  """Sets Shard.dropped to documents equal to an earlier one of any shard."""
  progress = Progress("compared", sum(s.megabytes for s in shards), "MB")
  prepare = partial(_digests, text_format)
  results = workers.ordered_map(prepare, shards, processes, progress.say)
  digests = []
  for shard, shard_digests in zip(shards, results, strict=True):
    digests.append(shard_digests)
    progress.add(shard.megabytes, documents=len(shard_digests))
  progress.say()
  dropped = documents.find_repeated(digests)
  return [
    shard._replace(dropped=numbers)
    for shard, numbers in zip(shards, dropped, strict=True)
  ]


def _digests(text_format):
  """Function from a shard to the digests of its documents."""
  return lambda shard: documents.digests(shard.lines(text_format))


def split_corpus(
  paths: list[str], size: int | None = None, text_format: TextFormat = ORIGINAL
) -> list[Shard]:
  """Divides files into shards of about the same size, in their order.

  Large files are divided between documents, small ones are grouped; compressed
  files are not divided. By default a shard is a 32nd of the input, 1 to 4 MB.
  """
  if size is None:
    total = sum(map(text_size, paths))
    size = min(max(total // _SHARDS, _MIN_BYTES), _MAX_BYTES)
  shards: list[Shard] = []
  spans, filled = (), 0
  for span in chain.from_iterable(
    _spans(path, size, text_format) for path in paths
  ):
    if span.size > _LARGE_SPAN:
      logging.warning(
        "%s: %d MB that cannot be divided; a worker holds them in memory",
        *(span, span.size / 1e6),
      )
    if spans and filled + span.size > size:
      shards.append(Shard(len(shards), spans))
      spans, filled = (), 0
    spans += (span,)
    filled += span.size
  return [*shards, Shard(len(shards), spans)]


def text_size(path: str) -> int:
  """Size of a text in bytes, estimated if it is compressed."""
  factor = _COMPRESSION_RATIO if is_compressed(path) else 1
  return factor * files.size(path)


def _spans(path: str, size: int, text_format: TextFormat) -> Iterator[Span]:
  length = text_size(path)
  ends_document = text_format.ends_document(path)
  start = 0
  while ends_document and length - start > 1.5 * size:
    end = _document_end(path, start + size, ends_document)
    if end is None:
      break
    yield Span(path, start, end, end - start)
    start = end
  yield Span(path, start, None, length - start)


def _document_end(
  path: str, offset: int, ends_document: Callable[[bytes], bool]
) -> int | None:
  """Byte after the first line from `offset` on that ends a document."""
  position = offset - 1
  with files.open_text(path, position) as file:
    read_line = partial(file.readline, files.MAX_LINE_BYTES)
    position += len(read_line())
    for line in iter(read_line, b""):
      position += len(line)
      if ends_document(line):
        return position
  return None
