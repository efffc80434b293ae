"""Layers of a Transformer block, named after the original's variable scopes.

A variable's path is therefore its name in an original checkpoint. Each layer
builds its sublayers, because Keras would otherwise trace every level of nesting
once more to find variables. `layers` and `output_shape` are attributes that
`model.summary(expand_nested=True)` reads. Source: modeling.py of the original;
sections 3 and A.2 of the paper.

Legend: B batch, T tokens, Q queries (T or P), P positions, H hidden, F
intermediate, A heads, D = H / A head size, I input size, O output size.
"""

import keras
from keras import ops

from modeling import fused_ops
from modeling.config import BertConfig


def initializer(config: BertConfig):
  """Makes a new initializer: a shared one would repeat its values."""
  return keras.initializers.TruncatedNormal(stddev=config.initializer_range)


class ConfigLayer(keras.layers.Layer):
  """Layer that takes a BertConfig or its dict, and saves the configuration."""

  def __init__(self, config: BertConfig | dict, **kwargs):
    super().__init__(**kwargs)
    if isinstance(config, dict):
      config = BertConfig.from_dict(config)
    self.config = config

  def get_build_config(self):
    """Returns None: a loaded layer is built by its first call."""

  def get_config(self):
    return super().get_config() | {"config": self.config.to_dict()}


class Dense(keras.layers.Layer):
  """Affine map of the last axis and an activation: [..., I] -> [..., O]."""

  def __init__(
    self, units: int, config: BertConfig, name="dense", activation="linear"
  ):
    super().__init__(name=name)
    self.units = units
    self.config = config
    self.activation = activation

  def build(self, input_shape):
    shape = input_shape[-1], self.units
    values = initializer(self.config)
    self.kernel = self.add_weight(shape, values, name="kernel")
    self.bias = self.add_weight((self.units,), "zeros", name="bias")

  def call(self, x, training=None):
    return fused_ops.dense(
      x, self.kernel, self.bias, activation=self.activation, training=training
    )


class DropoutAddLayerNorm(keras.layers.Layer):
  """Dropout, residual connection and normalization of the last axis.

  Computes in float32, whatever the compute type. `residual` is None, or has the
  shape of x and is added after dropout.
  """

  def __init__(self, rate: float = 0.0):
    super().__init__(name="LayerNorm")
    self.rate = rate

  def build(self, input_shape, *_):
    shape = input_shape[-1:]
    options = {"dtype": "float32", "autocast": False}
    self.gamma = self.add_weight(shape, "ones", name="gamma", **options)
    self.beta = self.add_weight(shape, "zeros", name="beta", **options)

  def call(self, x, residual=None, training=None):
    return fused_ops.dropout_add_layer_norm(
      x, residual, self.gamma, self.beta, rate=self.rate, training=training
    )


def gather_positions(sequence, positions):
  """Vectors at some positions: [B, T, H], [B, P] -> [B, P, H]."""
  batch, length, width = ops.shape(sequence)
  flat = ops.reshape(sequence, (batch * length, width))
  offsets = ops.expand_dims(ops.arange(batch, dtype=positions.dtype), 1)
  return ops.take(flat, positions + offsets * length, axis=0)


class SelfAttention(keras.layers.Layer):
  """Multi-head scaled dot-product attention of a sequence to itself.

  `query_input` [B, Q, H] holds the tokens that attend, and `hidden_states`
  [B, T, H] all tokens. `attention_mask` [B, 1 or Q, T] is 1 where a query may
  attend to a key. Returns context vectors [B, Q, H] before the projection.
  """

  def __init__(self, config: BertConfig, **kwargs):
    super().__init__(**kwargs)
    self.num_heads = config.num_attention_heads
    self.head_size = config.hidden_size // config.num_attention_heads
    self.query = Dense(config.hidden_size, config, "query")
    self.key = Dense(config.hidden_size, config, "key")
    self.value = Dense(config.hidden_size, config, "value")
    self.dropout_rate = config.attention_probs_dropout_prob

  def build(self, input_shape, *_):
    for layer in (self.query, self.key, self.value):
      layer.build(input_shape)

  def call(self, query_input, hidden_states, attention_mask, training=None):
    inputs = query_input, hidden_states, attention_mask
    probs = self.attention_probs(*inputs, training)
    options = {"training": training, "dtype": self.compute_dtype}
    probs = fused_ops.dropout(probs, rate=self.dropout_rate, **options)
    v = self.value(hidden_states)
    v = fused_ops.split_heads(v, self.num_heads, training)  # [B, A, T, D]
    return fused_ops.join_heads(probs @ v, training)  # [B, Q, H]

  def attention_probs(
    self, query_input, hidden_states, attention_mask, training=None
  ):
    """Attention probabilities, [B, A, Q, T] float32; arguments as in `call`."""
    q, k = self.query(query_input), self.key(hidden_states)
    q = fused_ops.split_heads(q, self.num_heads, training)  # [B, A, Q, D]
    k = fused_ops.split_heads(k, self.num_heads, training)  # [B, A, T, D]
    scores = q @ ops.swapaxes(k, -1, -2)
    return fused_ops.masked_softmax(
      scores, attention_mask, scale=self.head_size**-0.5, training=training
    )


class DenseNorm(keras.layers.Layer):
  """Dense layer, dropout of `rate`, residual connection, normalization.

  Maps x [..., any] to [..., H]. `residual` [..., H] may be None.
  """

  def __init__(self, config: BertConfig, rate=0, activation="linear", **kwargs):
    super().__init__(**kwargs)
    self.dense = Dense(config.hidden_size, config, activation=activation)
    self.norm = DropoutAddLayerNorm(rate)

  def build(self, x_shape, *_):
    self.output_shape = (*x_shape[:-1], self.dense.units)
    self.dense.build(x_shape)
    self.norm.build(self.output_shape)

  def call(self, x, residual=None, training=None):
    x = self.dense(x, training=training)
    return self.norm(x, residual, training=training)


class Attention(keras.layers.Layer):
  """Self-attention and output projection; same arguments as SelfAttention."""

  def __init__(self, config: BertConfig, **kwargs):
    super().__init__(**kwargs)
    self.self_attention = SelfAttention(config, name="self")
    rate = config.hidden_dropout_prob
    self.output_layer = DenseNorm(config, rate, name="output")

  def build(self, input_shape, *_):
    self.self_attention.build(input_shape)
    self.output_layer.build(input_shape)
    self.output_shape = input_shape

  def call(self, query_input, hidden_states, attention_mask, training=None):
    inputs = query_input, hidden_states, attention_mask
    context = self.self_attention(*inputs, training=training)
    return self.output_layer(context, query_input, training=training)


class NamedDense(keras.layers.Layer):
  """Dense layer in a scope: NAME/dense/kernel; [..., any] -> [..., units]."""

  def __init__(self, units: int, config: BertConfig, activation, **kwargs):
    super().__init__(**kwargs)
    self.dense = Dense(units, config, activation=activation)

  def build(self, input_shape):
    self.dense.build(input_shape)
    self.output_shape = (*input_shape[:-1], self.dense.units)

  def call(self, x, training=None):
    return self.dense(x, training=training)


class TransformerBlock(keras.layers.Layer):
  """A Transformer block: attention, then a feed-forward network.

  Maps `hidden_states` [B, T, H] to [B, T, H]. `attention_mask` [B, 1 or T, T]
  is 1 where a query may attend to a key. If `positions` [B, P] are passed, the
  block computes only the tokens there, [B, P, H].

  >>> block = TransformerBlock(BertConfig.preset("tiny"))
  >>> tuple(block(ops.ones((2, 5, 128)), ops.ones((2, 1, 5))).shape)
  (2, 5, 128)
  """

  def __init__(self, config: BertConfig, **kwargs):
    super().__init__(**kwargs)
    self.attention = Attention(config, name="attention")
    self.intermediate = NamedDense(
      config.intermediate_size, config, config.hidden_act, name="intermediate"
    )
    rate = config.hidden_dropout_prob
    self.output_layer = DenseNorm(config, rate, name="output")
    rates = config.attention_probs_dropout_prob, rate, rate
    self.num_dropouts = sum(map(bool, rates))
    self.layers = [self.attention, self.intermediate, self.output_layer]

  def build(self, input_shape, *_):
    self.attention.build(input_shape)
    self.intermediate.build(input_shape)
    self.output_layer.build(self.intermediate.output_shape)
    self.output_shape = input_shape

  def call(self, hidden_states, attention_mask, positions=None, training=None):
    query_input = hidden_states
    if positions is not None:
      query_input = gather_positions(hidden_states, positions)
      if attention_mask.shape[1] != 1:
        attention_mask = gather_positions(attention_mask, positions)
    inputs = query_input, hidden_states, attention_mask
    attention_output = self.attention(*inputs, training=training)
    intermediate = self.intermediate(attention_output, training=training)
    return self.output_layer(intermediate, attention_output, training=training)
