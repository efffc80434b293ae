"""Little padding: batches cut to their longest record, of similar records.

Legend: B batch, C choices, T tokens.
"""

import tensorflow as tf

from data.records import Batch
from data.shuffling import ShuffledRecords
from storage.tfrecord import Schema

# Batches whose records are sorted by length together.
TOGETHER = 100
# Greater than all lengths and all random sort keys.
_LIMIT = 2**32


def lengths(mask: tf.Tensor) -> tf.Tensor:
  """Number of positions up to the last token of each record, [B].

  Args:
    mask: [B, T] or [B, C, T] int, 1 for tokens; the longest choice counts.
  """
  positions = tf.range(1, tf.shape(mask, mask.dtype)[-1] + 1)
  return tf.reduce_max(mask * positions, axis=range(1, mask.shape.rank))


def trim_padding(batch: Batch, multiple: int = 8) -> Batch:
  """Cuts off the padding that all rows of a batch have.

  Args:
    batch: with `input_mask` [B, ..., T], 1 for tokens and then 0 for padding.
      Every field with T as its last dimension is cut.
    multiple: the new length is a multiple of it, or T.
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


def group_by_length(
  records: ShuffledRecords, schema: Schema, batch_size: int, skip: int = 0
) -> tf.data.Dataset:
  """Reorders records so that those of a batch have similar lengths.

  The records of 100 batches are sorted by length, and the batches are
  shuffled, within an epoch; a batch with records of two epochs does not change.
  The order is a function of the records' seed, so a reader that skips records,
  in batches of the same size, resumes the same order.

  Args:
    records: in random order, with `input_mask` [..., T].
    schema: of the records.
    batch_size: of all replicas together.
    skip: number of records to skip.

  Returns:
    Serialized records.
  """
  size = TOGETHER * batch_size
  first, inside = divmod(skip, size)
  mask = schema["input_mask"]
  mask = {mask.name: tf.io.FixedLenFeature(mask.shape, mask.dtype)}

  def reorder(number, serialized):
    parsed = tf.io.parse_example(serialized, mask)
    begin = number * size + batch_size * tf.range(TOGETHER, dtype=tf.int64)
    group = _groups(begin, batch_size, records.epoch)  # [batches]
    row_group = tf.repeat(group, batch_size)
    length = tf.cast(lengths(parsed["input_mask"]), tf.int64)
    order = _order(row_group, tf.where(row_group % 2 == 0, length, 0))
    batches = tf.reshape(tf.gather(serialized, order), [TOGETHER, batch_size])
    drawn = tf.random.stateless_uniform(
      [TOGETHER],
      tf.stack([tf.constant(records.seed, tf.int64), number]),
      maxval=_LIMIT,
      dtype=tf.int64,
    )
    return tf.reshape(tf.gather(batches, _order(group, drawn)), [-1])

  windows = records.from_position(first * size).batch(size, drop_remainder=True)
  windows = windows.enumerate(first).map(reorder, tf.data.AUTOTUNE)
  return windows.unbatch().skip(inside)


def _groups(begin, batch_size, epoch):
  """Group of each batch, [batches]; batches are shuffled within groups.

  Batches within an epoch have an even number, those of two epochs an odd one.
  """
  if epoch is None:
    return tf.zeros_like(begin)
  first, last = begin // epoch, (begin + batch_size - 1) // epoch
  return 2 * first + tf.cast(first != last, first.dtype)


def _order(group, key):
  """Indices sorted by group, then by a key less than _LIMIT."""
  return tf.argsort(group * _LIMIT + key, stable=True)
