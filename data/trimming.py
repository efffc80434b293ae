"""Padding that a batch need not have: cut off, and hardly there to begin with.

Legend: B batch, C choices, T tokens.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf

from data import records
from data.features import Schema
from data.length_groups import lengths

# Batches whose records are ordered by length together.
_ORDERED_TOGETHER = 100


def trim(batch: records.Batch, multiple: int = 8) -> records.Batch:
  """Cuts padding off that all rows of a batch have in common.

  Args:
    batch: with `input_mask` [B, ..., T], 1 for tokens and 0 for padding, which
      is last. Every field with T as its last dimension is cut.
    multiple: the new length is one of it, unless it is T itself.

  Returns:
    The batch, [B, ..., up to T].
  """
  mask = batch["input_mask"]
  longest = tf.reduce_max(lengths(mask))
  length = tf.maximum(-(-longest // multiple), 1) * multiple
  return {
    name: value[..., :length] if _is_along(mask, value) else value
    for name, value in batch.items()
  }


def _is_along(mask, value):
  return value.shape.rank > 1 and value.shape[-1] == mask.shape[-1]


def trimmed(batches: tf.data.Dataset) -> tf.data.Dataset:
  """Batches without padding that they need not have; see `trim`."""
  return records.ahead(batches, trim)


def by_length(
  files: Sequence[str], schema: Schema, batch_size: int
) -> tf.data.Dataset:
  """Every record once, those of similar length together; for `trimmed`.

  Args:
    files: paths.
    schema: what a record is.
    batch_size: B; the last batch may be short.

  Returns:
    Dicts of the schema's fields, [B, ...], and `place` [B], the number of the
    record in the files, from 0. See `as_written`.
  """
  parse = records.parser(schema)

  def ordered(places, serialized):
    batch = parse(serialized) | {"place": places}
    order = tf.argsort(lengths(batch["input_mask"]), stable=True)
    return {name: tf.gather(value, order) for name, value in batch.items()}

  chunks = (
    records.in_order(files).enumerate().batch(_ORDERED_TOGETHER * batch_size)
  )
  return records.ahead(chunks, ordered).rebatch(batch_size)


def as_written(found: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
  """Puts what was found out about batches of `by_length` into files' order.

  Args:
    found: arrays [records, ...] by name, one of which is `place`.
  """
  order = np.argsort(found["place"])
  return {name: values[order] for name, values in found.items()}
