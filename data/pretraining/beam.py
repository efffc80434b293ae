"""Makes pre-training records and word counts with Apache Beam.

A pipeline processes the shards of the corpus with RecordBuilder, so every
runner gives the same records as shards.write_shards.
"""

import glob
import json
import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from copy import deepcopy
from pathlib import Path
from uuid import uuid4
from zlib import crc32

from absl import logging

from data.pretraining import instances
from data.pretraining.documents import Shard, TextFormat, split_corpus
from data.pretraining.instances import BuildConfig, RecordBuilder
from data.pretraining.shards import build_shard, digests
from storage import UserError, files, setting, textfiles, tfrecord

try:
  import apache_beam as beam
  from apache_beam.options.pipeline_options import PipelineOptions
except ImportError:
  raise UserError(
    f"{setting('runner')} needs Apache Beam: "
    "`pip install -r requirements-beam.txt`"
  ) from None

_ROOT = Path(__file__).resolve().parents[2]
_COUNTS = "counts.json"  # in the temporary folder
_COUNT_FILES = 64  # number of files with word counts


def write(
  config: BuildConfig, paths: list[str], output: str, options: Sequence[str]
) -> int:
  """Writes records to output-00000-of-00032 etc.; returns the record count.

  Each shard with records becomes a file. The paths must be valid on all
  workers. Bundles may be retried, so the files go to a temporary folder beside
  the output. When all files are complete, they replace existing files.
  `options` are Beam's, such as ["--runner=DirectRunner"]. Raises ValueError if
  there is no text, or if the pipeline fails.
  """
  output = files.absolute(output)
  paths = list(map(files.absolute, paths))
  corpus = split_corpus(paths, config.text_format)
  logging.info("%d shards of text", len(corpus))
  folder = f"{output}.parts-{uuid4().hex}"

  def build(pipeline):
    texts = pipeline | beam.Create([(shard.number, shard) for shard in corpus])
    if config.deduplicate:
      repeated = (
        texts
        | "hash" >> beam.FlatMap(_hashes, config.text_format)
        | "equal ones" >> beam.GroupByKey()
        | "but the first" >> beam.FlatMap(lambda pair: sorted(pair[1])[1:])
      )
      drop = beam.MapTuple(_set_dropped)
      texts = (
        {"shard": texts, "dropped": repeated}
        | beam.CoGroupByKey()
        | drop.with_output_types(tuple[int, Shard])
      )
    written = (
      texts
      | beam.Reshuffle()
      | beam.Values()
      | "make records" >> beam.ParDo(_WriteShard(config, folder))
    )
    return (
      pipeline
      | "once" >> beam.Create([output])
      | "publish" >> beam.Map(_rename, folder, beam.pvalue.AsList(written))
    )

  try:
    _run(build, options)
    if not files.exists(f"{folder}/{_COUNTS}"):
      raise instances.no_text(paths)
    counts = json.loads(files.read_text(f"{folder}/{_COUNTS}"))
  finally:
    files.remove_folder(folder)
  text = (f"{n:,} {name.replace('_', ' ')}" for name, n in counts.items())
  logging.info("counted %s", ", ".join(text))
  instances.warn_of_single_documents(counts, len(corpus))
  return counts["instances"]


def count_words(
  paths: list[str],
  text_format: TextFormat,
  counter,
  output: str,
  options: Sequence[str],
) -> None:
  """Adds the words of text files to `counter`, an empty WordCounter.

  Uses a temporary folder beside the output. For options and errors see `write`.
  """
  output = files.absolute(output)
  corpus = split_corpus(list(map(files.absolute, paths)), text_format)
  folder = f"{output}.counts-{uuid4().hex}"

  def build(pipeline):
    return (
      pipeline
      | beam.Create([(shard.number, shard) for shard in corpus])
      | beam.Reshuffle()
      | beam.FlatMap(_words, text_format, counter)
      | beam.CombinePerKey(sum)
      | beam.GroupBy(lambda pair: crc32(pair[0].encode()) % _COUNT_FILES)
      | beam.Map(_write_counts, folder)
    )

  try:
    _run(build, options)
    for path in files.glob_files(f"{glob.escape(folder)}/*"):
      for line in textfiles.lines(path):
        count, word = line.split(" ")
        counter.add_word(word, int(count))
  finally:
    files.remove_folder(folder)


def outputs(output: str) -> list[str]:
  """Lists the existing files OUTPUT-00000-of-00032 and so on."""
  number = "[0-9]" * 5
  return files.glob_files(f"{glob.escape(output)}-{number}-of-{number}")


class _WriteShard(beam.DoFn):
  """Writes a shard to a new file; yields number, path and counts."""

  def __init__(self, config: BuildConfig, folder: str):
    super().__init__()
    self._config, self._folder = config, folder

  def setup(self):
    self._builder = RecordBuilder(self._config)

  def process(self, shard: Shard) -> Iterator[tuple[int, str, dict[str, int]]]:
    records, counts = build_shard(self._builder, shard)
    if records:
      path = f"{self._folder}/{shard.number}-{uuid4().hex}"
      fingerprint = self._config.tokenizer.fingerprint
      with tfrecord.create(path, fingerprint) as file:
        file.write(records)
      yield shard.number, path, dict(counts)


def _rename(
  output: str, folder: str, written: list[tuple[int, str, dict[str, int]]]
) -> None:
  """Renames complete files; Beam may repeat the call."""
  if not written:
    return
  counts = sum((Counter(counts) for _, _, counts in written), Counter())
  files.write_text(f"{folder}/{_COUNTS}", json.dumps(counts))
  total = len(written)
  names = [f"{output}-{i:05d}-of-{total:05d}" for i in range(total)]
  for path in set(outputs(output)) - set(names):
    for old in filter(files.exists, (tfrecord.index_path(path), path)):
      files.remove(old)
  for (_, path, _), name in zip(sorted(written), names, strict=True):
    index = tfrecord.index_path(path)
    for old, new in ((index, tfrecord.index_path(name)), (path, name)):
      if files.exists(old):
        files.rename(old, new)


def _hashes(pair, text_format):
  number, shard = pair
  for i, digest in enumerate(digests(text_format, shard)):
    yield digest.to_bytes(8), (number, i)


def _set_dropped(number, groups):
  [shard] = groups["shard"]
  return number, shard._replace(dropped=tuple(sorted(groups["dropped"])))


def _words(pair, text_format, counter):
  counter = deepcopy(counter)  # other shards need the empty counter, too
  for line in pair[1].lines(text_format):
    counter.add(line)
  return counter.counts().items()


def _write_counts(group, folder):
  """Writes a group's counts. A Beam writer would need packages for gs://."""
  number, pairs = group
  lines = (f"{count} {word}\n" for word, count in pairs)
  files.write_text(f"{folder}/{number}", "".join(lines))


def _run(build, options) -> None:
  # Worker processes of local runners import the project's modules. A path into
  # the wheel's package would hide the user's modules, such as `data`.
  if __package__ == "data.pretraining":
    folders = [str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ["PYTHONPATH"] = os.pathsep.join(folders)
  try:
    pipeline = beam.Pipeline(options=PipelineOptions(list(options)))
    build(pipeline)
    pipeline.run().wait_until_finish()
  except Exception as error:  # each runner raises its own type
    # A worker's error is the last in Beam's traceback.
    causes = re.findall(r"^[\w.]*Error: (.*)$", str(error), re.M)
    cause = [str(error), *causes][-1]
    raise UserError(
      f"the pipeline failed: {cause}; docs/several_machines.md says what "
      "workers need"
    ) from error
