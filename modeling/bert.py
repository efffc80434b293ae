"""BERT: embeddings, encoder and pooler.

Source: modeling.py of the original; section 3 and figure 2 of the paper.
Legend: B batch, T tokens, P positions, V vocabulary, S segments, H hidden.
"""

import keras
import numpy as np
from keras import ops

from modeling import fused_ops, layers, tracing
from modeling.config import BertConfig
from modeling.heads import BiLstm
from modeling.layers import initializer


@keras.saving.register_keras_serializable("bert")
class Bert(layers.ConfigLayer):
  """Embeddings, encoder and pooler (`BertModel` of the original).

  `input_ids` and `segment_ids` are [B, T] int; segments are 0 by default.
  `input_mask` [B, T] is 1 for tokens, the default, and 0 for padding.
  `positions` [B, P] int name the tokens whose `sequence_output` you need. The
  last block then computes only these tokens and the pooled token, unless a
  BiLSTM reads all tokens.

  Returns a dict: `embedding_output` [B, T, H]; `encoder_layers`, [B, T, H] per
  block, without the last block if `positions` are passed; `sequence_output` [B,
  T, H] or [B, P, H] from the last block or the BiLSTM; `pooled_output` [B, H];
  `embedding_table` [V, H], for heads with tied weights.

  >>> bert = Bert(BertConfig.preset("tiny", vocab_size=99))
  >>> outputs = bert(ops.ones((2, 5), "int32"))
  >>> tuple(outputs["sequence_output"].shape)
  (2, 5, 128)
  """

  def __init__(self, config: BertConfig | dict, name: str = "bert", **kwargs):
    super().__init__(config, name=name, **kwargs)
    config = self.config
    self.embeddings = Embeddings(config, name="embeddings")
    self.encoder = Encoder(config, name="encoder")
    self.bilstm = None
    if config.add_bilstm:
      # With cuDNN, an export made on a GPU would not run on other devices.
      self.bilstm = BiLstm(config.hidden_size // 2, depth=1, use_cudnn=False)
    self.pooler = layers.NamedDense(
      config.hidden_size, config, "tanh", name="pooler"
    )
    # `model.summary(expand_nested=True)` shows these layers.
    parts = (self.embeddings, self.encoder, self.bilstm, self.pooler)
    self.layers = [part for part in parts if part]

  def build(self, input_shape, *_):
    width = self.config.hidden_size
    self.embeddings.build(input_shape)
    for part in self.layers[1:-1]:
      part.build((*input_shape, width))
    self.pooler.build((input_shape[0], width))

  def call(
    self,
    input_ids,
    input_mask=None,
    segment_ids=None,
    positions=None,
    training=None,
  ):
    if input_mask is None:
      input_mask = ops.ones_like(input_ids)
    if segment_ids is None:
      segment_ids = ops.zeros_like(input_ids)
    attention_mask = make_attention_mask(input_mask, self.config.attention)
    # A left-to-right model pools the last token before the padding, because no
    # other token attends to the complete sequence. Other models pool [CLS].
    output_positions = ops.zeros_like(input_mask[:, :1])  # [B, 1]
    if self.config.attention == "left_to_right":
      numbers = ops.arange(ops.shape(input_mask)[1], dtype=input_mask.dtype)
      output_positions = ops.max(numbers * input_mask, axis=1, keepdims=True)
    if positions is not None:
      output_positions = ops.concatenate([output_positions, positions], axis=1)
    all_tokens = positions is None or self.bilstm is not None

    embedding_output, embedding_table = self.embeddings(
      input_ids, segment_ids, training=training
    )
    computed = None if all_tokens else output_positions
    encoder_layers = self.encoder(
      embedding_output, attention_mask, computed, training=training
    )
    sequence = encoder_layers[-1]
    if self.bilstm:
      sequence = self.bilstm(sequence, input_mask, training=training)
    selected = sequence  # the pooled token, then tokens at `positions`
    if all_tokens:
      selected = layers.gather_positions(sequence, output_positions)
    if positions is not None:
      encoder_layers, sequence = encoder_layers[:-1], selected[:, 1:]
    return {
      "embedding_output": embedding_output,
      "encoder_layers": encoder_layers,
      "sequence_output": sequence,
      "pooled_output": self.pooler(selected[:, 0]),
      "embedding_table": embedding_table,
    }

  def compute_output_spec(
    self, input_ids, input_mask=None, segment_ids=None, positions=None, **_
  ):
    # Otherwise Keras would trace the network to find these shapes.
    config, dtype = self.config, self.compute_dtype
    batch, tokens = input_ids.shape
    width = config.hidden_size
    blocks, selected = config.num_hidden_layers, tokens
    if positions is not None:
      blocks, selected = blocks - 1, positions.shape[1]
    return {
      "embedding_output": keras.KerasTensor((batch, tokens, width), dtype),
      "encoder_layers": [
        keras.KerasTensor((batch, tokens, width), dtype) for _ in range(blocks)
      ],
      "sequence_output": keras.KerasTensor((batch, selected, width), dtype),
      "pooled_output": keras.KerasTensor((batch, width), dtype),
      "embedding_table": keras.KerasTensor((config.vocab_size, width), dtype),
    }


def make_attention_mask(input_mask, attention: str):
  """Mask of the keys that each query may attend to, [B, 1 or T, T] int or bool.

  `input_mask` is [B, T] int, and `attention` is "bidirectional",
  "left_to_right" or "right_to_left".
  """
  key_mask = ops.expand_dims(input_mask, 1)  # [B, 1, T]
  if attention == "bidirectional":
    return key_mask
  positions = ops.arange(ops.shape(input_mask)[1])
  query, key = ops.expand_dims(positions, 1), ops.expand_dims(positions, 0)
  causal = query >= key if attention == "left_to_right" else query <= key
  # Not a product: TensorFlow multiplies int32 on the host, even with a GPU.
  return ops.logical_and(ops.expand_dims(causal, 0), key_mask)


class Embeddings(keras.layers.Layer):
  """Sum of token, segment and position embeddings, normalized.

  Maps ids [B, T] int to [B, T, H] and the [V, H] table of token embeddings. By
  default, positions are 0 to T - 1. Raises ValueError if T is known
  and exceeds max_position_embeddings.
  """

  def __init__(self, config: BertConfig, **kwargs):
    super().__init__(**kwargs)
    self.config = config
    self.norm = layers.DropoutAddLayerNorm()

  def build(self, input_shape):
    config = self.config
    random = config.initial_attention == "random"
    for name, size, structured in (
      ("word_embeddings", config.vocab_size, initializer),
      ("token_type_embeddings", config.type_vocab_size, _opposite_segments),
      ("position_embeddings", config.max_position_embeddings, _sinusoids),
    ):
      fixed = config.fixed_positions and name == "position_embeddings"
      initial = initializer if random and not fixed else structured
      shape = (size, config.hidden_size)
      embeddings = self.add_weight(
        shape,
        initial(config),
        name=name,
        trainable=not fixed,
        autocast=name != "word_embeddings",  # cast in `call`
      )
      setattr(self, name, embeddings)
    self.output_shape = (*input_shape, config.hidden_size)
    self.norm.build(self.output_shape)

  def call(self, input_ids, segment_ids, position_ids=None, training=None):
    length = ops.shape(input_ids)[1]
    if isinstance(length, int):
      self.config.check_length(length)
    # Read the table once. A second read would copy it again.
    table = ops.convert_to_tensor(self.word_embeddings)  # [V, H]
    embedding_table = ops.cast(table, self.compute_dtype)
    if self.config.use_one_hot_embeddings:
      words = self._one_hot(input_ids, embedding_table)  # [B, T, H]
    else:
      # Cast after ops.take, which then sums a word's gradients in float32.
      words = ops.cast(ops.take(table, input_ids, axis=0), self.compute_dtype)
    # The original multiplies, too: a product is faster for so few rows.
    types = ops.convert_to_tensor(self.token_type_embeddings)
    segments = self._one_hot(segment_ids, types)
    positions = self.position_embeddings
    if keras.backend.backend() == "jax" and not isinstance(length, int):
      # JAX cannot slice by an unknown length.
      positions = ops.take(positions, ops.arange(length), axis=0)
    else:
      positions = positions[:length]  # [T, H]
    if position_ids is not None:
      # A product has a dense gradient, as the slice above has.
      positions = self._one_hot(position_ids, positions)
    total = words + segments + positions
    hidden_states = self.norm(total, training=training)
    rate = self.config.hidden_dropout_prob
    dropped = fused_ops.dropout(hidden_states, rate=rate, training=training)
    return dropped, embedding_table

  def _one_hot(self, ids, embeddings):
    rows = ops.one_hot(ids, embeddings.shape[0], dtype=embeddings.dtype)
    return rows @ embeddings


class Encoder(keras.layers.Layer):
  """Lists blocks' outputs, [B, T, H]; the last is [B, P, H] at `positions`."""

  def __init__(self, config: BertConfig, **kwargs):
    super().__init__(**kwargs)
    self.config = config
    self.blocks = self.layers = [
      layers.TransformerBlock(config, name=f"layer_{i}")
      for i in range(config.num_hidden_layers)
    ]

  def build(self, input_shape, *_):
    for block in self.blocks:
      block.build(input_shape)
    self.output_shape = input_shape
    if self.config.initial_attention == "structured":
      first = self.blocks[0].attention.self_attention
      _structure_attention(first, self.config.attention)

  def call(self, hidden_states, attention_mask, positions=None, training=None):
    outputs = []
    for block in self.blocks:
      selected = positions if block is self.blocks[-1] else None
      arguments = hidden_states, attention_mask, selected
      if training:
        hidden_states = tracing.train_block(block, self.blocks[0], *arguments)
      else:
        hidden_states = block(*arguments, training=False)
      outputs.append(hidden_states)
    return outputs


# --- Structured initial values -----------------------------------------------
#
# These values let small models learn from little text (docs/pretraining.md).
# All hidden units hold the word. The first half also holds the position, the
# last unit the segment. Variances are multiples of initializer_range squared: 1
# for words, 2 for positions in the first half, H / 5 for segments; mean 2.2.

_POSITION_VARIANCE, _SEGMENT_VARIANCE, _MEAN_VARIANCE = 2.0, 0.2, 2.2


def _sinusoids(config):
  """Makes position embeddings [T, H] of sines, cosines and zeros."""
  length, width = config.max_position_embeddings, config.hidden_size
  angles = np.arange(length)[:, None] * _frequencies(width)
  waves = np.concatenate([np.sin(angles), np.cos(angles)], axis=-1)
  scale = (2 * _POSITION_VARIANCE) ** 0.5 * config.initializer_range
  return np.pad(waves, [(0, 0), (0, width // 2)]) * scale


def _opposite_segments(config):
  """Makes segment embeddings [S, H] that differ in the last unit's sign."""
  number, width = config.type_vocab_size, config.hidden_size
  values = np.zeros((number, width))
  values[:2, -1] = [1, -1][:number]
  return values * (_SEGMENT_VARIANCE * width) ** 0.5 * config.initializer_range


def _frequencies(width):
  return np.pi * (np.arange(width // 4) + 0.5) / (width // 4)


def _structure_attention(layer, attention: str) -> None:
  """Adds the initial attention to the first SelfAttention's kernels, [H, H].

  The first half of the heads attends to neighbors: one token before, one after,
  two before, two after and so on. In a model of one direction, all these
  neighbors are on one side. A query reads a part of its position. A key is
  rotated, so that it equals the query of its neighbor. The last head attends to
  the same word in the other segment, because a next sentence repeats more words
  than a random one. Other heads stay random.
  """
  num_heads, head_size = layer.num_heads, layer.head_size
  width = num_heads * head_size
  half = width // 2
  columns = np.arange(half).reshape(2, head_size // 2, num_heads // 2)
  columns = np.transpose(columns, (2, 0, 1)).reshape(num_heads // 2, head_size)
  queries, keys = np.zeros((2, num_heads, width, head_size))
  # A neighbor scores 32 / 3 for any head size, and gets most of the softmax.
  gain = (32 / 3 * _MEAN_VARIANCE / _POSITION_VARIANCE) ** 0.5
  for head, its_columns in enumerate(columns):
    offset = (head + 1) * (1 if attention == "right_to_left" else -1)
    if attention == "bidirectional":
      offset = (head // 2 + 1) * (1 if head % 2 else -1)
    angles = offset * _frequencies(width)
    cos, sin = np.diag(np.cos(angles)), np.diag(np.sin(angles))
    queries[head] = gain * np.eye(width)[:, its_columns]
    rotation = np.block([[cos, sin], [-sin, cos]])
    keys[head, :half] = gain * rotation[:, its_columns]
  # The same word scores nearly 8. A token of the other segment scores higher by
  # more than 8, so that a token is not its own match.
  match = 17**0.5 * np.eye(width)[:, -head_size:]
  queries[-1] = match
  keys[-1] = match * np.where(np.arange(width) == width - 1, -1, 1)[:, None]
  for dense, added in (layer.query, queries), (layer.key, keys):
    added = np.concatenate(added, axis=1) * head_size**-0.25
    dense.kernel.assign(dense.kernel + ops.cast(added, dense.kernel.dtype))
