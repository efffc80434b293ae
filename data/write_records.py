"""Writes examples to files of records, in one process or several."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from storage import tfrecord, workers
from storage.progress import Progress
from storage.tfrecord import ExampleEncoder, Schema

# Examples of a worker's task; fewer take less time than the start of a process.
_CHUNK = 20_000
# From an example to the fields of a record and the texts' lengths in tokens.
Build = Callable[[Any], tuple[Mapping[str, Sequence[float]], Iterable[int]]]


def write_records(
  path: str,
  schema: Schema,
  examples: Sequence[Any],
  prepare: Callable[[], Build],
  processes: int = 1,
) -> Counter:
  """Writes a record for each example, atomically; returns text lengths.

  The result has the number of texts by length in tokens before truncation.
  `prepare` runs once in each process and returns the function that builds
  records (see workers.ordered_map). Raises ChildProcessError if a process died,
  ValueError if a record does not fit the schema.
  """
  chunks = workers.chunks(examples, _CHUNK, "examples")
  progress = Progress("recorded", len(examples), "examples")
  prepare = partial(_chunk_encoder, prepare, schema)
  lengths: Counter[int] = Counter()
  with tfrecord.create(path) as file:
    for records, chunk_lengths in workers.ordered_map(
      prepare, chunks, processes, idle=progress.say
    ):
      file.write(records)
      lengths.update(chunk_lengths)
      progress.add(len(records))
  progress.say()
  return lengths


def _chunk_encoder(prepare, schema):
  """Function from a chunk to serialized records and text lengths."""
  build = prepare()
  encode = ExampleEncoder(schema)

  def encode_chunk(chunk):
    records, lengths = [], Counter()
    for example in chunk.items:
      fields, token_lengths = build(example)
      records.append(encode(fields))
      lengths.update(token_lengths)
    return records, lengths

  return encode_chunk
