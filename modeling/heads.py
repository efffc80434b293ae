"""Heads: layers of the tasks on top of the encoder.

Variables have the original's names and shapes. Logits are float32, except the
logits of masked words in training, which have the compute type.
"""

import keras
from keras import ops

from modeling.config import BertConfig
from modeling.fused_ops import dropout, linear
from modeling.layers import ConfigLayer, DenseNorm, initializer


class MaskedLMHead(keras.layers.Layer):
  """Logits of the vocabulary at masked positions: [B, P, H] -> [B, P, V].

  The kernel is the `embedding_table` [V, H], as in `get_masked_lm_output`.
  """

  def __init__(self, config: BertConfig, **kwargs):
    super().__init__(**kwargs)
    self.config = config
    activation = config.hidden_act
    self.transform = DenseNorm(config, 0, activation, name="transform")

  def build(self, input_shape, *_):
    shape = (self.config.vocab_size,)
    self.output_bias = self.add_weight(shape, "zeros", name="output_bias")
    self.transform.build(input_shape)

  def call(self, hidden_states, embedding_table, training=None):
    x = self.transform(hidden_states, training=training)
    logits = linear(x, embedding_table, self.output_bias, transpose_b=True)
    # Training keeps the smaller type: this is the largest tensor of a step.
    return logits if training else ops.cast(logits, "float32")


class LinearHead(keras.layers.Layer):
  """Affine map of the last axis, H -> L = units, with a kernel [L, H]."""

  def __init__(self, units: int, config: BertConfig, **kwargs):
    super().__init__(**kwargs)
    self.units = units
    self.config = config

  def build(self, *_):
    shape = self.units, self.config.encoder_output_size
    values = initializer(self.config)
    self.output_weights = self.add_weight(shape, values, name="output_weights")
    self.output_bias = self.add_weight(shape[:1], "zeros", name="output_bias")

  def call(self, hidden_states):
    kernel, bias = self.output_weights, self.output_bias
    logits = linear(hidden_states, kernel, bias, transpose_b=True)
    return ops.cast(logits, "float32")


@keras.saving.register_keras_serializable("bert")
class PretrainingHeads(ConfigLayer):
  """The two pre-training heads, in the original's scope `cls`.

  A call takes vectors at `masked` positions [B, P, H], `pooled` [B, H] and the
  token `embedding_table` [V, H]. It returns `masked_lm_logits` [B, P, V] and,
  with `next_sentence`, `next_sentence_logits` [B, 2].

  >>> heads = PretrainingHeads(BertConfig.preset("tiny", vocab_size=99))
  >>> masked, pooled = ops.ones((2, 3, 128)), ops.ones((2, 128))
  >>> outputs = heads(masked, pooled, ops.ones((99, 128)))
  >>> tuple(outputs["masked_lm_logits"].shape)
  (2, 3, 99)
  """

  def __init__(
    self, config: BertConfig | dict, next_sentence: bool = True, **kwargs
  ):
    super().__init__(config, **{"name": "cls"} | kwargs)
    self.next_sentence = next_sentence
    self.predictions = MaskedLMHead(self.config, name="predictions")
    if next_sentence:
      self.relationship = LinearHead(2, self.config, name="seq_relationship")

  def build(self, input_shape, *_):
    self.predictions.build(input_shape)
    if self.next_sentence:
      self.relationship.build()

  def call(self, masked, pooled, embedding_table, training=None):
    logits = self.predictions(masked, embedding_table, training=training)
    outputs = {"masked_lm_logits": logits}
    if self.next_sentence:
      outputs["next_sentence_logits"] = self.relationship(pooled)
    return outputs

  def get_config(self):
    return super().get_config() | {"next_sentence": self.next_sentence}


@keras.saving.register_keras_serializable("bert")
class SpanHead(ConfigLayer):
  """Maps [B, T, H] to each token's `start_logits` and `end_logits`, [B, T].

  >>> outputs = SpanHead(BertConfig.preset("tiny"))(ops.ones((2, 5, 128)))
  >>> tuple(outputs["start_logits"].shape)
  (2, 5)
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
class ClassificationHead(ConfigLayer):
  """Logits of a sequence, [B, H] -> [B, L], or of each token, [B, T, ...].

  The variables are in no scope, as in the original. Therefore __init__ creates
  the variables: `build` would create variables in the layer's scope.

  >>> head = ClassificationHead(3, BertConfig.preset("tiny"))
  >>> tuple(head(ops.ones((2, 128))).shape)
  (2, 3)
  """

  # The original's constant; the configuration's rates do not apply.
  DROPOUT = 0.1

  def __init__(self, num_labels: int, config: BertConfig | dict, **kwargs):
    super().__init__(config, **{"name": "classifier"} | kwargs)
    self.num_labels = num_labels
    shape = num_labels, self.config.encoder_output_size
    dtype = self.variable_dtype
    self.output_weights = keras.Variable(
      initializer(self.config), shape, dtype, name="output_weights"
    )
    self.output_bias = keras.Variable(
      keras.initializers.Zeros(), (num_labels,), dtype, name="output_bias"
    )

  def call(self, vectors, training=None):
    vectors = dropout(vectors, rate=self.DROPOUT, training=training)
    kernel, bias = self.output_weights, self.output_bias
    return ops.cast(linear(vectors, kernel, bias, transpose_b=True), "float32")

  def get_config(self):
    return super().get_config() | {"num_labels": self.num_labels}


@keras.saving.register_keras_serializable("bert")
class MultipleChoiceHead(ConfigLayer):
  """Scores each choice by a product with one vector (paper, section 4.4).

  Maps `pooled` [B * C, H] to logits [B, C]; `input_ids` [B, C, T] give B and C.

  >>> head = MultipleChoiceHead(BertConfig.preset("tiny"))
  >>> tuple(head(ops.ones((2 * 4, 128)), ops.ones((2, 4, 5))).shape)
  (2, 4)
  """

  def __init__(self, config: BertConfig | dict, name: str = "cls", **kwargs):
    super().__init__(config, name=name, **kwargs)

  def build(self, *_):
    shape = (self.config.encoder_output_size,)
    values = initializer(self.config)
    self.choice = self.add_weight(shape, values, name="choice")

  def call(self, pooled, input_ids, training=None):
    pooled = dropout(pooled, rate=ClassificationHead.DROPOUT, training=training)
    scores = ops.sum(pooled * self.choice, axis=-1)  # [B * C]
    scores = ops.reshape(scores, ops.shape(input_ids)[:2])
    return ops.cast(scores, "float32")


@keras.saving.register_keras_serializable("bert")
class FlattenChoices(keras.layers.Layer):
  """Turns each choice into an example: [B, C, T] -> [B * C, T].

  >>> tuple(FlattenChoices()(ops.ones((2, 4, 5))).shape)
  (8, 5)
  """

  def call(self, inputs):
    return ops.reshape(inputs, (-1, ops.shape(inputs)[-1]))


@keras.saving.register_keras_serializable("bert")
class WeightedSum(keras.layers.Layer):
  """Mean of N layers, weighted by a softmax of trained scores (paper, table 7).

  >>> layers = ops.zeros((2, 5, 8)), ops.ones((2, 5, 8))
  >>> float(WeightedSum()(layers)[0, 0, 0])
  0.5
  """

  def __init__(self, name: str = "weighted_sum", **kwargs):
    super().__init__(name=name, **kwargs)

  def build(self, input_shape):
    self.scores = self.add_weight((len(input_shape),), "zeros", name="scores")

  def call(self, inputs):
    weights = ops.softmax(self.scores)
    return sum(weights[i] * layer for i, layer in enumerate(inputs))


@keras.saving.register_keras_serializable("bert")
class BiLstm(keras.layers.Layer):
  """Bidirectional LSTM layers, `units` wide per direction, which skip padding.

  Maps [B, T, any] float and the mask [B, T] to [B, T, 2 * units].

  >>> tuple(BiLstm(4)(ops.ones((2, 5, 8)), ops.ones((2, 5))).shape)
  (2, 5, 8)
  """

  def __init__(
    self, units: int, depth: int = 2, use_cudnn: bool | str = "auto", **kwargs
  ):
    super().__init__(**{"name": "bilstm"} | kwargs)
    self.units = units
    options = {"return_sequences": True, "use_cudnn": use_cudnn, "name": "lstm"}
    # TensorFlow lacks QR decomposition, for the first values, in bfloat16.
    if self.variable_dtype == "bfloat16":
      options["dtype"] = "mixed_bfloat16"
    self.stack = []
    for i in range(depth):
      lstm = keras.layers.LSTM(units, **options)
      self.stack.append(keras.layers.Bidirectional(lstm, name=f"layer_{i}"))
    # Keras sets this to False for an LSTM that may use cuDNN.
    self.supports_jit = all(x.forward_layer.supports_jit for x in self.stack)

  def build(self, input_shape, *_):
    for layer in self.stack:
      layer.build(input_shape)
      input_shape = (*input_shape[:-1], 2 * self.units)

  def call(self, hidden_states, input_mask, training=None):
    mask = ops.cast(input_mask, "bool")
    for layer in self.stack:
      hidden_states = layer(hidden_states, mask=mask, training=training)
    # A copy drops Keras' mask, which later layers would warn about.
    return ops.copy(hidden_states)
