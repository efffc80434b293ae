"""Training batches of records of similar length, which need little padding.

Legend: B batch, C choices, T tokens.
"""

import tensorflow as tf

from data.features import Schema
from data.shuffling import Order

# Batches whose records are ordered by length together.
_TOGETHER = 100
# No length, and no random number that orders batches, is as large.
_LIMIT = 2**32


def grouped(
  records: Order,
  schema: Schema,
  batch_size: int,
  skip: int = 0,
) -> tf.data.Dataset:
  """Reorders records, so that those of a batch are about equally long.

  Out of so many records in random order batches are made by length, and come
  in random order, those of an epoch before those of the next; the batch that
  has records of both stays as it is. It is a function of the records' seed: a
  reader that skips what was read before, in batches of the same size, goes on
  where it stopped.

  Args:
    records: in random order.
    schema: of the records, with `input_mask` [..., T].
    batch_size: of all replicas together.
    skip: number of records to leave out at the beginning.

  Returns:
    A tf.data.Dataset of scalar strings.
  """
  size = _TOGETHER * batch_size
  first, inside = divmod(skip, size)
  mask = schema["input_mask"]
  mask = {mask.name: tf.io.FixedLenFeature(mask.shape, mask.dtype)}

  def reorder(number, serialized):
    parsed = tf.io.parse_example(serialized, mask)
    begin = number * size + batch_size * tf.range(_TOGETHER, dtype=tf.int64)
    part = _parts(begin, batch_size, records.epoch)
    each = tf.repeat(part, batch_size)
    length = tf.cast(lengths(parsed["input_mask"]), tf.int64)
    order = _order(each, tf.where(each % 2 == 0, length, 0))
    batches = tf.reshape(tf.gather(serialized, order), [_TOGETHER, batch_size])
    drawn = tf.random.stateless_uniform(
      [_TOGETHER],
      tf.stack([tf.constant(records.seed, tf.int64), number]),
      maxval=_LIMIT,
      dtype=tf.int64,
    )
    return tf.reshape(tf.gather(batches, _order(part, drawn)), [-1])

  windows = records.after(first * size).batch(size, drop_remainder=True)
  windows = windows.enumerate(first).map(reorder, tf.data.AUTOTUNE)
  return windows.unbatch().skip(inside)


def _parts(begin, batch_size, epoch):
  """Which batches are put in order together: those of the same part, [batches].

  Batches of one epoch have an even number, one of several an odd one.
  """
  if epoch is None:
    return tf.zeros_like(begin)
  first, last = begin // epoch, (begin + batch_size - 1) // epoch
  return 2 * first + tf.cast(first != last, first.dtype)


def _order(part, key):
  """Sorts by part, then by a key less than _LIMIT."""
  return tf.argsort(part * _LIMIT + key, stable=True)


def lengths(mask: tf.Tensor) -> tf.Tensor:
  """Places up to the last token of each record.

  Args:
    mask: [B, T] or [B, C, T] int, 1 for tokens.

  Returns:
    [B] of the same type.
  """
  places = tf.range(1, tf.shape(mask, mask.dtype)[-1] + 1)
  return tf.reduce_max(mask * places, axis=range(1, mask.shape.rank))
