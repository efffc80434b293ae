"""Embeddings of tokens, segments and positions, and their sum.

Source: `embedding_lookup` and `embedding_postprocessor` in modeling.py of the
original; section 3 and figure 2 of the paper. Legend: B batch, T tokens,
V vocabulary, H hidden.
"""

import keras
from keras import ops

from modeling.config import BertConfig
from modeling.core_layers import Dropout, DropoutAddLayerNorm
from modeling.initialization import (
  initializer,
  opposite_segments,
  sinusoids,
)


class Embeddings(keras.layers.Layer):
  """Sum of token, segment and position embeddings, normalized.

  Call arguments:
    input_ids: [B, T] int.
    segment_ids: [B, T] int.
    position_ids: [B, T] int. Default: 0 to T - 1 in each row.

  Returns:
    [B, T, H] embeddings, and the [V, H] table of token embeddings.

  Raises:
    ValueError: T exceeds max_position_embeddings.
  """

  def __init__(self, config: BertConfig, **kwargs):
    super().__init__(**kwargs)
    self.config = config
    self.norm = DropoutAddLayerNorm()
    self.dropout = Dropout(config.hidden_dropout_prob)

  def build(self, input_shape):
    config = self.config
    random = config.initial_attention == "random"
    for name, size, structured in (
      ("word_embeddings", config.vocab_size, initializer),
      ("token_type_embeddings", config.type_vocab_size, opposite_segments),
      ("position_embeddings", config.max_position_embeddings, sinusoids),
    ):
      fixed = config.fixed_positions and name == "position_embeddings"
      initial = initializer if random and not fixed else structured
      embeddings = self.add_weight(
        name=name,
        shape=(size, config.hidden_size),
        initializer=initial(config),
        trainable=not fixed,
      )
      setattr(self, name, embeddings)
    self.output_shape = (*input_shape, config.hidden_size)
    self.norm.build(self.output_shape)

  def call(self, input_ids, segment_ids, position_ids=None, training=None):
    length = ops.shape(input_ids)[1]
    max_length = self.config.max_position_embeddings
    if isinstance(length, int) and length > max_length:
      raise ValueError(
        f"a sequence of {length} tokens exceeds max_position_embeddings "
        f"{max_length} of the configuration"
      )
    # Read once: two reads of one variable would each copy it.
    embedding_table = ops.convert_to_tensor(self.word_embeddings)  # [V, H]
    if self.config.use_one_hot_embeddings:
      words = self._one_hot(input_ids, embedding_table)  # [B, T, H]
    else:
      words = ops.take(embedding_table, input_ids, axis=0)  # [B, T, H]
    # A product, as in the original: faster for so few rows.
    segments = self._one_hot(
      segment_ids, ops.convert_to_tensor(self.token_type_embeddings)
    )
    positions = self._positions(length)
    if position_ids is not None:
      # A product, for a dense gradient as that of the slice.
      positions = self._one_hot(position_ids, positions)
    total = words + segments + positions
    hidden_states = self.norm(total, training=training)
    return self.dropout(hidden_states, training=training), embedding_table

  def _one_hot(self, ids, embeddings):
    return (
      ops.one_hot(ids, embeddings.shape[0], dtype=embeddings.dtype) @ embeddings
    )

  def _positions(self, length):
    if keras.backend.backend() == "jax" and not isinstance(length, int):
      # JAX cannot slice by a length that is unknown.
      return ops.take(self.position_embeddings, ops.arange(length), axis=0)
    return self.position_embeddings[:length]  # [T, H]
