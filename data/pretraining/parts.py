"""Pre-training records of any amount of text, by several processes.

Each shard of the corpus becomes a part: workers write parts to temporary files,
the parent joins these in order. Any number of workers makes the same files.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from random import Random
from tempfile import TemporaryDirectory
from typing import BinaryIO, NamedTuple

from absl import logging

from data import files, tfrecord, workers
from data.pretraining import documents, duplicates, instances
from data.pretraining.shards import Shard, cut
from data.pretraining.text_format import ORIGINAL, TextFormat
from data.progress import Progress
from data.tokenization import CachedTokenizer, FullTokenizer


@dataclass(frozen=True)
class Job:
  """What a worker has to know.

  Attributes:
    vocab_file: path of the vocabulary.
    do_lower_case: how to tokenize.
    settings: what records are to be like.
    seed: of the run; with the number of a shard it gives the shard's.
    text: how documents lie in files.
    drop_duplicates: whether documents are left out that came before.
  """

  vocab_file: str
  do_lower_case: bool
  settings: instances.Settings
  seed: int
  text: TextFormat = ORIGINAL
  drop_duplicates: bool = False

  def read(self, lines: Iterable[str], ids, progress) -> list:
    """Documents of token ids; see documents.read.

    Lines of the user's own are taken as they are. Of sentences that were found
    by a rule, those of one token are page numbers and ornaments, and those
    longer than a record would lose what does not fit.
    """
    if not self.text.is_prose:
      return documents.read(lines, ids, progress)
    return documents.read(lines, ids, progress, 2, self.settings.max_seq_length)


class Built(NamedTuple):
  """What became of a shard.

  Attributes:
    records: serialized, in their order.
    counts: documents, sentences, tokens, instances, and what was left out.
    samples: a few examples, readable.
  """

  records: list[bytes]
  counts: Mapping[str, int]
  samples: list[str]


class ShardBuilder:
  """Makes the records of shards.

  Arguments:
    job: what to make.

  Call arguments:
    shard: the text.

  Returns:
    The records, which are a function of job and shard, as Built.
  """

  def __init__(self, job: Job):
    self._job = job
    self._tokenizer = FullTokenizer(job.vocab_file, job.do_lower_case)
    self._ids = CachedTokenizer(self._tokenizer).ids
    self._builder = instances.Builder(self._tokenizer.vocab, job.settings)

  def __call__(self, shard: Shard) -> Built:
    """Makes the records of a shard."""
    progress = Progress("", 0, "", log=lambda text: None)
    lines = shard.lines(self._job.text)
    if shard.dropped:
      lines = duplicates.without(lines, shard.dropped, progress)
    texts = self._job.read(lines, self._ids, progress)
    samples = instances.Samples(self._tokenizer.inv_vocab)
    rng = Random(f"{self._job.seed} {shard.number}")
    records = self._builder.records(texts, rng, progress, samples)
    return Built(records, progress.counts, samples.texts)


class Part(NamedTuple):
  """Records of a shard in a file, each n-th in one of n sections.

  Attributes:
    path: file of the sections, one after the other; each is a TFRecord file.
    sizes: bytes of each section.
    counts: see Built.
    samples: see Built.
  """

  path: str
  sizes: list[int]
  counts: Mapping[str, int]
  samples: list[str]


class PartWriter:
  """Makes parts; there is one in each worker.

  Arguments:
    job: what to make.
    folder: where parts go.
    sections: number of output files.

  Call arguments:
    shard: the text.

  Returns:
    The Part.
  """

  def __init__(self, job: Job, folder: str, sections: int):
    self._build = ShardBuilder(job)
    self._folder, self._sections = folder, sections

  def __call__(self, shard: Shard) -> Part:
    """Makes the part of a shard."""
    built = self._build(shard)
    path = os.path.join(self._folder, f"part-{shard.number}")
    with open(path, "wb") as file:
      sizes = [
        tfrecord.write(file, built.records[i :: self._sections])
        for i in range(self._sections)
      ]
    return Part(path, sizes, built.counts, built.samples)


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
  shards = cut(paths, text=job.text)
  processes = min(processes, len(shards))
  logging.info("%d workers, %d shards of text", processes, len(shards))
  if job.drop_duplicates:
    shards = _without_repeated(shards, job.text, processes)
  progress = Progress("built from", sum(s.megabytes for s in shards), "MB")
  near = None if files.is_remote(outputs[0]) else os.path.dirname(outputs[0])
  with ExitStack() as stack:
    sinks = [stack.enter_context(files.open_for_writing(o)) for o in outputs]
    folder = stack.enter_context(
      TemporaryDirectory(prefix="parts-", dir=near or None)
    )
    prepare = partial(PartWriter, job, folder, len(outputs))
    finished = workers.run(prepare, shards, processes, idle=progress.say)
    _join(_in_order(finished, shards, progress), sinks)
    if not progress.counts["instances"]:
      raise instances.no_text(paths)
  progress.say()
  return progress.counts["instances"]


def _without_repeated(
  shards: list[Shard], text: TextFormat, processes: int
) -> list[Shard]:
  """Marks documents of which an equal one came before, in any shard."""
  progress = Progress("compared", sum(s.megabytes for s in shards), "MB")
  found = {}
  prepare = partial(_Digests, text)
  for number, digests in workers.run(prepare, shards, processes, progress.say):
    found[number] = digests
    progress.add(shards[number].megabytes, documents=len(digests))
  progress.say()
  dropped = duplicates.repeated([found[shard.number] for shard in shards])
  return [
    shard._replace(dropped=numbers)
    for shard, numbers in zip(shards, dropped, strict=True)
  ]


class _Digests:
  """Digests of the documents of shards."""

  def __init__(self, text):
    self._text = text

  def __call__(self, shard):
    return duplicates.digests(shard.lines(self._text))


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
