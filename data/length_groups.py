"""Training batches of records of similar length, which need little padding.

Legend: B batch, C choices, T tokens.
"""

from collections.abc import Callable

import tensorflow as tf

from data.features import Schema

# Batches whose records are ordered by length together.
_TOGETHER = 100


def grouped(
  shuffled: Callable[[int], tf.data.Dataset],
  schema: Schema,
  batch_size: int,
  seed: int,
  skip: int = 0,
) -> tf.data.Dataset:
  """Reorders records, so that those of a batch are about equally long.

  Out of so many records in random order batches are made by length, and come
  in random order. It is a function of the seed: a reader that skips what was
  read before goes on where it stopped.

  Args:
    shuffled: from how many records to leave out to serialized records, without
      end and always in the same order.
    schema: of the records, with `input_mask` [..., T].
    batch_size: of all replicas together.
    seed: of the order of batches.
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
    order = tf.argsort(lengths(parsed["input_mask"]), stable=True)
    ordered = tf.gather(serialized, order)
    batches = tf.reshape(ordered, [_TOGETHER, batch_size])
    shuffle = tf.random.experimental.stateless_shuffle
    mixed = shuffle(batches, tf.stack([tf.cast(seed, tf.int64), number]))
    return tf.reshape(mixed, [-1])

  windows = shuffled(first * size).batch(size, drop_remainder=True)
  windows = windows.enumerate(first).map(reorder, tf.data.AUTOTUNE)
  return windows.unbatch().skip(inside)


def lengths(mask: tf.Tensor) -> tf.Tensor:
  """Places up to the last token of each record.

  Args:
    mask: [B, T] or [B, C, T] int, 1 for tokens.

  Returns:
    [B] of the same type.
  """
  places = tf.range(1, mask.shape[-1] + 1, dtype=mask.dtype)
  return tf.reduce_max(mask * places, axis=range(1, mask.shape.rank))
