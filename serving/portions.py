"""A model on any number of rows, in bounded memory and with little padding.

Rows of similar length go through the model together, as short as they can be.

Legend: N rows, T tokens, L labels.
"""

from collections.abc import Callable

import tensorflow as tf

# Tokens of a portion: enough to keep a processor busy, few enough for its
# caches. And rows, whatever their lengths are.
_TOKENS = 1024
_FEWEST_ROWS, _MOST_ROWS = 8, 64


def of_rows(model, inputs: dict[str, tf.Tensor], size: int) -> tf.Tensor:
  """A model's `logits` for rows.

  Args:
    model: from a dict of inputs to `logits` [N, L].
    inputs: `input_ids`, `input_mask`, `segment_ids`, [N, T] int32 each.
    size: L.

  Returns:
    [N, L] float32.
  """
  return _in_portions(model, inputs, lambda logits: logits, (size,))


def of_tokens(model, inputs: dict[str, tf.Tensor], size: int) -> tf.Tensor:
  """A model's `logits` for the tokens of rows, of which a text may make many.

  Args:
    model: from a dict of inputs to `logits` [N, T, L].
    inputs: `input_ids`, `input_mask`, `segment_ids`, [N, T] int32 each.
    size: L.

  Returns:
    [N, T, L] float32; anything where there is only padding.
  """
  length = tf.shape(inputs["input_ids"])[1]

  def filled(logits):
    missing = length - tf.shape(logits)[1]
    return tf.pad(logits, [[0, 0], [0, missing], [0, 0]])

  return _in_portions(model, inputs, filled, (None, size))


def _in_portions(
  model, inputs, finish: Callable[[tf.Tensor], tf.Tensor], shape
) -> tf.Tensor:
  rows, longest = tf.unstack(tf.shape(inputs["input_ids"]))
  lengths = _lengths(inputs["input_mask"])
  order = tf.argsort(lengths, stable=True)
  step = tf.clip_by_value(
    _TOKENS // tf.maximum(longest, 1), _FEWEST_ROWS, _MOST_ROWS
  )
  found = tf.TensorArray(
    tf.float32,
    1,
    dynamic_size=True,
    infer_shape=False,
    element_shape=[None, *shape],
  )

  def go_on(portion, found):
    some = order[portion * step : (portion + 1) * step]
    length = tf.reduce_max(tf.concat([[1], tf.gather(lengths, some)], axis=0))
    trimmed = {k: tf.gather(v, some)[:, :length] for k, v in inputs.items()}
    logits = model(trimmed, training=False)["logits"]
    return portion + 1, found.write(portion, finish(logits))

  # One portion at least: of no rows, if there are none.
  _, found = tf.while_loop(
    lambda portion, _: portion < tf.maximum(-(-rows // step), 1),
    go_on,
    (0, found),
    parallel_iterations=1,
  )
  as_given = tf.gather(found.concat(), tf.argsort(order))
  return tf.ensure_shape(as_given, [None, *shape])


def _lengths(mask):
  """Places up to the last token, or all if there is none: [N, T] -> [N]."""
  places = tf.range(1, tf.shape(mask)[1] + 1)
  last = tf.reduce_max(tf.where(mask > 0, places, 0), axis=1)
  return tf.where(last > 0, last, tf.shape(mask)[1])
