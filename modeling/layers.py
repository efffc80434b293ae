"""Layers of the encoder, named after the original's variable scopes.

The path of each variable is therefore its name in an original checkpoint. Each
layer builds its sublayers: Keras would otherwise find their variables by
tracing, once more for every level of nesting. `layers` and `output_shape` are
for `summary(expand_nested=True)` of a model.

Source: modeling.py of the original; sections 3 and A.2 of the paper. Legend: B
batch, T tokens, Q queries (T or P), P positions, V vocabulary, H hidden, I
intermediate, A heads, D = H / A head size.
"""

import keras
from keras import ops

from modeling import tracing, xla_islands
from modeling.config import BertConfig
from modeling.core_layers import (
  Dense,
  Dropout,
  DropoutAddLayerNorm,
  gather_positions,
)
from modeling.fused_ops import is_fused, masked_softmax, sizes, transpose_heads
from modeling.initialization import structure_attention
from modeling.tracing import DropoutSeeds


class SelfAttention(keras.layers.Layer):
  """Multi-head scaled dot-product attention of a sequence to itself.

  Call arguments:
    query_input: [B, Q, H] float, the tokens of the sequence that attend.
    hidden_states: [B, T, H] float, the complete sequence.
    attention_mask: [B, 1 or Q, T], 1 where a query may attend to a key.

  Returns:
    [B, Q, H] context vectors, before the output projection.
  """

  def __init__(self, config: BertConfig, **kwargs):
    super().__init__(**kwargs)
    self.num_heads = config.num_attention_heads
    self.head_size = config.hidden_size // config.num_attention_heads
    self.query = Dense(config.hidden_size, config, "query")
    self.key = Dense(config.hidden_size, config, "key")
    self.value = Dense(config.hidden_size, config, "value")
    self.dropout = Dropout(config.attention_probs_dropout_prob)

  def build(self, input_shape, *_):
    for layer in (self.query, self.key, self.value):
      layer.build(input_shape)

  def call(self, query_input, hidden_states, attention_mask, training=None):
    probs = self.attention_probs(
      query_input, hidden_states, attention_mask, training
    )
    probs = self.dropout(probs, training=training)
    v = self._split_heads(self.value(hidden_states))  # [B, A, T, D]
    return self._merge_heads(probs @ v)  # [B, Q, H]

  def attention_probs(
    self, query_input, hidden_states, attention_mask, training=None
  ):
    """Attention probabilities, [B, A, Q, T] float32; arguments as call's."""
    q = self._split_heads(self.query(query_input))  # [B, A, Q, D]
    k = self._split_heads(self.key(hidden_states))  # [B, A, T, D]
    return masked_softmax(
      q @ ops.swapaxes(k, -1, -2),
      attention_mask,
      scale=self.head_size**-0.5,
      training=training,
    )

  def _split_heads(self, x):
    batch, length = sizes(x)[:2]
    x = ops.reshape(x, (batch, length, self.num_heads, self.head_size))
    return transpose_heads(x)

  def _merge_heads(self, x):
    batch, _, length, _ = sizes(x)
    size = self.num_heads * self.head_size
    return ops.reshape(transpose_heads(x), (batch, length, size))


class ResidualOutput(keras.layers.Layer):
  """Projection to H, dropout, residual connection, normalization.

  From x, [B, Q, any], and `residual` [B, Q, H] to [B, Q, H].
  """

  def __init__(self, config: BertConfig, **kwargs):
    super().__init__(**kwargs)
    self.dense = Dense(config.hidden_size, config)
    self.norm = DropoutAddLayerNorm(config.hidden_dropout_prob)

  def build(self, x_shape, residual_shape):
    self.dense.build(x_shape)
    self.norm.build(residual_shape)
    self.output_shape = residual_shape

  def call(self, x, residual, training=None):
    return self.norm(self.dense(x), residual, training=training)


class Attention(keras.layers.Layer):
  """Self-attention with its output projection; arguments as SelfAttention."""

  def __init__(self, config: BertConfig, **kwargs):
    super().__init__(**kwargs)
    self.self_attention = SelfAttention(config, name="self")
    self.output_layer = ResidualOutput(config, name="output")

  def build(self, input_shape, *_):
    self.self_attention.build(input_shape)
    self.output_layer.build(input_shape, input_shape)
    self.output_shape = input_shape

  def call(self, query_input, hidden_states, attention_mask, training=None):
    context = self.self_attention(
      query_input, hidden_states, attention_mask, training=training
    )
    return self.output_layer(context, query_input, training=training)


class Intermediate(keras.layers.Layer):
  """First layer of the feed-forward network: [B, Q, H] -> [B, Q, I]."""

  def __init__(self, config: BertConfig, **kwargs):
    super().__init__(**kwargs)
    self.dense = Dense(
      config.intermediate_size, config, activation=config.hidden_act
    )

  def build(self, input_shape):
    self.dense.build(input_shape)
    self.output_shape = (*input_shape[:-1], self.dense.units)

  def call(self, hidden_states, training=None):
    return self.dense(hidden_states, training=training)


class TransformerBlock(keras.layers.Layer):
  """A Transformer block: attention, then a feed-forward network.

  Call arguments:
    hidden_states: [B, T, H] float.
    attention_mask: [B, 1 or T, T], 1 where a query may attend to a key.
    output_positions: [B, P] int, the only tokens to compute; None for all.

  Returns:
    [B, T, H], or [B, P, H].
  """

  def __init__(self, config: BertConfig, **kwargs):
    super().__init__(**kwargs)
    self.attention = Attention(config, name="attention")
    self.intermediate = Intermediate(config, name="intermediate")
    self.output_layer = ResidualOutput(config, name="output")

  @property
  def num_dropouts(self) -> int:
    """Number of seeds that a call in training takes."""
    dropouts = (
      self.attention.self_attention.dropout,
      self.attention.output_layer.norm.dropout,
      self.output_layer.norm.dropout,
    )
    return sum(bool(dropout.rate) for dropout in dropouts)

  def build(self, input_shape, *_):
    self.attention.build(input_shape)
    self.intermediate.build(input_shape)
    self.output_layer.build(self.intermediate.output_shape, input_shape)
    self.output_shape = input_shape

  @property
  def layers(self) -> list:
    return [self.attention, self.intermediate, self.output_layer]

  def call(
    self, hidden_states, attention_mask, output_positions=None, training=None
  ):
    query_input = hidden_states
    if output_positions is not None:
      query_input = gather_positions(hidden_states, output_positions)
      if attention_mask.shape[1] != 1:
        attention_mask = gather_positions(attention_mask, output_positions)
    attention_output = self.attention(
      query_input, hidden_states, attention_mask, training=training
    )
    intermediate = self.intermediate(attention_output, training=training)
    return self.output_layer(intermediate, attention_output, training=training)


class Encoder(keras.layers.Layer):
  """Outputs of Transformer blocks; output_positions apply to the last one."""

  def __init__(self, config: BertConfig, **kwargs):
    super().__init__(**kwargs)
    self.config = config
    self.blocks = [
      TransformerBlock(config, name=f"layer_{i}")
      for i in range(config.num_hidden_layers)
    ]

  def build(self, input_shape, *_):
    for block in self.blocks:
      block.build(input_shape)
    self.output_shape = input_shape
    if self.config.initial_attention == "structured":
      first = self.blocks[0].attention.self_attention
      kernels = first.query.kernel, first.key.kernel
      structure_attention(*kernels, first.num_heads, self.config.attention)

  @property
  def layers(self) -> list:
    return self.blocks

  def call(
    self, hidden_states, attention_mask, output_positions=None, training=None
  ):
    outputs = []
    for block in self.blocks:
      positions = output_positions if block is self.blocks[-1] else None
      if training:
        hidden_states = _train(
          block, self.blocks[0], hidden_states, attention_mask, positions
        )
      else:
        hidden_states = block(
          hidden_states, attention_mask, positions, training=False
        )
      outputs.append(hidden_states)
    return outputs


def _train(block, like, hidden_states, mask, positions):
  """Calls a block in training; with its activations stored or recomputed.

  With fused operations one block is traced, `like`, for all that compute every
  position: for 6 blocks that saves a second.
  """
  is_shared = positions is None and is_fused()
  is_recomputed = tracing.current().recompute
  if not (is_shared or is_recomputed):
    return block(hidden_states, mask, positions, training=True)
  seeds = DropoutSeeds.current()
  count = seeds.reserve(block.num_dropouts)

  def call(hidden_states, seed):
    arguments = hidden_states, mask, positions, seed, count
    if is_shared:
      return xla_islands.call_function(
        _call_in_training, block, like, *arguments
      )
    return _call_in_training(block, *arguments)

  if is_recomputed:
    return xla_islands.recompute(call, block, hidden_states, seeds.seed)
  return call(hidden_states, seeds.seed)


def _call_in_training(block, hidden_states, mask, positions, seed, count):
  with DropoutSeeds(seed, count):
    return block(hidden_states, mask, positions, training=True)


class Pooler(keras.layers.Layer):
  """Vector of a sequence: tanh layer on one token's, [B, H] -> [B, H]."""

  def __init__(self, config: BertConfig, **kwargs):
    super().__init__(**kwargs)
    self.dense = Dense(config.hidden_size, config, activation="tanh")

  def build(self, input_shape, *_):
    self.output_shape = (input_shape[0], input_shape[-1])
    self.dense.build(self.output_shape)

  def call(self, hidden_state):
    return self.dense(hidden_state)
