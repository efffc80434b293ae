"""Writes examples to files of records, and logs how many texts are cut."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from absl import logging

from storage import Progress, number_of, setting, tfrecord
from storage.processes import chunks, ordered_map
from storage.tfrecord import ExampleEncoder, Schema

# Examples in a worker's task. Fewer would not repay the start of a process.
_CHUNK = 20_000
_LENGTHS = (16, 32, 64, 128, 256, 384, 512)  # that a log line may suggest
_FITS = 0.99  # fraction of the texts that the suggested length should hold
_MANY = 0.05  # from this fraction of longer texts on, the line is a warning
# Maps an example to a record's fields and to the token lengths of the texts.
Build = Callable[[Any], tuple[Mapping[str, Sequence[float]], Iterable[int]]]


def write_records(
  path: str,
  schema: Schema,
  examples: Sequence[Any],
  prepare: Callable[[], Build],
  processes: int = 1,
) -> Counter:
  """Writes a file with a record for each example, atomically.

  Returns the number of texts for each length in tokens before truncation. For
  `prepare` and errors see ordered_map.
  """
  parts = chunks(examples, _CHUNK, "examples")
  progress = Progress("recorded", len(examples), "examples")
  prepare = partial(_chunk_encoder, prepare, schema)
  lengths: Counter[int] = Counter()
  results = ordered_map(prepare, parts, processes)
  with tfrecord.create(path) as file:
    for records, chunk_lengths in results:
      file.write(records)
      lengths.update(chunk_lengths)
      progress.add(len(records))
  progress.say()
  return lengths


def _chunk_encoder(prepare, schema):
  """Makes a function: chunk -> serialized records, Counter of text lengths."""
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


def log_lengths(
  name: str,
  lengths: Mapping[int, int],
  max_length: int,
  effect: str = "their ends are cut off",
  flag: str = "max_seq_length",
) -> None:
  """Logs how many texts exceed `max_length`, the value of the setting `flag`.

  Warns from 5 % on. `lengths` maps a length in tokens to the number of texts.
  """

  def longer_than(limit):
    return sum(n for length, n in lengths.items() if length > limit)

  total, longer = sum(lengths.values()), longer_than(max_length)
  if not longer:
    return
  fitting = (n for n in _LENGTHS if longer_than(n) <= (1 - _FITS) * total)
  best = next(fitting, _LENGTHS[-1])
  cut = 100 * longer_than(best) / total
  is_longer = best > max_length
  advice = f"; {setting(flag, best)} cuts {cut:.1f} %" if is_longer else ""
  logging.log(
    logging.WARNING if longer >= _MANY * total else logging.INFO,
    f"{name}: {setting(flag, max_length)} is exceeded by {longer:,} of "
    f"{number_of(total, 'text')} ({100 * longer / total:.1f} %): {effect}; the "
    f"longest has {max(lengths):,} tokens{advice}",
  )
