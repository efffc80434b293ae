"""Fast functions in place of models. Every row has a different output.

Legend: B batch, C choices, T tokens, P positions, L labels.
"""

import tensorflow as tf

from data import vocab
from data.features import TOKENS
from serving import engines

# A word of n of the letters has n word pieces.
LETTERS = "abcde"
PIECES = [f"##{letter}" for letter in LETTERS]
WORDS = [*vocab.SPECIAL_TOKENS, *LETTERS, *PIECES, ".", "|", "[", "]"]
VOCABULARY = {word: number for number, word in enumerate(WORDS)}


def mix(inputs, size):
  """Returns numbers that depend on the row: [..., T] -> [..., T, size]."""
  ids, mask, segments = (tf.cast(inputs[n], tf.float32) for n in TOKENS)
  positions = tf.range(tf.shape(ids)[-1], dtype=ids.dtype)
  by_token = mask * tf.sin(0.7 * ids + 0.3 * positions + segments)
  row = tf.reduce_sum(by_token, axis=-1, keepdims=True)
  return tf.sin((by_token + row)[..., None] * tf.range(1.0, size + 1))


def _without_dropout(function):
  """Gives a function the signature of a model, for inference only."""

  def model(inputs, training):
    assert not training
    return function(inputs)

  return model


def classifier(labels):
  """Tokens -> `logits` [B, L]."""
  return _without_dropout(lambda inputs: {"logits": mix(inputs, labels)[:, 0]})


def tagger(tags):
  """Tokens -> `logits` [B, T, L]."""
  return _without_dropout(lambda inputs: {"logits": mix(inputs, tags)})


def chooser():
  """Tokens [B, C, T] -> `logits` [B, C]."""
  return _without_dropout(lambda inputs: {"logits": mix(inputs, 1)[..., 0, 0]})


def filler(size):
  """Tokens and positions [B, P] -> `masked_lm_logits` [B, P, size]."""

  @_without_dropout
  def model(inputs):
    positions = inputs["masked_lm_positions"]
    logits = tf.gather(mix(inputs, size), positions, batch_dims=1)
    return {"masked_lm_logits": logits}

  return model


def encoder(layers, hidden):
  """Tokens -> `values` [B, T, layers, hidden]."""

  @_without_dropout
  def model(inputs):
    values = mix(inputs, layers * hidden)
    shape = tf.concat([tf.shape(values)[:2], [layers, hidden]], axis=0)
    return {"values": tf.reshape(values, shape)}

  return model


class Engine(engines.Batches):
  """Runs a stand-in function as an engine; `kind` is the task's package."""

  def __init__(self, kind, model):
    sizes = {
      "classification": {"logits": [-1, 2]},
      "ner": {"logits": [-1, -1, 3]},
      "multiple_choice": {"logits": [-1, -1]},
      "pretraining": {"masked_lm_logits": [-1, -1, 9]},
      "features": {"values": [-1, -1, 2, 3]},
      "squad": {"start_logits": [-1, -1], "end_logits": [-1, -1]},
    }
    super().__init__({"input_ids": 1}, sizes[kind])
    self._model = model

  def _call(self, inputs):
    outputs = self._model(inputs, training=False)
    return {name: value.numpy() for name, value in outputs.items()}


def in_graph(text, model):
  """Makes a function from examples (dicts of texts) to arrays by name.

  Traces a TextSignature once for all shapes, as in a SavedModel.
  """
  traced = tf.function(
    lambda **texts: text.from_text(model, **texts), autograph=False
  ).get_concrete_function(**text.texts)

  def call(examples):
    columns = {n: [e[n] for e in examples] for n in text.texts}
    inputs = {n: tf.constant(c, tf.string) for n, c in columns.items()}
    return {name: value.numpy() for name, value in traced(**inputs).items()}

  return call
