"""Pre-training records of any amount of text, by several processes.

The input is cut into shards of which each is a small corpus of its own, with
its own seed: how it is cut depends on the input only, so any number of workers
makes the same files, and memory holds a shard for each worker, no more.
Workers write their records to temporary parts; the parent joins these in order.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import chain
from random import Random
from tempfile import TemporaryDirectory
from typing import BinaryIO, NamedTuple

from absl import logging

from data import files, tfrecord, workers
from data.pretraining import instances
from data.progress import Progress
from data.tokenization import CachedTokenizer, FullTokenizer

# Shards per corpus, so that many workers have something to do, but each large
# enough to draw random sentences from and small enough for a worker's memory.
_SHARDS = 32
_SMALLEST, _LARGEST = 1 << 20, 32 << 20


class Span(NamedTuple):
  """Whole documents of a file: bytes from start to end."""

  path: str
  start: int
  end: int

  def __str__(self) -> str:
    """As messages name it."""
    return f"{self.path} (bytes {self.start:,} to {self.end:,})"


class Shard(NamedTuple):
  """What a worker takes at a time: texts, and a number to draw a seed from."""

  number: int
  spans: tuple[Span, ...]

  def __str__(self) -> str:
    """As messages name it."""
    return ", ".join(map(str, self.spans))

  @property
  def megabytes(self) -> float:
    """How much text it is."""
    return sum(span.end - span.start for span in self.spans) / 1e6


class Part(NamedTuple):
  """Records of a shard, each `outputs`-th in one of as many sections.

  Attributes:
    path: file of the sections, one after the other; each is a TFRecord file.
    sizes: bytes of each section.
    counts: lines, tokens and instances of the shard.
    samples: a few examples, readable.
  """

  path: str
  sizes: list[int]
  counts: dict[str, int]
  samples: list[str]


@dataclass(frozen=True)
class Job:
  """What a worker has to know.

  Attributes:
    vocab_file: path of the vocabulary.
    do_lower_case: how to tokenize.
    settings: what records are to be like.
    seed: of the run; with the number of a shard it gives the shard's.
    outputs: number of output files.
  """

  vocab_file: str
  do_lower_case: bool
  settings: instances.Settings
  seed: int
  outputs: int


def cut(paths: list[str], size: int | None = None) -> list[Shard]:
  """Cuts files into shards of about the same size.

  Large files are cut at blank lines, where a document ends; small ones are put
  together. No document goes beyond its file.

  Args:
    paths: text files.
    size: bytes of a shard; by default a 32nd of the input within 1 and 32 MB.

  Returns:
    Shards in the order of the input.
  """
  if size is None:
    total = sum(map(files.size, paths))
    size = min(max(total // _SHARDS, _SMALLEST), _LARGEST)
  shards, shard, filled = [], (), 0
  for span in chain.from_iterable(_spans(path, size) for path in paths):
    length = span.end - span.start
    if shard and filled + length > size:
      shards.append(Shard(len(shards), shard))
      shard, filled = (), 0
    shard += (span,)
    filled += length
  return [*shards, Shard(len(shards), shard)]


def _spans(path: str, size: int) -> Iterator[Span]:
  length = files.size(path)
  start = 0
  while length - start > 1.5 * size:
    end = _after_blank_line(path, start + size)
    if end is None:
      break
    yield Span(path, start, end)
    start = end
  yield Span(path, start, length)


def _after_blank_line(path: str, offset: int) -> int | None:
  """Where the first blank line that begins at a byte or later ends."""
  with files.open_for_reading(path) as file:
    file.seek(offset - 1)
    position = offset - 1 + len(file.readline())
    for line in file:
      position += len(line)
      if not line.decode(errors="replace").strip():
        return position
  return None


class PartBuilder:
  """Makes parts; there is one in each worker.

  Arguments:
    job: what to make.
    folder: where parts go.

  Call arguments:
    shard: the text.

  Returns:
    The Part.
  """

  def __init__(self, job: Job, folder: str):
    self._job, self._folder = job, folder
    self._tokenizer = FullTokenizer(job.vocab_file, job.do_lower_case)
    self._ids = CachedTokenizer(self._tokenizer).ids
    self._builder = instances.Builder(self._tokenizer.vocab, job.settings)

  def __call__(self, shard: Shard) -> Part:
    """Makes the part of a shard."""
    progress = Progress("", 0, "", log=lambda text: None)
    documents = []
    for span in shard.spans:  # a document ends with its file
      lines = files.lines(span.path, span.start, span.end)
      documents += instances.read_documents(lines, self._ids, progress)
    samples = instances.Samples(self._tokenizer.inv_vocab)
    records = self._builder.records(
      documents, Random(f"{self._job.seed} {shard.number}"), progress, samples
    )
    path = os.path.join(self._folder, f"part-{shard.number}")
    with open(path, "wb") as file:
      sizes = [
        tfrecord.write(file, records[i :: self._job.outputs])
        for i in range(self._job.outputs)
      ]
    return Part(path, sizes, progress.counts, samples.texts)


def write(
  job: Job, paths: list[str], outputs: list[str], processes: int
) -> int:
  """Makes all records of text files.

  Args:
    job: what to make.
    paths: text files.
    outputs: TFRecord files; records go round them in turn.
    processes: number of workers.

  Returns:
    How many records were written.

  Raises:
    ValueError: there is no text, or it is not UTF-8.
    ChildProcessError: a worker died; says what it worked on.
  """
  shards = cut(paths)
  processes = min(processes, len(shards))
  logging.info("%d workers, %d shards of text", processes, len(shards))
  total = sum(shard.megabytes for shard in shards)
  progress = Progress("built from", total, "MB")
  near = None if files.is_remote(outputs[0]) else os.path.dirname(outputs[0])
  with ExitStack() as stack:
    sinks = [stack.enter_context(files.open_for_writing(o)) for o in outputs]
    folder = stack.enter_context(
      TemporaryDirectory(prefix="parts-", dir=near or None)
    )
    prepare = partial(PartBuilder, job, folder)
    finished = workers.run(prepare, shards, processes, idle=progress.say)
    _join(_in_order(finished, shards, progress), sinks)
    if not progress.counts["instances"]:
      raise instances.no_text(paths)
  progress.say()
  return progress.counts["instances"]


def _in_order(
  finished: Iterable[tuple[int, Part]], shards: list[Shard], progress: Progress
) -> Iterator[Part]:
  done = {}
  following = 0
  for number, part in finished:
    done[number] = part
    progress.add(shards[number].megabytes, **part.counts)
    while following in done:
      yield done.pop(following)
      following += 1


def _join(parts: Iterable[Part], sinks: list[BinaryIO]) -> None:
  """Puts parts together as if their records had been dealt out one by one."""
  written = 0
  for part in parts:
    if not written:
      instances.log_samples(part.samples)
    with open(part.path, "rb") as file:
      for i, size in enumerate(part.sizes):
        sink = sinks[(written + i) % len(sinks)]
        _copy(file, sink, size)
    os.remove(part.path)
    written += part.counts["instances"]


def _copy(source: BinaryIO, sink: BinaryIO, size: int) -> None:
  while size:
    block = source.read(min(size, 1 << 20))
    sink.write(block)
    size -= len(block)
