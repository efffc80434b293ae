"""Examples to a file of records, by one process or several.

The file is the same for any number of processes.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from data import files, tfrecord, workers
from data.features import Schema
from data.progress import Progress

# What a process takes at a time. Fewer are done by the time it has started.
_CHUNK = 20_000

Row = Mapping[str, Sequence[float]]


class Chunk(NamedTuple):
  """Neighbouring examples.

  Attributes:
    first: number of the first, from 0.
    examples: what they are.
  """

  first: int
  examples: Sequence[Any]

  def __str__(self) -> str:
    """As messages name it."""
    return f"examples {self.first} to {self.first + len(self.examples) - 1}"


class _Encoding:
  def __init__(self, prepare, schema):
    self._row = prepare()
    self._encode = tfrecord.Encoder(schema)

  def __call__(self, chunk):
    return [self._encode(self._row(example)) for example in chunk.examples]


def write(
  path: str,
  schema: Schema,
  examples: Sequence[Any],
  prepare: Callable[[], Callable[[Any], Row]],
  processes: int = 1,
) -> None:
  """Writes a record for each example.

  Args:
    path: TFRecord file, which appears only when it is complete.
    schema: what a record holds.
    examples: what to make records of, in order.
    prepare: called once in each process; returns a function from an example
      to the fields of its record. Pickled if there are several.
    processes: how many, at most; no more are started than are worth it.

  Raises:
    ChildProcessError: a process died; says what it worked on.
    ValueError: a record does not fit the schema.
  """
  chunks = [
    Chunk(first, examples[first : first + _CHUNK])
    for first in range(0, len(examples), _CHUNK)
  ]
  progress = Progress("recorded", len(examples), "examples")
  prepare = partial(_Encoding, prepare, schema)
  with files.open_for_writing(path) as file:
    for records in _results(prepare, chunks, processes, progress):
      tfrecord.write(file, records)
      progress.add(len(records))
  progress.say()


def _results(prepare, chunks, processes, progress) -> Iterable[list[bytes]]:
  processes = min(processes, len(chunks))
  if processes < 2:
    return map(prepare(), chunks)
  finished = workers.run(prepare, chunks, processes, idle=progress.say)
  return _in_order(finished)


def _in_order(finished: Iterable[tuple[int, Any]]) -> Iterator[Any]:
  done = {}
  following = 0
  for number, result in finished:
    done[number] = result
    while following in done:
      yield done.pop(following)
      following += 1
