"""Fast functions in place of models; outputs differ for all rows.

Legend: B batch, C choices, T tokens, P positions, L labels.
"""

import numpy as np
import tensorflow as tf

# A word of n of these letters has n pieces.
LETTERS = "abcde"
WORDS = [
  *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"),
  *LETTERS,
  *(f"##{letter}" for letter in LETTERS),
  *(".", "|", "[", "]"),
]
VOCABULARY = {word: number for number, word in enumerate(WORDS)}


def mix(inputs, size):
  """Numbers that depend on all of a row: [..., T] -> [..., T, size]."""
  ids, mask, segments = (
    tf.cast(inputs[name], tf.float32)
    for name in ("input_ids", "input_mask", "segment_ids")
  )
  positions = tf.range(tf.shape(ids)[-1], dtype=ids.dtype)
  own = mask * tf.sin(0.7 * ids + 0.3 * positions + segments)
  row = tf.reduce_sum(own, axis=-1, keepdims=True)
  return tf.sin((own + row)[..., None] * tf.range(1.0, size + 1))


def classifier(labels):
  """Tokens -> `logits` [B, L]."""
  return lambda inputs, training: {"logits": mix(inputs, labels)[:, 0]}


def tagger(tags):
  """Tokens -> `logits` [B, T, L]."""
  return lambda inputs, training: {"logits": mix(inputs, tags)}


def chooser():
  """Tokens [B, C, T] -> `logits` [B, C]."""
  return lambda inputs, training: {"logits": mix(inputs, 1)[..., 0, 0]}


def filler(size):
  """Tokens and positions [B, P] -> `masked_lm_logits` [B, P, size]."""

  def model(inputs, training):
    positions = inputs["masked_lm_positions"]
    logits = tf.gather(mix(inputs, size), positions, batch_dims=1)
    return {"masked_lm_logits": logits}

  return model


def encoder(layers, hidden):
  """Tokens -> `values` [B, T, layers, hidden]."""

  def model(inputs, training):
    values = mix(inputs, layers * hidden)
    shape = tf.concat([tf.shape(values)[:2], [layers, hidden]], axis=0)
    return {"values": tf.reshape(values, shape)}

  model.output = {"values": tf.TensorSpec([None, None, layers, hidden])}
  return model


def compiled(task, model, function="from_text"):
  """A method of a task, traced once for all shapes as in a SavedModel.

  Returns:
    A function of arrays by name, to arrays by name.
  """
  specs = dict(task.texts)
  traced = tf.function(
    lambda **texts: getattr(task, function)(model, **texts), autograph=False
  )
  traced = traced.get_concrete_function(**specs)

  def call(**texts):
    inputs = {name: tf.constant(texts[name], tf.string) for name in specs}
    return {name: value.numpy() for name, value in traced(**inputs).items()}

  return call


def arrays(rows):
  """Inputs of a model: dicts of lists -> a dict of arrays."""
  return {
    name: np.array([row[name] for row in rows], np.int32) for name in rows[0]
  }


def assert_equal(result, expected):
  """Compares arrays exactly, floats with a tolerance."""
  assert result.shape == expected.shape
  if result.dtype == object:
    assert result.tolist() == expected.tolist()
  else:
    np.testing.assert_allclose(result, expected, atol=1e-5)
