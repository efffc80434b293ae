"""The records of parts.py, and the words of a corpus, by Apache Beam.

The elements of a pipeline are the shards that the local path has, and
ShardBuilder makes their records: the same bytes, whatever runs the pipeline.
"""

import glob
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from uuid import uuid4

from absl import logging

from data import files, tfrecord
from data.pretraining import duplicates, instances, shards, vocab_learning
from data.pretraining.parts import Job, ShardBuilder
from data.pretraining.shards import Shard
from data.pretraining.text_format import TextFormat

try:
  import apache_beam as beam
  from apache_beam.metrics import Metrics, MetricsFilter
  from apache_beam.options.pipeline_options import PipelineOptions
except ImportError:
  raise ValueError(
    "--runner takes Apache Beam: `pip install -r requirements-beam.txt`"
  ) from None

_ROOT = Path(__file__).resolve().parents[2]
_COUNTERS = "corpus"  # the name space of our metrics


def write(
  job: Job, paths: list[str], output: str, options: Sequence[str]
) -> int:
  """Makes all records of text files.

  Each shard that has records becomes a file. Workers write to a folder beside
  the output; files are renamed when all are whole, so that a bundle that is
  tried again leaves nothing twice, and a pipeline that fails leaves nothing.

  Args:
    job: what to make.
    paths: text files.
    output: files are called output-00000-of-00032 and so on; such ones that are
      there are replaced.
    options: Beam's, as on its command line: ["--runner=DirectRunner"].

  Returns:
    How many records were written, as far as the runner tells.

  Raises:
    ValueError: there is no text, or the pipeline failed.
  """
  cut = shards.cut(paths, text=job.text)
  logging.info("%d shards of text", len(cut))
  folder = f"{output}.parts-{uuid4().hex}"

  def build(pipeline):
    texts = pipeline | beam.Create([(shard.number, shard) for shard in cut])
    if job.drop_duplicates:
      texts = _without_repeated(texts, job.text)
    written = (
      texts
      | beam.Reshuffle()
      | beam.Values()
      | "make records" >> beam.ParDo(_WriteShard(job, folder))
    )
    return (
      pipeline
      | "once" >> beam.Create([output])
      | "publish" >> beam.Map(_publish, beam.pvalue.AsList(written))
    )

  try:
    counts = _run(build, options)
    if not outputs(output):
      raise instances.no_text(paths)
  finally:
    files.remove_folder(folder)
  return counts["instances"]


def count_words(
  paths: list[str],
  text: TextFormat,
  counter: vocab_learning.WordCounter,
  near: str,
  options: Sequence[str],
) -> None:
  """Counts the words of text files.

  Args:
    paths: text files.
    text: how documents lie in them.
    counter: a new one; is told how often each word occurs.
    near: a folder beside this is made, and removed.
    options: Beam's.

  Raises:
    ValueError: the pipeline failed.
  """
  cut = shards.cut(paths, text=text)
  folder = f"{near}.counts-{uuid4().hex}"

  def build(pipeline):
    return (
      pipeline
      | beam.Create([(shard.number, shard) for shard in cut])
      | beam.Reshuffle()
      | beam.FlatMap(_words, text, counter.empty())
      | beam.CombinePerKey(sum)
      | beam.MapTuple(lambda word, count: f"{count} {word}")
      | beam.io.WriteToText(f"{folder}/counts")
    )

  try:
    _run(build, options)
    for path in files.matches(f"{glob.escape(folder)}/*"):
      for line in files.lines(path):
        count, word = line.split(" ")
        counter.add_word(word, int(count))
  finally:
    files.remove_folder(folder)


def outputs(output: str) -> list[str]:
  """The files of an output that are there."""
  return files.matches(f"{glob.escape(output)}-?????-of-?????")


class _WriteShard(beam.DoFn):
  """Writes the records of a shard to a file of a name that nobody else has."""

  def __init__(self, job: Job, folder: str):
    super().__init__()
    self._job, self._folder = job, folder
    self._build = None

  def setup(self):
    self._build = ShardBuilder(self._job)

  def process(self, shard: Shard) -> Iterator[tuple[int, str]]:
    built = self._build(shard)
    for name, count in built.counts.items():
      Metrics.counter(_COUNTERS, name).inc(count)
    if built.records:
      path = f"{self._folder}/{shard.number}-{uuid4().hex}"
      with files.open_for_writing(path) as file:
        tfrecord.write(file, built.records)
      yield shard.number, path


def _publish(output: str, written: list[tuple[int, str]]) -> None:
  """Gives files their names; may be done again where it was interrupted."""
  names = [
    f"{output}-{index:05d}-of-{len(written):05d}"
    for index in range(len(written))
  ]
  for path in outputs(output):
    if path not in names:
      files.remove(path)
  for (_, path), name in zip(sorted(written), names, strict=True):
    if files.exists(path):
      files.rename(path, name)


def _without_repeated(texts, text: TextFormat):
  """Marks documents of which an equal one came before, in any shard."""
  repeated = (
    texts
    | "hash" >> beam.FlatMap(_hashes, text)
    | "equal ones" >> beam.GroupByKey()
    | "but the first" >> beam.FlatMap(lambda pair: sorted(pair[1])[1:])
  )
  return (
    {"shard": texts, "dropped": repeated}
    | beam.CoGroupByKey()
    | beam.MapTuple(_drop).with_output_types(tuple[int, Shard])
  )


def _hashes(pair, text):
  number, shard = pair
  for i, digest in enumerate(duplicates.digests(shard.lines(text))):
    yield int(digest).to_bytes(8), (number, i)


def _drop(number, found):
  [shard] = found["shard"]
  return number, shard._replace(dropped=tuple(sorted(found["dropped"])))


def _words(pair, text, counter):
  counter = counter.empty()
  for line in pair[1].lines(text):
    counter.add(line)
  return counter.counts().items()


def _run(build, options) -> Mapping[str, int]:
  """Runs a pipeline to its end; returns what our counters say."""
  # Worker processes that the runner starts here have to find our modules.
  places = [str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
  os.environ["PYTHONPATH"] = os.pathsep.join(places)
  pipeline = beam.Pipeline(options=PipelineOptions(list(options)))
  build(pipeline)
  try:
    result = pipeline.run()
    result.wait_until_finish()
  except Exception as error:  # each runner has its own
    raise ValueError(f"the pipeline failed: {_cause(error)}") from error
  found = result.metrics().query(MetricsFilter().with_namespace(_COUNTERS))
  counts = Counter(
    {
      one.key.metric.name: one.committed or one.attempted
      for one in found["counters"]
    }
  )
  text = (f"{n:,} {name.replace('_', ' ')}" for name, n in counts.items())
  logging.info("counted %s", ", ".join(text))
  return counts


def _cause(error: Exception) -> str:
  """What a worker said, without the traceback that Beam makes part of it."""
  lines = re.findall(r"^\w*Error: (.*)$", str(error), re.M)
  text = lines[-1] if lines else str(error)
  return re.sub(r" \[while running .*", "", text, flags=re.S)
