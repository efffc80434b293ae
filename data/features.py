"""Schemas of all records, as in the original, and inputs of the encoder."""

from collections.abc import Sequence

from storage.tfrecord import Feature, Schema

# --- Schemas ---------------------------------------------------------------

TOKENS = ("input_ids", "input_mask", "segment_ids")
_IS_REAL = Feature("is_real_example", ())


def tokens(seq_length: int) -> tuple[Feature, ...]:
  """The three inputs of the encoder, [T] each."""
  return tuple(Feature(name, (seq_length,)) for name in TOKENS)


def pretraining(seq_length: int, max_predictions: int = 0) -> Schema:
  """A masked sentence pair (create_pretraining_data.py of the original).

  With 0 predictions the pair is unmasked, for dynamic masking.
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


def classification(
  seq_length: int, shape: tuple[int, ...] = (), dtype: str = "int64"
) -> Schema:
  """One or two texts and a class index (run_classifier.py of the original).

  `shape` (L,) is for L labels, each 0 or 1; `dtype` float32 is for a score.
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
  """A question, a window of the paragraph and, for training, the answer."""
  span = ("start_positions", "end_positions", "is_impossible")
  return Schema(
    Feature("unique_ids", ()),
    *tokens(seq_length),
    *(Feature(name, ()) for name in span if is_training),
  )


# --- Inputs ----------------------------------------------------------------


def join(
  first: Sequence[int], second: Sequence[int] | None, cls: int, sep: int
) -> tuple[list[int], list[int]]:
  """Ids and segments of [CLS] first [SEP] and, unless None, second [SEP]."""
  ids = [cls, *first, sep]
  segments = [0] * len(ids)
  if second is not None:
    ids += second
    ids.append(sep)
    segments += [1] * (len(second) + 1)
  return ids, segments


def pad(values: Sequence[float], length: int, padding: int = 0) -> list:
  """Appends padding up to a length; ValueError if the values are longer."""
  missing = length - len(values)
  if missing < 0:
    raise ValueError(f"{len(values)} values do not fit into {length}")
  return [*values, *[padding] * missing]


def pad_inputs(
  ids: Sequence[int], segments: Sequence[int], seq_length: int, padding: int = 0
) -> dict[str, list[int]]:
  """The three inputs of the encoder, [T] each; `padding` pads the ids."""
  return {
    "input_ids": pad(ids, seq_length, padding),
    "input_mask": pad([1] * len(ids), seq_length),
    "segment_ids": pad(segments, seq_length),
  }
