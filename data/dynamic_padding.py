"""Batches without the padding that all rows share, and rows sorted by length.

Legend: B batch, C choices, T tokens.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf

from data import records
from data.length_bucketing import lengths
from storage.schema import Schema

# Batches whose records are sorted by length together.
_SORTED_TOGETHER = 100


def trim_padding(batch: records.Batch, multiple: int = 8) -> records.Batch:
  """Cuts off the padding that all rows of a batch have.

  Args:
    batch: with `input_mask` [B, ..., T], 1 for tokens and then 0 for padding.
      Every field with T as its last dimension is cut.
    multiple: the new length is a multiple of it, or T.

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


def trim_batches(batches: tf.data.Dataset) -> tf.data.Dataset:
  """Applies `trim_padding` to all batches."""
  return records.prefetch_map(batches, trim_padding)


def sorted_by_length(
  files: Sequence[str], schema: Schema, batch_size: int
) -> tf.data.Dataset:
  """Reads every record once, those of similar length together.

  Args:
    files: TFRecord files.
    schema: of the records.
    batch_size: B; the last batch may be smaller.

  Returns:
    Dicts of the schema's fields, [B, ...], and `position` [B], the index of the
    record in the files, for `restore_order`.
  """
  parse = records.parser(schema)

  def sort_rows(positions, serialized):
    batch = parse(serialized) | {"position": positions}
    order = tf.argsort(lengths(batch["input_mask"]), stable=True)
    return {name: tf.gather(value, order) for name, value in batch.items()}

  chunks = (
    records.read_sequential(files)
    .enumerate()
    .batch(_SORTED_TOGETHER * batch_size)
  )
  return records.prefetch_map(chunks, sort_rows).rebatch(batch_size)


def restore_order(outputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
  """Sorts outputs for batches of `sorted_by_length` into the files' order.

  Args:
    outputs: arrays [records, ...] by name, among them `position`.
  """
  order = np.argsort(outputs["position"])
  return {name: values[order] for name, values in outputs.items()}
