"""Pre-training records from text files, in memory or by worker processes.

In one process the records are the original's, byte for byte. Worker processes
take any amount of text: each turns shards of the corpus into temporary files,
which the parent joins in order. The result does not depend on their number.
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import chain
from random import Random
from tempfile import TemporaryDirectory
from typing import BinaryIO, NamedTuple

from absl import logging

from data.pretraining import documents, instances
from data.pretraining.documents import ORIGINAL, TextFormat
from data.pretraining.shards import Shard, split_corpus
from data.tokenization import CachedTokenizer, FullTokenizer
from storage import files, tfrecord, workers
from storage.progress import Progress


@dataclass(frozen=True)
class BuildConfig:
  """Configuration of a data set, sent to every worker.

  Attributes:
    instance_config: contents of the records.
    seed: seed of the run; a shard's seed is derived from it and its number.
    deduplicate: drop documents that are equal to an earlier one.
  """

  vocab_file: str
  do_lower_case: bool
  instance_config: instances.InstanceConfig
  seed: int
  text_format: TextFormat = ORIGINAL
  deduplicate: bool = False

  def read_documents(
    self,
    lines: Iterable[str],
    ids: Callable[[str], list[int]],
    progress: Progress,
  ) -> list[documents.Document]:
    """Tokenizes lines into documents; see documents.read_documents.

    Of prose, sentences of one token (page numbers, ornaments) are dropped and
    those longer than a record are split. Other lines are used unchanged.
    """
    if not self.text_format.is_prose:
      return documents.read_documents(lines, ids, progress)
    return documents.read_documents(
      lines, ids, progress, 2, self.instance_config.max_seq_length
    )


def write_in_memory(
  config: BuildConfig, inputs: Sequence[str], outputs: Sequence[str]
) -> int:
  """Writes the original's records, byte for byte, and returns their number.

  A document may continue in the next input. Records are distributed over the
  outputs round-robin.

  Raises:
    ValueError: the inputs hold no text.
  """
  tokenizer = FullTokenizer(config.vocab_file, config.do_lower_case)
  rng = Random(config.seed)
  builder = instances.InstanceBuilder(tokenizer.vocab, config.instance_config)

  lines = chain.from_iterable(map(config.text_format.lines, inputs))
  reading = Progress("read", sum(map(files.size, inputs)) / 1e6, "MB")
  if config.deduplicate:
    lines = documents.drop_repeated(lines, reading)
  corpus = config.read_documents(lines, CachedTokenizer(tokenizer).ids, reading)
  reading.say()
  if not corpus:
    raise instances.no_text(inputs)

  dupes = config.instance_config.dupe_factor
  building = Progress("built from", len(corpus) * dupes, "documents")
  samples = instances.Samples(tokenizer.inv_vocab)
  records = builder.records(corpus, rng, building, samples)
  building.say()
  instances.log_samples(samples.texts)
  with ExitStack() as stack:
    for i, path in enumerate(outputs):
      file = stack.enter_context(files.open_for_writing(path))
      tfrecord.write(file, records[i :: len(outputs)])
  return len(records)


def write_shards(
  config: BuildConfig, paths: list[str], outputs: list[str], processes: int
) -> int:
  """Writes records by worker processes and returns their number.

  Records are distributed over the outputs round-robin.

  Raises:
    ValueError: the files hold no text, or text that is not UTF-8.
    ChildProcessError: a worker died; names its shard.
  """
  shards = split_corpus(paths, text_format=config.text_format)
  processes = min(processes, len(shards))
  logging.info("%d workers, %d shards of text", processes, len(shards))
  if config.deduplicate:
    shards = _mark_duplicates(shards, config.text_format, processes)
  progress = Progress("built from", sum(s.megabytes for s in shards), "MB")
  near = None if files.is_remote(outputs[0]) else os.path.dirname(outputs[0])
  with ExitStack() as stack:
    sinks = [stack.enter_context(files.open_for_writing(o)) for o in outputs]
    folder = stack.enter_context(
      TemporaryDirectory(prefix="parts-", dir=near or None)
    )
    prepare = partial(ShardWriter, config, folder, len(outputs))
    results = workers.ordered_map(prepare, shards, processes, progress.say)
    _join(shards, results, sinks, progress)
    if not progress.counts["instances"]:
      raise instances.no_text(paths)
  progress.say()
  return progress.counts["instances"]


class ShardResult(NamedTuple):
  """Records of a shard, in memory.

  Attributes:
    records: serialized tf.train.Examples.
    counts: numbers of documents, sentences, tokens, instances and of what was
      dropped.
    samples: a few examples as text.
  """

  records: list[bytes]
  counts: Mapping[str, int]
  samples: list[str]


class ShardBuilder:
  """Builds the records of a shard; they depend on config and shard only."""

  def __init__(self, config: BuildConfig):
    self._config = config
    self._tokenizer = FullTokenizer(config.vocab_file, config.do_lower_case)
    self._ids = CachedTokenizer(self._tokenizer).ids
    self._builder = instances.InstanceBuilder(
      self._tokenizer.vocab, config.instance_config
    )

  def __call__(self, shard: Shard) -> ShardResult:
    """Builds the records of a shard."""
    progress = Progress("", 0, "", log=lambda text: None)
    lines = shard.lines(self._config.text_format)
    if shard.dropped:
      lines = documents.drop_documents(lines, shard.dropped, progress)
    corpus = self._config.read_documents(lines, self._ids, progress)
    samples = instances.Samples(self._tokenizer.inv_vocab)
    rng = Random(f"{self._config.seed} {shard.number}")
    records = self._builder.records(corpus, rng, progress, samples)
    return ShardResult(records, progress.counts, samples.texts)


class ShardFile(NamedTuple):
  """Records of a shard in a file, divided round-robin into sections.

  Attributes:
    path: file of the sections, one after another; each is a TFRecord file.
    sizes: bytes of each section.
  """

  path: str
  sizes: list[int]
  counts: Mapping[str, int]
  samples: list[str]


class ShardWriter:
  """Writes the records of a shard to a file with a section for each output."""

  def __init__(self, config: BuildConfig, folder: str, sections: int):
    self._build = ShardBuilder(config)
    self._folder, self._sections = folder, sections

  def __call__(self, shard: Shard) -> ShardFile:
    """Builds and writes the records of a shard."""
    result = self._build(shard)
    path = os.path.join(self._folder, f"part-{shard.number}")
    with open(path, "wb") as file:
      sizes = [
        tfrecord.write(file, result.records[i :: self._sections])
        for i in range(self._sections)
      ]
    return ShardFile(path, sizes, result.counts, result.samples)


def _mark_duplicates(
  shards: list[Shard], text_format: TextFormat, processes: int
) -> list[Shard]:
  """Sets Shard.dropped to documents equal to an earlier one of any shard."""
  progress = Progress("compared", sum(s.megabytes for s in shards), "MB")
  results = workers.ordered_map(
    partial(_Digests, text_format), shards, processes, progress.say
  )
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


class _Digests:
  """Digests of the documents of a shard."""

  def __init__(self, text_format):
    self._text_format = text_format

  def __call__(self, shard):
    return documents.digests(shard.lines(self._text_format))


def _join(
  shards: list[Shard],
  results: Iterable[ShardFile],
  sinks: list[BinaryIO],
  progress: Progress,
) -> None:
  """Appends files of shards to the outputs, continuing the round-robin."""
  for shard, result in zip(shards, results, strict=True):
    written = progress.counts["instances"]
    if not written:
      instances.log_samples(result.samples)
    with open(result.path, "rb") as file:
      for i, size in enumerate(result.sizes):
        _copy(file, sinks[(written + i) % len(sinks)], size)
    os.remove(result.path)
    progress.add(shard.megabytes, **result.counts)


def _copy(source: BinaryIO, sink: BinaryIO, size: int) -> None:
  while size:
    block = source.read(min(size, 1 << 20))
    sink.write(block)
    size -= len(block)
