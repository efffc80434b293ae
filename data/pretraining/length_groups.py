"""Training batches of records of similar length, which need little padding.

Legend: B batch, T tokens.
"""

from collections.abc import Callable

import tensorflow as tf

# Batches whose records are ordered by length together.
_TOGETHER = 100


def grouped(
  shuffled: Callable[[int], tf.data.Dataset],
  seq_length: int,
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
    seq_length: T of the records.
    batch_size: of all replicas together.
    seed: of the order of batches.
    skip: number of records to leave out at the beginning.

  Returns:
    A tf.data.Dataset of scalar strings.
  """
  size = _TOGETHER * batch_size
  first, inside = divmod(skip, size)
  mask = {"input_mask": tf.io.FixedLenFeature((seq_length,), tf.int64)}

  def reorder(number, serialized):
    parsed = tf.io.parse_example(serialized, mask)
    lengths = tf.reduce_sum(parsed["input_mask"], axis=1)
    ordered = tf.gather(serialized, tf.argsort(lengths, stable=True))
    batches = tf.reshape(ordered, [_TOGETHER, batch_size])
    shuffle = tf.random.experimental.stateless_shuffle
    mixed = shuffle(batches, tf.stack([tf.cast(seed, tf.int64), number]))
    return tf.reshape(mixed, [-1])

  windows = shuffled(first * size).batch(size, drop_remainder=True)
  windows = windows.enumerate(first).map(reorder, tf.data.AUTOTUNE)
  return windows.unbatch().skip(inside)
