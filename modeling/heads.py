"""What stands on top of the encoder: one small layer a task.

Names and shapes of variables are the original's. Logits are float32; in
training those of masked words have the type that is computed in.

Legend: B batch, C choices, T tokens, H hidden, P predictions, V vocabulary,
L labels.
"""

import keras
from keras import ops

from modeling.basics import (
  Configured,
  Dense,
  Dropout,
  LayerNorm,
  affine,
  initializer,
)
from modeling.config import BertConfig


class MaskedLanguageModel(keras.layers.Layer):
  """Scores every word of the vocabulary at masked positions.

  The output matrix is the token embedding table itself, plus a bias
  (`get_masked_lm_output` in run_pretraining.py of the original).

  Call arguments:
    hidden: [B, P, H], what the encoder has there.
    table: [V, H] token embeddings.

  Returns:
    [B, P, V] logits.
  """

  def __init__(self, config: BertConfig, **kwargs):
    super().__init__(**kwargs)
    self.config = config
    self.transform = Transform(config, name="transform")

  def build(self, input_shape, *_):
    self.output_bias = self.add_weight(
      name="output_bias", shape=(self.config.vocab_size,), initializer="zeros"
    )
    self.transform.build(input_shape)

  def call(self, hidden, table, training=None):
    hidden = self.transform(hidden, training=training)
    scores = affine(hidden, table, self.output_bias, by_rows=True)
    # The largest tensor of a step: of more bits it would be read longer.
    return scores if training else ops.cast(scores, "float32")


class Transform(keras.layers.Layer):
  """Dense, activation and normalization before the output matrix."""

  def __init__(self, config: BertConfig, **kwargs):
    super().__init__(**kwargs)
    self.dense = Dense(config.hidden_size, config, act=config.hidden_act)
    self.norm = LayerNorm()

  def build(self, input_shape):
    self.dense.build(input_shape)
    self.norm.build(input_shape)

  def call(self, hidden, training=None):
    hidden = self.dense(hidden, training=training)
    return self.norm(hidden, training=training)


def _logits(x, rows, bias):
  """An affine map: [..., H], [L, H], [L] -> [..., L] float32."""
  return ops.cast(affine(x, rows, bias, by_rows=True), "float32")


class LinearHead(keras.layers.Layer):
  """An affine map of the last axis, H -> L, stored as [L, H] and [L].

  Arguments:
    units: L.
    config: width and initial spread.
  """

  def __init__(self, units: int, config: BertConfig, **kwargs):
    super().__init__(**kwargs)
    self.units = units
    self.config = config

  def build(self, *_):
    self.output_weights = self.add_weight(
      name="output_weights",
      shape=(self.units, self.config.output_size),
      initializer=initializer(self.config),
    )
    self.output_bias = self.add_weight(
      name="output_bias", shape=(self.units,), initializer="zeros"
    )

  def call(self, hidden):
    return _logits(hidden, self.output_weights, self.output_bias)


@keras.saving.register_keras_serializable("bert")
class PretrainingHeads(Configured):
  """The two heads of pre-training, under the original's scope `cls`.

  Arguments:
    config: sizes, a BertConfig or a dict of its values.
    next_sentence: False leaves that head out (No NSP).

  Call arguments:
    masked: [B, P, H], what the encoder has at masked positions.
    pooled: [B, H].
    table: [V, H] token embeddings.

  Returns:
    A dict: `masked_lm_logits` [B, P, V]; `next_sentence_logits` [B, 2].
  """

  def __init__(
    self,
    config: BertConfig | dict,
    next_sentence: bool = True,
    name: str = "cls",
    **kwargs,
  ):
    super().__init__(config, name=name, **kwargs)
    self.next_sentence = next_sentence
    self.predictions = MaskedLanguageModel(self.config, name="predictions")
    if next_sentence:
      self.relationship = LinearHead(2, self.config, name="seq_relationship")

  def build(self, input_shape, *_):
    self.predictions.build(input_shape)
    if self.next_sentence:
      self.relationship.build()

  def call(self, masked, pooled, table, training=None):
    logits = self.predictions(masked, table, training=training)
    outputs = {"masked_lm_logits": logits}
    if self.next_sentence:
      outputs["next_sentence_logits"] = self.relationship(pooled)
    return outputs

  def get_config(self):
    return super().get_config() | {"next_sentence": self.next_sentence}


@keras.saving.register_keras_serializable("bert")
class SpanHead(Configured):
  """Scores each token as start and as end of the answer (run_squad.py).

  Call arguments:
    sequence: [B, T, H].

  Returns:
    A dict: `start_logits` and `end_logits`, [B, T] each.
  """

  def __init__(self, config: BertConfig | dict, name: str = "cls", **kwargs):
    super().__init__(config, name=name, **kwargs)
    self.squad = LinearHead(2, self.config, name="squad")

  def build(self, *_):
    self.squad.build()

  def call(self, sequence):
    start, end = ops.unstack(self.squad(sequence), 2, axis=-1)
    return {"start_logits": start, "end_logits": end}


@keras.saving.register_keras_serializable("bert")
class LabelHead(Configured):
  """Scores the labels of a whole sequence, or of each token.

  For sequences it is the original's (run_classifier.py), which keeps the two
  variables outside of any scope. They are therefore made here, where no scope
  is open yet, and not in `build`.

  Arguments:
    num_labels: L.
    config: sizes, a BertConfig or a dict of its values.

  Call arguments:
    vectors: [B, H], or [B, T, H].

  Returns:
    [B, L], or [B, T, L], logits.
  """

  # The original's own constant, whatever its configuration says.
  DROPOUT = 0.1

  def __init__(self, num_labels: int, config: BertConfig | dict, **kwargs):
    super().__init__(config, **kwargs)
    self.num_labels = num_labels
    self.output_weights = keras.Variable(
      initializer(self.config),
      shape=(num_labels, self.config.output_size),
      dtype=self.variable_dtype,
      name="output_weights",
    )
    self.output_bias = keras.Variable(
      keras.initializers.Zeros(),
      shape=(num_labels,),
      dtype=self.variable_dtype,
      name="output_bias",
    )
    self.dropout = Dropout(self.DROPOUT)

  def call(self, vectors, training=None):
    vectors = self.dropout(vectors, training=training)
    return _logits(vectors, self.output_weights, self.output_bias)

  def get_config(self):
    return super().get_config() | {"num_labels": self.num_labels}


@keras.saving.register_keras_serializable("bert")
class ChoiceHead(Configured):
  """Scores choices by one vector (section 4.4 of the paper).

  Arguments:
    config: sizes, a BertConfig or a dict of its values.

  Call arguments:
    pooled: [B * C, H], the choices of an example one after the other.
    input_ids: [B, C, T], which says how many they are.

  Returns:
    [B, C] logits.
  """

  DROPOUT = LabelHead.DROPOUT

  def __init__(self, config: BertConfig | dict, name: str = "cls", **kwargs):
    super().__init__(config, name=name, **kwargs)
    self.dropout = Dropout(self.DROPOUT)

  def build(self, *_):
    self.choice = self.add_weight(
      name="choice",
      shape=(self.config.output_size,),
      initializer=initializer(self.config),
    )

  def call(self, pooled, input_ids, training=None):
    pooled = self.dropout(pooled, training=training)
    scores = ops.sum(pooled * self.choice, axis=-1)  # [B * C]
    scores = ops.reshape(scores, ops.shape(input_ids)[:2])
    return ops.cast(scores, "float32")


@keras.saving.register_keras_serializable("bert")
class OneByOne(keras.layers.Layer):
  """Makes each choice an example of its own: [B, C, T] -> [B * C, T]."""

  def call(self, inputs):
    return ops.reshape(inputs, (-1, ops.shape(inputs)[-1]))
