"""Trims or packs batches, so that less padding is computed.

A batch is a dict of name -> [B, ...]. A row of a packed batch has several
examples, which do not attend to each other.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import tensorflow as tf
from absl import logging

from data.features import TOKENS
from storage import setting

Batch = dict[str, tf.Tensor]
MULTIPLE = 8  # trimmed rows have a multiple of 8 tokens

# Minimum fraction of the cost that packing must save to be the default.
_WORTHWHILE = 0.1
_SAMPLED = 100  # number of random batches in `plan`


def lengths(mask: tf.Tensor) -> tf.Tensor:
  """Length of each example, up to its last token, from the mask.

  [B, T] or [B, C, T] -> [B]. C choices have the length of the longest choice.
  """
  positions = tf.range(1, tf.shape(mask, mask.dtype)[-1] + 1)
  return tf.reduce_max(mask * positions, axis=range(1, mask.shape.rank))


def trim_padding(
  batch: Batch, names: Iterable[str] = TOKENS, multiple: int = MULTIPLE
) -> Batch:
  """Cuts off the padding that all rows of a batch share.

  `input_mask` is [B, ..., T]: ones for tokens, then zeros. The fields `names`
  have this shape. Their new length is a multiple of `multiple`, but T at most.
  """
  mask = batch["input_mask"]
  longest = tf.maximum(tf.reduce_max(lengths(mask)), 1)
  length = _rounded_up(longest, multiple)
  return batch | {name: batch[name][..., :length] for name in names}


def pad_rows(batch: Batch, size: int) -> Batch:
  """Adds rows up to `size`: zeros, but the largest int as `position`."""
  missing = size - tf.shape(batch["position"])[0]
  padded = {}
  for name, value in batch.items():
    widths = [[0, missing]] + [[0, 0]] * (value.shape.rank - 1)
    fill = value.dtype.max if name == "position" else 0
    padded[name] = tf.pad(value, widths, constant_values=fill)
  return padded


@dataclass(frozen=True)
class Packing:
  """Rows of `row_length` positions, T, with at most `max_examples` examples.

  `token_labels` is true if labels belong to tokens, not to examples.
  """

  row_length: int
  max_examples: int = 4
  token_labels: bool = False

  def pack(self, batch: Batch, few_shapes: bool = False) -> Batch:
    """Packs a batch's examples, the longest first, into R rows.

    Takes the TOKENS, [B, T or more], and optional `masked_lm_positions` [B, P].
    Returns the batch with the arguments of encoder_variants.PackedBert, such as
    `output_slots`, [B, 1 + P], or [B, C, 1] for choices [B, C, T]. Token labels
    become [R, T], -1 for padding. With `few_shapes`, R is one of eight numbers.
    """
    length, full_length = self.row_length, batch["input_mask"].shape[-1]
    names = (*TOKENS, "label_ids") if self.token_labels else TOKENS
    full = {name: tf.reshape(batch[name], [-1, full_length]) for name in names}
    tokens = {name: values[:, :length] for name, values in full.items()}
    mask = tokens["input_mask"]
    sizes = lengths(mask)
    row, start, number = _first_fit(sizes, length, self.max_examples)
    position = tf.range(length) + tf.zeros_like(mask)
    tokens["input_mask"] = (number + 1)[:, None] * mask
    tokens["position_ids"] = position
    is_token = tf.sequence_mask(sizes, length)
    first = (row * length + start)[:, None]
    target = tf.boolean_mask(first + position, is_token)
    rows = tf.reduce_max(row) + 1
    if few_shapes:
      rows = _rounded_up(rows, _rounded_up(tf.size(sizes), 8) // 8)

    packed = {}
    for name, values in tokens.items():
      padding = -1 if name == "label_ids" else 0
      values = tf.boolean_mask(values - padding, is_token)
      flat = tf.scatter_nd(target[:, None], values, [rows * length]) + padding
      flat = tf.reshape(flat, [rows, length])
      packed[name] = tf.ensure_shape(flat, [None, length])
    slot = row * self.max_examples + number
    return batch | packed | self._outputs(batch, slot, start, rows)

  def _outputs(self, batch, slot, start, rows):
    """Makes `output_positions` and `output_slots` of PackedBert."""
    outputs = tf.zeros_like(start)[:, None]  # [CLS]
    if "masked_lm_positions" in batch:
      outputs = tf.concat([outputs, batch["masked_lm_positions"]], axis=1)
    size = outputs.shape[1]  # K
    shape = [rows * self.max_examples, size]
    positions = tf.scatter_nd(slot[:, None], start[:, None] + outputs, shape)
    slots = slot[:, None] * size + tf.range(size)
    choices = batch["input_mask"].shape[1:-1]
    slots = tf.reshape(slots, [-1, *choices, size])
    positions = tf.reshape(positions, [rows, self.max_examples * size])
    return {"output_positions": positions, "output_slots": slots}


def _first_fit(sizes, limit, max_examples):
  """Puts each example, the longest first, into the first row that has space.

  Returns each example's row, first position, and number in the row: [B] each.
  """
  result = tf.zeros([tf.size(sizes), 3], sizes.dtype)
  used, examples = tf.zeros_like(sizes), tf.zeros_like(sizes)  # one per row
  for i in tf.argsort(sizes, direction="DESCENDING", stable=True):
    fits = (used + sizes[i] <= limit) & (examples < max_examples)
    chosen = tf.argmax(tf.cast(fits, tf.int32), output_type=tf.int32)
    values = [chosen, used[chosen], examples[chosen]]
    result = tf.tensor_scatter_nd_update(result, [[i]], [values])
    used = tf.tensor_scatter_nd_add(used, [[chosen]], [sizes[i]])
    examples = tf.tensor_scatter_nd_add(examples, [[chosen]], [1])
  return tf.unstack(result, axis=1)


def plan(
  counts: Mapping[int, int],
  max_length: int,
  batch_size: int,
  is_packed: bool | None,
  token_labels: bool = False,
) -> Packing | None:
  """Chooses the packing of a data set; None to pad batches instead.

  `counts` maps a length before truncation to the number of examples. If
  `is_packed` is None, packs only if packing costs a tenth less than padding.
  """
  if is_packed is False:
    return None
  sizes = np.minimum(list(counts.keys()), max_length)
  probs = np.array(list(counts.values())) / sum(counts.values())
  rng = np.random.default_rng(0)
  batches = rng.choice(sizes, (_SAMPLED, batch_size), p=probs)
  padded = np.minimum(_rounded_up(batches.max(1), MULTIPLE), max_length)
  longest = min(int(_rounded_up(sizes.max(), MULTIPLE)), max_length)
  row_lengths = {longest, *range(_rounded_up(longest, 32), max_length + 1, 32)}
  plans = []
  for length in sorted(row_lengths):
    fitting = math.ceil(length / (sizes @ probs))
    packing = Packing(length, length if token_labels else fitting, token_labels)
    rows = np.mean([_num_rows(batch, packing) for batch in batches])
    plans.append((_cost(rows, length), rows, packing))
  cost, rows, packing = min(plans, key=lambda plan: plan[0])
  padded_cost = np.mean(_cost(batch_size, padded))
  if is_packed is None and cost > (1 - _WORTHWHILE) * padded_cost:
    return None
  logging.info(
    f"packing: a batch of {batch_size} takes about {rows:.1f} rows of "
    f"{packing.row_length} tokens ({setting('pack_examples', False)} turns "
    "it off)"
  )
  return packing


def _rounded_up(length, multiple):
  return -(-length // multiple) * multiple


def _cost(rows, length):
  # In a small model, attention to 2,048 positions costs as much as all else.
  return rows * length * (1 + length / 2048)


def _num_rows(sizes, packing):
  """Number of rows into which `_first_fit` packs examples."""
  rows = []  # [positions used, number of examples]
  for size in np.sort(sizes)[::-1]:
    for row in rows:
      if row[0] + size <= packing.row_length and row[1] < packing.max_examples:
        row[0] += size
        row[1] += 1
        break
    else:
      rows.append([size, 1])
  return len(rows)
