"""Schemas of all records, as the original's; examples to records."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from random import Random
from typing import Any

from data.tokenizer import Tokenizer
from storage import UserError, files, setting, tfrecord, workers
from storage.progress import Progress
from storage.tfrecord import ExampleEncoder, Feature, Schema

# Examples of a worker's task; fewer take less time than starting a process.
_CHUNK = 20_000

# --- Schemas ---------------------------------------------------------------

TOKENS = ("input_ids", "input_mask", "segment_ids")
_IS_REAL = Feature("is_real_example", ())


def tokens(seq_length: int) -> tuple[Feature, ...]:
  """The three inputs of the encoder, [T] each."""
  return tuple(Feature(name, (seq_length,)) for name in TOKENS)


def pretraining(seq_length: int, max_predictions: int = 0) -> Schema:
  """A masked sentence pair (create_pretraining_data.py of the original).

  With 0 predictions an unmasked one, for dynamic masking.
  """
  masks = (
    Feature("masked_lm_positions", (max_predictions,)),
    Feature("masked_lm_ids", (max_predictions,)),
    Feature("masked_lm_weights", (max_predictions,), "float32"),
  )
  return Schema(
    *tokens(seq_length),
    *(masks if max_predictions else ()),
    Feature("next_sentence_labels", (1,)),
  )


def find_pretraining(
  paths: Sequence[str],
  seq_length: int,
  max_predictions: int,
  vocab_size: int,
  *,
  tokenizer: Tokenizer | None,
  needs_masks: bool = True,
  skip_corrupt: bool = False,
) -> Schema:
  """Schema of the records of files to pre-train on, by the first of each.

  With `skip_corrupt` by the first intact one. Raises ValueError if a file does
  not hold such records, they have other lengths, ids that a model has not, if
  only some files are masked, or if none is, the caller `needs_masks`, and there
  is no `tokenizer` to draw them, or one with other ids of [CLS] and [SEP].
  """
  from storage import record_scan  # noqa: PLC0415, NumPy takes 0.1 s

  # Builders write empty files if there are fewer instances than files.
  paths = [path for path in paths if files.size(path)] or paths[:1]
  records = [record_scan.first_record(path, skip_corrupt) for path in paths]
  is_masked = ["masked_lm_positions" in record for record in records]
  if len(set(is_masked)) > 1:
    other = paths[is_masked.index(not is_masked[0])]
    raise UserError(
      f"one of {paths[0]} and {other} was made with "
      f"{setting('masking', 'dynamic')} and one was not: train on files of one "
      "kind"
    )
  if needs_masks and not is_masked[0] and not tokenizer:
    raise UserError(
      f"{paths[0]} was made with {setting('masking', 'dynamic')}; "
      f"{setting('vocab_file')} is needed to mask it"
    )
  schema = pretraining(seq_length, max_predictions * is_masked[0])
  limits = {
    "input_ids": vocab_size,
    "input_mask": 2,
    "masked_lm_positions": seq_length,
    "masked_lm_ids": vocab_size,
    "next_sentence_labels": 2,
  }
  for path, record in zip(paths, records, strict=True):
    record_scan.check_record(path, record, schema, limits)
  if tokenizer and not is_masked[0]:
    tokenizer.check(*(() if needs_masks else ("cls", "sep")))
    cls, sep = tokenizer.special.cls, tokenizer.special.sep
    for path, record in zip(paths, records, strict=True):
      ids = record["input_ids"]
      if tokenizer.cls != ids[0] or tokenizer.sep not in ids:
        raise UserError(
          f"{path} was made with another vocabulary than "
          f"{tokenizer.vocab_file}: its first record does not begin with the "
          f"id of {cls}, or has no {sep}"
        )
  return schema


def classification(
  seq_length: int, shape: tuple[int, ...] = (), dtype: str = "int64"
) -> Schema:
  """One or two texts and a class index (run_classifier.py of the original).

  `shape` [L] is for several labels, each 0 or 1; `dtype` float32 for a score.
  """
  label_ids = Feature("label_ids", shape, dtype)
  return Schema(*tokens(seq_length), label_ids, _IS_REAL)


def tagging(seq_length: int) -> Schema:
  """A tagged sentence; label_ids is -1 at positions without a tag."""
  return Schema(*tokens(seq_length), Feature("label_ids", (seq_length,)))


def multiple_choice(seq_length: int, choices: int) -> Schema:
  """C texts and the index of the correct choice."""
  inputs = (Feature(f.name, (choices, *f.shape)) for f in tokens(seq_length))
  return Schema(*inputs, Feature("label_ids", ()), _IS_REAL)


def squad(seq_length: int, is_training: bool) -> Schema:
  """A question and a window of its paragraph; for training with its answer."""
  span = ("start_positions", "end_positions", "is_impossible")
  return Schema(
    Feature("unique_ids", ()),
    *tokens(seq_length),
    *(Feature(name, ()) for name in span if is_training),
  )


# --- Inputs ----------------------------------------------------------------


class RowEncoder:
  """Texts and text pairs to token ids with [CLS] and [SEP], T at most.

  Of pairs that are longer the longer text is truncated first; `lengths` counts
  rows by their tokens before that. Raises ValueError if T is too small or the
  vocabulary lacks a special token.
  """

  def __init__(self, tokenizer: Tokenizer, seq_length: int):
    if seq_length < 3:
      raise UserError(
        f"max_seq_length {seq_length} is too short: [CLS], [SEP] and a token "
        "take 3"
      )
    tokenizer.check("cls", "sep", "unknown")
    self.tokenizer = tokenizer
    self.seq_length = seq_length
    self.lengths: Counter[int] = Counter()
    self._ends = tokenizer.cls, tokenizer.sep

  def token_ids(self, text: str) -> list[int]:
    return self.tokenizer.ids(text)

  def encode(
    self, text_a: str, text_b: str | None = None, keep_empty: bool = False
  ) -> tuple[list[int], list[int]]:
    """Ids and segments of a row; by default without an empty second text."""
    first = self.token_ids(text_a)
    second = self.token_ids(text_b or "")
    has_second = bool(second) or keep_empty
    special = 3 if has_second else 2  # [CLS] and [SEP]s
    self.lengths[len(first) + len(second) + special] += 1
    truncate_pair(first, second, self.seq_length - special)
    return join(first, second if has_second else None, *self._ends)

  def inputs(self, ids: Sequence[int], segments: Sequence[int]) -> dict:
    return pad_inputs(ids, segments, self.seq_length, self.tokenizer.pad)


def join(
  first: Sequence[int], second: Sequence[int] | None, cls: int, sep: int
) -> tuple[list[int], list[int]]:
  """Ids and segments of [CLS] first [SEP], then second [SEP] unless None."""
  ids = [cls, *first, sep]
  segments = [0] * len(ids)
  if second is not None:
    ids += second
    ids.append(sep)
    segments += [1] * (len(second) + 1)
  return ids, segments


def pad(values: Sequence[float], length: int, padding: int = 0) -> list:
  """Appends padding up to a length; raises ValueError if values are longer."""
  missing = length - len(values)
  if missing < 0:
    raise ValueError(f"{len(values)} values do not fit into {length}")
  return [*values, *[padding] * missing]


def pad_inputs(
  ids: Sequence[int], segments: Sequence[int], seq_length: int, padding: int = 0
) -> dict[str, list[int]]:
  """The three inputs of the encoder, padded to [T] each; ids by `padding`."""
  return {
    "input_ids": pad(ids, seq_length, padding),
    "input_mask": pad([1] * len(ids), seq_length),
    "segment_ids": pad(segments, seq_length),
  }


def truncate_pair(first: list[int], second: list[int], limit: int) -> None:
  """Truncates two texts in place to `limit` tokens together.

  Removes the last token of the longer text, of the second if both are equally
  long, until they fit (run_classifier.py of the original).
  """
  while len(first) + len(second) > limit:
    longer = first if len(first) > len(second) else second
    longer.pop()


def truncate_pair_at_random(
  first: list[int], second: list[int], limit: int, rng: Random
) -> None:
  """Truncates as `truncate_pair`, but at a random end of the longer text."""
  sizes, begins = [len(first), len(second)], [0, 0]
  for _ in range(sum(sizes) - limit):
    longer = 0 if sizes[0] > sizes[1] else 1
    sizes[longer] -= 1
    begins[longer] += rng.random() < 0.5
  # Sliced once, which is faster.
  first[:] = first[begins[0] : begins[0] + sizes[0]]
  second[:] = second[begins[1] : begins[1] + sizes[1]]


# --- Records of examples, by one process or several ------------------------


def write_records(
  path: str,
  schema: Schema,
  examples: Sequence[Any],
  prepare: Callable[[], Callable[[Any], Mapping[str, Sequence[float]]]],
  processes: int = 1,
) -> Counter:
  """Writes a record for each example, atomically; returns their lengths.

  These are numbers of texts by their tokens before truncation. `prepare` makes,
  in each of `processes`, a function from an example to the fields of its
  record, which counts `lengths` as a RowEncoder; see workers.ordered_map.
  Raises ChildProcessError if a process died, ValueError for an unfit record.
  """
  chunks = workers.chunks(examples, _CHUNK, "examples")
  progress = Progress("recorded", len(examples), "examples")
  prepare = partial(_chunk_encoder, prepare, schema)
  lengths: Counter[int] = Counter()
  with tfrecord.create(path) as file:
    for serialized, chunk_lengths in workers.ordered_map(
      prepare, chunks, processes, idle=progress.say
    ):
      file.write(serialized)
      lengths.update(chunk_lengths)
      progress.add(len(serialized))
  progress.say()
  return lengths


def _chunk_encoder(prepare, schema):
  """Function from a chunk to serialized records and lengths of its texts."""
  build = prepare()
  encode = ExampleEncoder(schema)

  def encode_chunk(chunk):
    before = Counter(build.lengths)
    records = [encode(build(example)) for example in chunk.items]
    return records, build.lengths - before

  return encode_chunk
