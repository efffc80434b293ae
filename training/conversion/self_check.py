"""Whether a converted model is the one that it was made of.

It is, if every variable was read back bit for bit, and if both compute the same
from a batch that is always the same.

Legend: B batch, C choices, T tokens, P predictions.
"""

import keras
import numpy as np
from absl import logging

from training.conversion.interchange import HEADS, Bert

_B, _T, _P = 2, 16, 3


def check_same(bert: Bert, back: Bert) -> None:
  """Raises ValueError unless a model was read back as it was written.

  Args:
    bert: what was written.
    back: what was read then.
  """
  wrong = sorted(bert.values.keys() ^ back.values.keys())
  wrong += [
    name
    for name, value in bert.values.items()
    if name in back.values and not _are_same(value, back.values[name])
  ]
  wrong += [
    key
    for key, value in (bert.config or {}).items()
    if back.config[key] != value
  ]
  if wrong:
    raise ValueError(
      f"{bert.origin} was not written faithfully to {back.origin}: "
      f"{', '.join(wrong[:3])}"
    )
  logging.info("read back: all %d are the same, bit for bit", len(bert.values))


def outputs(model: keras.Model, bert: Bert, head: str) -> dict[str, np.ndarray]:
  """What a model computes from the fixed batch.

  Args:
    model: of the right kind; gets the values of `bert`.
    bert: what is known of it.
    head: a key of HEADS.

  Returns:
    The model's outputs by name, those that are arrays.

  Raises:
    ValueError: a variable is not there, or has another shape.
  """
  for variable in model.variables:
    value = bert.values.get(variable.path)
    if value is None and _may_be_missing(variable.path, head):
      variable.assign(keras.ops.zeros_like(variable))
      continue
    _check(bert, variable, value)
    variable.assign(value)
  found = model(_batch(model, bert.config), training=False)
  return {
    name: np.asarray(value)
    for name, value in found.items()
    if keras.ops.is_tensor(value)
  }


def _may_be_missing(name, head):
  """Not every Hugging Face class has a pooler, and not every task needs it."""
  needs_it = HEADS[head].pools and head != "encoder"
  return name.startswith("bert/pooler/") and not needs_it


def _check(bert, variable, value):
  if value is None:
    raise ValueError(
      f"{bert.origin}: no tensor gives {variable.path}; it has "
      f"{', '.join(sorted(bert.values)[:3])}, ..."
    )
  if value.shape != tuple(variable.shape):
    is_head = not variable.path.startswith("bert/")
    remedy = "; --head=encoder takes the encoder alone" if is_head else ""
    raise ValueError(
      f"{bert.origin}: {variable.path} has shape {value.shape}, its "
      f"configuration says {tuple(variable.shape)}{remedy}"
    )


def _batch(model, config):
  """Rows of random ids, the second one padded; of choices, one row of two."""
  rng = np.random.RandomState(1)
  length = min(_T, config["max_position_embeddings"])
  tokens = (_B, length)
  mask = np.ones(tokens, np.int32)
  mask[1, -(length // 4) :] = 0
  segments = np.arange(length) % min(2, config["type_vocab_size"])
  rows = {
    "input_ids": rng.randint(0, config["vocab_size"], tokens),
    "input_mask": mask,
    "segment_ids": np.broadcast_to(segments, tokens),
    "masked_lm_positions": rng.randint(0, length, (_B, _P)),
  }
  batch = {name: rows[name].astype(np.int32) for name in model.input}
  if len(model.input["input_ids"].shape) > len(tokens):
    batch = {name: value[np.newaxis] for name, value in batch.items()}
  return batch  # [B, T], or [1, C, T]


def _are_same(a, b):
  return (a.dtype, a.shape) == (b.dtype, b.shape) and a.tobytes() == b.tobytes()
