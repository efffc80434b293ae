"""Makes pre-training records in worker processes, from any amount of text.

Workers turn shards of the corpus into temporary files, which the parent joins
in order. The shards depend only on the input.
"""

import os
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from functools import partial
from itertools import chain
from random import Random
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
from absl import logging

from data.pretraining import documents, instances
from data.pretraining.instances import BuildConfig, RecordBuilder, TextFormat
from storage import Progress, files, setting, textfiles, tfrecord, workers

# Many shards keep many workers busy. A shard is large enough for random
# sentences and small enough for the memory of a worker.
_SHARDS = 32
_MIN_BYTES, _MAX_BYTES = 1 << 20, 4 << 20
_LARGE_SPAN = 128 << 20  # bytes; larger spans log a warning
_MANY = 500  # instances; the random sentences of fewer deviate by chance


class Span(NamedTuple):
  """Complete documents of a file: bytes [start, end), or from `start` on."""

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

  number: int  # position in the corpus; determines the seed
  spans: tuple[Span, ...]
  dropped: tuple[int, ...] = ()  # indices of documents to drop

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
      yield ""  # the end of a file ends a document


def build_shard(
  builder: RecordBuilder, shard: Shard
) -> tuple[list[bytes], Mapping[str, int], list[str]]:
  """Makes a shard's records, with the shard's seed; also counts and samples."""
  config = builder.config
  progress = Progress("", 0, "", log=lambda text: None)
  lines = shard.lines(config.text_format)
  if shard.dropped:
    lines = documents.drop_documents(lines, progress, shard.dropped)
  corpus = builder.documents(lines, progress)
  rng = Random(f"{config.seed} {shard.number}")
  records, samples = builder.records(corpus, rng, progress)
  return records, progress.counts, samples


def write_shards(
  config: BuildConfig, paths: list[str], outputs: list[str], processes: int
) -> int:
  """Writes records in worker processes, round-robin over the outputs.

  Returns the number of records. Raises ValueError if files hold no text or are
  not UTF-8, ChildProcessError if a worker died.
  """
  shards = split_corpus(paths, config.text_format)
  processes = min(processes, len(shards))
  logging.info("%d workers, %d shards of text", processes, len(shards))
  if config.deduplicate:
    shards = _mark_duplicates(shards, config.text_format, processes)
  progress = Progress("built from", sum(s.megabytes for s in shards), "MB")
  near = None
  if not files.is_remote(outputs[0]):
    near = os.path.dirname(os.path.abspath(outputs[0]))
  with ExitStack() as stack:
    sinks = [stack.enter_context(tfrecord.create(path)) for path in outputs]
    folder = stack.enter_context(TemporaryDirectory(prefix="parts-", dir=near))
    prepare = partial(_shard_writer, config, folder, len(outputs))
    results = workers.ordered_map(prepare, shards, processes, progress.say)
    stack.enter_context(closing(results))  # workers end before their folder
    single = 0
    for shard, (parts, counts, samples) in zip(shards, results, strict=True):
      written = progress.counts["instances"]
      for sample in () if written else samples:
        logging.info("%s", sample)
      for i, (part, sizes) in enumerate(parts, written):  # go on round-robin
        with open(part, "rb") as file:
          sinks[i % len(sinks)].append(file, sizes)
        os.remove(part)
      progress.add(shard.megabytes, **counts)
      single += counts.get("documents") == 1
    if not progress.counts["instances"]:
      raise instances.no_text(paths)
  progress.say()
  if single:
    logging.warning(
      f"{single} of {len(shards)} shards are a single document, which also "
      "gives their random next sentences: put blank lines between documents"
    )
  _warn_of_pairs(progress.counts)
  return progress.counts["instances"]


def _warn_of_pairs(counts: Mapping[str, int]) -> None:
  """Warns if many more pairs than half have a random second sentence."""
  fraction = counts["random_next_sentences"] / max(counts["instances"], 1)
  if fraction > 0.55 and counts["instances"] >= _MANY:
    logging.warning(
      f"{fraction:.0%} of the second sentences are random, about half is meant:"
      " a sentence that ends a document or fills a short record has no next "
      f"one. Longer documents and {setting('short_seq_prob', 0)} lower this"
    )


def _shard_writer(
  config: BuildConfig, folder: str, number: int
) -> Callable[[Shard], tuple[list, Mapping[str, int], list[str]]]:
  """Function that writes the records of a shard to files, round-robin.

  The function returns (path, sizes of frames) of each file, counts and samples.
  """
  builder = RecordBuilder(config)

  def write(shard):
    records, counts, samples = build_shard(builder, shard)
    parts = []
    for i in range(number):
      frames = [*map(tfrecord.frame, records[i::number])]
      path = f"{folder}/{shard.number}-{i}"
      with open(path, "wb") as file:
        file.writelines(frames)
      parts.append((path, array("L", map(len, frames))))
    return parts, counts, samples

  return write


def _mark_duplicates(
  shards: list[Shard], text_format: TextFormat, processes: int
) -> list[Shard]:
  """Sets Shard.dropped to the repeats of earlier documents of any shard."""
  progress = Progress("compared", sum(s.megabytes for s in shards), "MB")
  prepare = partial(_digests, text_format)
  results = workers.ordered_map(prepare, shards, processes, progress.say)
  all_digests = []
  for shard, numbers in zip(shards, results, strict=True):
    all_digests.append(numbers)
    progress.add(shard.megabytes, documents=len(numbers))
  progress.say()
  pairs = zip(shards, find_repeated(all_digests), strict=True)
  return [shard._replace(dropped=indices) for shard, indices in pairs]


def _digests(text_format):
  """Function from a shard to the digests of its documents."""
  return lambda shard: digests(shard.lines(text_format))


def digests(lines: Iterable[str]) -> np.ndarray:
  """Hash of each document, [documents] uint64."""
  parts = documents.split_documents(lines)
  return np.fromiter(map(documents.digest, parts), np.uint64)


def find_repeated(shards: Sequence[np.ndarray]) -> list[tuple[int, ...]]:
  """Indices, by shard, of documents with the digest of an earlier document."""
  _, first = np.unique(np.concatenate(shards), return_index=True)
  is_repeated = np.ones(sum(map(len, shards)), bool)
  is_repeated[first] = False
  ends = np.cumsum([len(shard) for shard in shards])
  by_shard = np.split(is_repeated, ends[:-1])
  return [tuple(np.flatnonzero(flags).tolist()) for flags in by_shard]


def split_corpus(paths: list[str], text_format: TextFormat) -> list[Shard]:
  """Divides files, in order, into shards of about the same size.

  Large files are divided between documents, unless compressed. Small files are
  grouped. A shard is a 32nd of the input, but at least 1 MB and at most 4 MB.
  """
  total = sum(map(documents.text_size, paths))
  size = min(max(total // _SHARDS, _MIN_BYTES), _MAX_BYTES)
  shards: list[Shard] = []
  spans, filled = (), 0
  for span in chain.from_iterable(
    _spans(path, size, text_format) for path in paths
  ):
    if span.size > _LARGE_SPAN:
      logging.warning(
        f"{span}: {span.size // 1_000_000} MB cannot be divided; a worker "
        "holds all of it in memory"
      )
    if spans and filled + span.size > size:
      shards.append(Shard(len(shards), spans))
      spans, filled = (), 0
    spans += (span,)
    filled += span.size
  return [*shards, Shard(len(shards), spans)]


def _spans(path: str, size: int, text_format: TextFormat) -> Iterator[Span]:
  length = documents.text_size(path)
  start = 0
  while text_format.is_divisible(path) and length - start > 1.5 * size:
    end = start + size - 1
    with textfiles.open_text(path, end) as file:
      read_line = partial(file.readline, textfiles.MAX_LINE_BYTES)
      end += len(read_line())
      for line in iter(read_line, b""):
        end += len(line)
        if text_format.field or not line.decode(errors="replace").strip():
          break  # this line ends a document
      else:
        break
    yield Span(path, start, end, end - start)
    start = end
  yield Span(path, start, None, length - start)


def write_in_memory(
  config: instances.BuildConfig, inputs: Sequence[str], outputs: Sequence[str]
) -> int:
  """Reads all documents, then writes records; returns their number.

  A document may continue in the next input. Outputs get records round-robin.
  """
  builder = instances.RecordBuilder(config)
  megabytes = sum(map(documents.text_size, inputs)) / 1e6
  reading = Progress("read", megabytes, "MB")
  corpus = builder.corpus(inputs, reading)
  reading.say()
  if len(corpus) == 1:
    logging.warning(
      "the text is a single document, which also gives the random next "
      "sentences: put blank lines between documents"
    )
  dupes = config.instance_config.dupe_factor
  unit = "copies of documents" if dupes > 1 else "documents"
  building = Progress("built from", len(corpus) * dupes, unit)
  records, samples = builder.records(corpus, Random(config.seed), building)
  building.say()
  _warn_of_pairs(building.counts)
  for sample in samples:
    logging.info("%s", sample)
  with ExitStack() as stack:  # all files appear, or no file does
    sinks = [stack.enter_context(tfrecord.create(path)) for path in outputs]
    for i, sink in enumerate(sinks):
      sink.write(records[i :: len(sinks)])
  return len(records)
