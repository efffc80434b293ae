"""A model on any number of rows, in batches of rows of similar length.

Memory is bounded and padding short. Inputs are `input_ids`, `input_mask` and
`segment_ids`, [N, T] int32 each.

Legend: N rows, T tokens, L labels.
"""

from collections.abc import Callable

import tensorflow as tf

# Tokens of a batch: enough to keep a processor busy, few enough for its caches.
_TOKENS = 1024
_BATCH_SIZES = (8, 16, 32)


def batch_size(length: int | tf.Tensor) -> tf.Tensor:
  """Rows of a batch whose longest has `length` tokens: scalar int32."""
  size = _TOKENS // tf.maximum(length, 1)
  sizes = tf.constant(_BATCH_SIZES)
  return tf.reduce_max(tf.where(sizes <= size, sizes, _BATCH_SIZES[0]))


def row_logits(model, inputs: dict[str, tf.Tensor], size: int) -> tf.Tensor:
  """A model's `logits` for rows: [N, L] float32, of `size` L."""
  return _in_batches(model, inputs, lambda logits: logits, (size,))


def token_logits(model, inputs: dict[str, tf.Tensor], size: int) -> tf.Tensor:
  """A model's `logits` for tokens: [N, T, L] float32, of `size` L.

  They are undefined for padding.
  """
  length = tf.shape(inputs["input_ids"])[1]

  def pad(logits):
    missing = length - tf.shape(logits)[1]
    return tf.pad(logits, [[0, 0], [0, missing], [0, 0]])

  return _in_batches(model, inputs, pad, (None, size))


def _in_batches(
  model, inputs, finish: Callable[[tf.Tensor], tf.Tensor], shape
) -> tf.Tensor:
  rows, longest = tf.unstack(tf.shape(inputs["input_ids"]))
  lengths = _lengths(inputs["input_mask"])
  order = tf.argsort(lengths, stable=True)
  size = batch_size(longest)
  result = tf.TensorArray(
    tf.float32,
    1,
    dynamic_size=True,
    infer_shape=False,
    element_shape=[None, *shape],
  )

  def run_batch(number, result):
    selected = order[number * size : (number + 1) * size]
    longest = tf.concat([[1], tf.gather(lengths, selected)], axis=0)
    length = tf.reduce_max(longest)
    batch = {k: tf.gather(v, selected)[:, :length] for k, v in inputs.items()}
    logits = model(batch, training=False)["logits"]
    return number + 1, result.write(number, finish(logits))

  # At least one batch, which may be empty.
  _, result = tf.while_loop(
    lambda number, _: number < tf.maximum(-(-rows // size), 1),
    run_batch,
    (0, result),
    parallel_iterations=1,
  )
  in_order = tf.gather(result.concat(), tf.argsort(order))
  return tf.ensure_shape(in_order, [None, *shape])


def _lengths(mask):
  """Tokens up to the last real one, T if there is none: [N, T] -> [N]."""
  numbers = tf.range(1, tf.shape(mask)[1] + 1)
  last = tf.reduce_max(tf.where(mask > 0, numbers, 0), axis=1)
  return tf.where(last > 0, last, tf.shape(mask)[1])
