"""Examples to files of records, by one process or several."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from storage import tfrecord, workers
from storage.progress import Progress
from storage.tfrecord import ExampleEncoder, Schema

# Examples of a worker's task; fewer take less time than starting a process.
_CHUNK = 20_000
# An example to the fields of its record, and its texts' lengths in tokens.
Build = Callable[[Any], tuple[Mapping[str, Sequence[float]], Iterable[int]]]


def write_records(
  path: str,
  schema: Schema,
  examples: Sequence[Any],
  prepare: Callable[[], Build],
  processes: int = 1,
) -> Counter:
  """Writes a record for each example, atomically; returns their lengths.

  The result counts texts by their tokens before truncation. `prepare` makes the
  function that builds records, once in each of `processes`; see
  workers.ordered_map. Raises ChildProcessError if a process died, ValueError
  for an unfit record.
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
  """Function from a chunk to serialized records and lengths of its texts."""
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
