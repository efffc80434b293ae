"""Examples written as a file of records, by one process or several.

Needs no TensorFlow, which every worker process would import for seconds. The
file is the same for any number of processes.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol

from storage import files, tfrecord, workers
from storage.progress import Progress
from storage.tfrecord import Schema

# Examples of a task; fewer take less time than starting a process.
_CHUNK = 20_000

Row = Mapping[str, Sequence[float]]


class Builder(Protocol):
  """Function from an example to the fields of its record."""

  lengths: Counter  # texts by length in tokens, before truncation

  def __call__(self, example: Any) -> Row:
    """Makes one record."""


class Chunk(NamedTuple):
  """Consecutive examples, the first of which has the index `first`."""

  first: int
  examples: Sequence[Any]

  def __str__(self) -> str:
    """Description for messages."""
    return f"examples {self.first} to {self.first + len(self.examples) - 1}"


def _chunk_encoder(prepare, schema):
  """Function from a chunk to serialized records and lengths of its texts."""
  build, encode = prepare(), tfrecord.ExampleEncoder(schema)

  def encode_chunk(chunk):
    build.lengths = Counter()
    records = [encode(build(example)) for example in chunk.examples]
    return records, build.lengths

  return encode_chunk


def write_records(
  path: str,
  schema: Schema,
  examples: Sequence[Any],
  prepare: Callable[[], Builder],
  processes: int = 1,
) -> Counter:
  """Writes a record for each example, atomically; returns Builder.lengths.

  Args:
    path: TFRecord file.
    schema: of the records.
    examples: in order.
    prepare: makes a Builder in each process; see workers.ordered_map.
    processes: maximum number.

  Raises:
    ChildProcessError: a process died; names its examples.
    ValueError: a record does not fit the schema.
  """
  chunks = [
    Chunk(first, examples[first : first + _CHUNK])
    for first in range(0, len(examples), _CHUNK)
  ]
  progress = Progress("recorded", len(examples), "examples")
  prepare = partial(_chunk_encoder, prepare, schema)
  lengths = Counter()
  with files.open_for_writing(path) as file:
    for serialized, chunk_lengths in workers.ordered_map(
      prepare, chunks, processes, idle=progress.say
    ):
      tfrecord.write(file, serialized)
      lengths.update(chunk_lengths)
      progress.add(len(serialized))
  progress.say()
  return lengths
