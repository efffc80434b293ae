"""The layers of the encoder, named after the original's variable scopes.

A layer's name is the scope of the original, so the path of each variable is its
name in an original checkpoint. A layer builds what it is made of: Keras would
find its variables by tracing it, once more for every level of nesting.

Source: modeling.py of the original; sections 3 and A.2 of the paper, section 3
of "Attention is all you need".

Legend: B batch, T tokens, Q tokens that look at others (all, or those wanted),
P tokens wanted, H hidden, I intermediate, A heads, D = H / A head size.
"""

import keras
from keras import ops

from modeling.basics import (
  Dense,
  Dropout,
  LayerNorm,
  gather_positions,
  initializer,
  swap_heads,
)
from modeling.chains import attention_weights
from modeling.config import BertConfig


class Embeddings(keras.layers.Layer):
  """Sum of token, segment and position embeddings, normalized.

  Arguments:
    config: sizes.
    one_hot: look tokens up by a matrix product, as suits TPUs; the values
      are the same.

  Call arguments:
    input_ids: [B, T] int.
    segment_ids: [B, T] int.

  Returns:
    [B, T, H] embeddings, and the [V, H] table of token embeddings.
  """

  def __init__(self, config: BertConfig, one_hot: bool = False, **kwargs):
    super().__init__(**kwargs)
    self.config = config
    self.one_hot = one_hot
    self.norm = LayerNorm()
    self.dropout = Dropout(config.hidden_dropout_prob)

  def build(self, input_shape):
    config = self.config
    for name, rows in (
      ("word_embeddings", config.vocab_size),
      ("token_type_embeddings", config.type_vocab_size),
      ("position_embeddings", config.max_position_embeddings),
    ):
      shape = (rows, config.hidden_size)
      table = self.add_weight(
        name=name, shape=shape, initializer=initializer(config)
      )
      setattr(self, name, table)
    self.norm.build((*input_shape, config.hidden_size))

  def call(self, input_ids, segment_ids, training=None):
    length = ops.shape(input_ids)[1]
    longest = self.config.max_position_embeddings
    if isinstance(length, int) and length > longest:
      raise ValueError(
        f"a sequence of {length} tokens exceeds max_position_embeddings "
        f"{longest} of the configuration"
      )
    # Read once: two readers of one variable would each copy it.
    table = ops.convert_to_tensor(self.word_embeddings)  # [V, H]
    if self.one_hot:
      size = self.config.vocab_size
      words = ops.one_hot(input_ids, size, dtype=table.dtype) @ table
    else:
      words = ops.take(table, input_ids, axis=0)  # [B, T, H]
    # A product, not a look-up: there are few rows and each is met often.
    segments = ops.one_hot(
      segment_ids, self.config.type_vocab_size, dtype=table.dtype
    ) @ ops.convert_to_tensor(self.token_type_embeddings)
    total = words + segments + self._positions(length)
    hidden = self.norm(total, training=training)
    return self.dropout(hidden, training=training), table

  def _positions(self, length):
    if keras.backend.backend() == "jax" and not isinstance(length, int):
      # JAX does not see that a length yet unknown is not beyond the table's.
      return ops.take(self.position_embeddings, ops.arange(length), axis=0)
    return self.position_embeddings[:length]  # [T, H]


class SelfAttention(keras.layers.Layer):
  """Multi-head scaled dot-product attention of a sequence to itself.

  Call arguments:
    asking: [B, Q, H] float, the tokens of the sequence that look at others.
    hidden: [B, T, H] float, the whole sequence.
    mask: [B, 1 or Q, T], 1 where the query may look at the key.

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

  def call(self, asking, hidden, mask, training=None):
    weights = self.shares(asking, hidden, mask, training)
    v = self._split_heads(self.value(hidden, training=training))
    context = swap_heads(weights @ v)  # [B, Q, A, D]
    return ops.reshape(context, ops.shape(asking))  # [B, Q, H]

  def shares(self, asking, hidden, mask, training=None):
    """How much each token looks at each, [B, A, Q, T]; arguments as call's."""
    q = self._split_heads(self.query(asking, training=training))
    k = self._split_heads(self.key(hidden, training=training))
    return attention_weights(
      q @ ops.swapaxes(k, -1, -2),  # [B, A, Q, T]
      mask,
      self.dropout.seed(training),
      scale=self.head_size**-0.5,
      rate=self.dropout.rate,
      training=training,
    )

  def _split_heads(self, x):
    batch, length = ops.shape(x)[:2]
    return swap_heads(
      ops.reshape(x, (batch, length, self.num_heads, self.head_size))
    )


class ProjectAndAdd(keras.layers.Layer):
  """Projection to H, dropout, residual connection, normalization.

  Call arguments:
    x: [B, Q, any] float.
    residual: [B, Q, H], what this half of the block was given.

  Returns:
    [B, Q, H].
  """

  def __init__(self, config: BertConfig, **kwargs):
    super().__init__(**kwargs)
    self.dense = Dense(config.hidden_size, config)
    self.norm = LayerNorm(config.hidden_dropout_prob)

  def build(self, x_shape, residual_shape):
    self.dense.build(x_shape)
    self.norm.build(residual_shape)

  def call(self, x, residual, training=None):
    x = self.dense(x, training=training)
    return self.norm(x, residual, training=training)


class Attention(keras.layers.Layer):
  """The attention half of a block: self-attention and its projection.

  Call arguments:
    As SelfAttention has them.

  Returns:
    [B, Q, H].
  """

  def __init__(self, config: BertConfig, **kwargs):
    super().__init__(**kwargs)
    self.attend = SelfAttention(config, name="self")
    self.project = ProjectAndAdd(config, name="output")

  def build(self, input_shape, *_):
    self.attend.build(input_shape)
    self.project.build(input_shape, input_shape)

  def call(self, asking, hidden, mask, training=None):
    context = self.attend(asking, hidden, mask, training=training)
    return self.project(context, asking, training=training)


class Intermediate(keras.layers.Layer):
  """The widening layer of the feed-forward half: [B, Q, H] -> [B, Q, I]."""

  def __init__(self, config: BertConfig, **kwargs):
    super().__init__(**kwargs)
    self.dense = Dense(config.intermediate_size, config, act=config.hidden_act)

  def build(self, input_shape):
    self.dense.build(input_shape)

  def call(self, hidden, training=None):
    return self.dense(hidden, training=training)


class Block(keras.layers.Layer):
  """A Transformer block: attention, then a feed-forward network.

  Call arguments:
    hidden: [B, T, H] float.
    mask: [B, 1 or T, T], 1 where the query may look at the key.
    places: [B, P] int, the tokens whose output is wanted; None for all.

  Returns:
    [B, T, H], or [B, P, H].
  """

  def __init__(self, config: BertConfig, **kwargs):
    super().__init__(**kwargs)
    self.attention = Attention(config, name="attention")
    self.widen = Intermediate(config, name="intermediate")
    self.project = ProjectAndAdd(config, name="output")

  def build(self, input_shape, *_):
    self.attention.build(input_shape)
    self.widen.build(input_shape)
    wide = (*input_shape[:-1], self.widen.dense.units)
    self.project.build(wide, input_shape)

  def call(self, hidden, mask, places=None, training=None):
    asking = hidden
    if places is not None:
      asking = gather_positions(hidden, places)
      if mask.shape[1] != 1:
        mask = gather_positions(mask, places)
    attended = self.attention(asking, hidden, mask, training=training)
    wide = self.widen(attended, training=training)
    return self.project(wide, attended, training=training)


class Encoder(keras.layers.Layer):
  """A stack of blocks.

  Call arguments:
    As Block has them; `places` are for the last one.

  Returns:
    A list of the blocks' outputs.
  """

  def __init__(self, config: BertConfig, **kwargs):
    super().__init__(**kwargs)
    self.blocks = [
      Block(config, name=f"layer_{i}") for i in range(config.num_hidden_layers)
    ]

  def build(self, input_shape, *_):
    for block in self.blocks:
      block.build(input_shape)

  def call(self, hidden, mask, places=None, training=None):
    *lower, last = self.blocks
    outputs = []
    for block in lower:
      hidden = block(hidden, mask, training=training)
      outputs.append(hidden)
    return [*outputs, last(hidden, mask, places, training=training)]


class Pooler(keras.layers.Layer):
  """The vector of a whole sequence: tanh of a token's, [B, H] -> [B, H]."""

  def __init__(self, config: BertConfig, **kwargs):
    super().__init__(**kwargs)
    self.dense = Dense(config.hidden_size, config, act="tanh")

  def build(self, input_shape, *_):
    self.dense.build((input_shape[0], input_shape[-1]))

  def call(self, token):
    return self.dense(token)
