"""Encoders made of Bert: packed rows, two directions, windows of long texts.

Legend: B batch, T tokens, H hidden, V vocabulary, R packed rows, P positions, L
tokens of a long text, W windows.
"""

from dataclasses import replace
from typing import NamedTuple

import keras
from keras import ops

from modeling.bert import Bert
from modeling.config import SIDES, BertConfig
from modeling.layers import ConfigLayer


class PackedBert(keras.layers.Layer):
  """Encodes rows of several examples, as if each example had its own row.

  A token attends only to its own example, and an example begins at position 0.
  `bert` is a Bert with bidirectional attention and no BiLSTM.

  The inputs are [R, T] int. The mask numbers the examples of a row from 1.
  `output_positions` [R, P] int are the tokens that the last block computes, by
  default all. `output_slots` [B, K] int has a row for each of B examples, with
  indices into the R * P computed tokens. The first is the example's [CLS]. Give
  both of these inputs or neither.

  Returns a dict: `sequence_output` [R, T, H] and `embedding_table` [V, H]. With
  slots, the first gives `pooled_output` [B, H], and the others give
  `sequence_output` [B, K - 1, H].

  >>> bert = Bert(BertConfig.preset("tiny", vocab_size=99))
  >>> bert.build((None, None))
  >>> ids, numbers = ops.ones((1, 4), "int32"), ops.array([[1, 1, 2, 2]])
  >>> outputs = PackedBert(bert)(ids, numbers, ids, ops.array([[0, 1, 0, 1]]))
  >>> tuple(outputs["sequence_output"].shape)
  (1, 4, 128)
  """

  def __init__(self, bert: Bert, **kwargs):
    super().__init__(**kwargs)
    self.bert = bert

  def call(
    self,
    input_ids,
    input_mask,
    segment_ids,
    position_ids,
    output_positions=None,
    output_slots=None,
    training=None,
  ):
    # TensorFlow compares int32 on the host, even with a GPU, but not floats.
    query = ops.cast(input_mask, "float32")
    key = ops.where(query > 0, query, -1.0)  # so no query attends to padding
    attention_mask = query[:, :, None] == key[:, None, :]  # [R, T, T]
    hidden_states, embedding_table = self.bert.embeddings(
      input_ids, segment_ids, position_ids, training=training
    )
    last = self.bert.encoder(
      hidden_states, attention_mask, output_positions, training=training
    )[-1]
    outputs = {"sequence_output": last, "embedding_table": embedding_table}
    if output_positions is None:
      return outputs
    vectors = ops.reshape(last, (-1, self.bert.config.hidden_size))
    vectors = ops.take(vectors, output_slots, axis=0)  # [B, K, H]
    pooled = self.bert.pooler(vectors[:, 0])
    selected = {"sequence_output": vectors[:, 1:], "pooled_output": pooled}
    return outputs | selected

  def compute_output_spec(self, input_ids, *_, output_slots=None, **__):
    names = ["sequence_output", "embedding_table"]
    like, positions = input_ids, None
    if output_slots is not None:
      names.append("pooled_output")
      like, positions = output_slots, output_slots[:, 1:]
    spec = self.bert.compute_output_spec(like, positions=positions)
    return {name: spec[name] for name in names}


@keras.saving.register_keras_serializable("bert")
class ConcatEncoders(ConfigLayer):
  """A left-to-right and a right-to-left BERT, concatenated as in ELMo.

  The variable `bert/x` of an encoder's checkpoint is `bert/left_to_right/x` or
  `bert/right_to_left/x` here. A call takes Bert's arguments. Vectors are [...,
  2H], and there is no `embedding_table`. Source: section 2.1 of the paper.

  >>> config = replace(BertConfig.preset("tiny", 99), attention="shallow")
  >>> outputs = ConcatEncoders(config)(ops.ones((2, 5), "int32"))
  >>> tuple(outputs["sequence_output"].shape)
  (2, 5, 256)
  """

  def __init__(self, config: BertConfig | dict, name: str = "bert", **kwargs):
    super().__init__(config, name=name, **kwargs)
    self.encoders = [
      Bert(replace(self.config, attention=side), name=side) for side in SIDES
    ]

  def build(self, input_shape, *_):
    for encoder in self.encoders:
      encoder.build(input_shape)

  def call(
    self,
    input_ids,
    input_mask=None,
    segment_ids=None,
    positions=None,
    training=None,
  ):
    inputs = input_ids, input_mask, segment_ids, positions
    outputs = [e(*inputs, training=training) for e in self.encoders]
    pairs = zip(*(output["encoder_layers"] for output in outputs), strict=True)
    result = {"encoder_layers": [ops.concatenate(p, axis=-1) for p in pairs]}
    for name in ("embedding_output", "sequence_output", "pooled_output"):
      result[name] = ops.concatenate([o[name] for o in outputs], axis=-1)
    return result

  def compute_output_spec(self, input_ids, *_, positions=None, **__):
    spec = self.encoders[0].compute_output_spec(input_ids, positions=positions)
    del spec["embedding_table"]
    return keras.tree.map_structure(
      lambda x: keras.KerasTensor((*x.shape[:-1], 2 * x.shape[-1]), x.dtype),
      spec,
    )


@keras.saving.register_keras_serializable("bert")
class TextWindows(keras.layers.Layer):
  """Cuts rows of [CLS] text [SEP] into windows that overlap.

  A window has at most T = `size` tokens, with [CLS] and [SEP]. Windows begin
  `stride` tokens apart, 1 to T - 2. A call takes ids and mask, [B, L] int, and
  returns ids and mask of the windows, [B * W, min(T, L)] (3 if L is less), and
  a [B, W] float, which is 1 for a window and 0 where a row has fewer windows.

  >>> ids = ops.array([[101, 1, 2, 3, 4, 102]])
  >>> windows, _, _ = TextWindows(size=5, stride=2)(ids, ops.ones_like(ids))
  >>> ops.convert_to_numpy(windows).tolist()
  [[101, 1, 2, 3, 102], [101, 3, 4, 102, 0]]
  """

  def __init__(self, size: int, stride: int, name: str = "windows", **kwargs):
    super().__init__(name=name, **kwargs)
    self.size = size
    self.stride = stride

  def compute_output_spec(self, input_ids, input_mask):
    dtypes = ("int32", "int32", "float32")
    return tuple(keras.KerasTensor((None, None), dtype) for dtype in dtypes)

  def call(self, input_ids, input_mask):
    batch, row = ops.shape(input_ids)  # B, L
    width = ops.minimum(ops.maximum(row, 3), self.size)  # T
    missing = ops.maximum(row - self.size, 0)
    number = 1 + (missing + self.stride - 1) // self.stride  # W
    lengths = ops.sum(ops.cast(input_mask, "int32"), axis=1, keepdims=True)
    first = ops.arange(number, dtype="int32") * self.stride  # [W]
    # A window after the first needs a token that the window before it lacks.
    end_before = first - self.stride + self.size
    is_there = ops.logical_or(first == 0, end_before < lengths)  # [B, W]
    sizes = ops.where(is_there, ops.clip(lengths - first, 2, width), 2)
    # LiteRT cannot slice with a new axis, hence expand_dims.
    sizes, lengths = ops.expand_dims(sizes, 2), ops.expand_dims(lengths, 2)
    position = ops.arange(width, dtype="int32")
    index = ops.where(position > 0, ops.expand_dims(first, 1) + position, 0)
    index = ops.where(position == sizes - 1, lengths - 1, index)  # [SEP]
    index = ops.clip(index, 0, row - 1)  # [B, W, T]
    rows = ops.expand_dims(ops.arange(batch, dtype="int32") * row, (1, 2))
    mask = ops.reshape(ops.cast(position < sizes, "int32"), (-1, width))
    ids = ops.take(input_ids, ops.reshape(rows + index, (-1, width)))
    return ids * mask, mask, ops.cast(is_there, "float32")


@keras.saving.register_keras_serializable("bert")
class PoolWindows(keras.layers.Layer):
  """Mean or maximum over a row's windows: [B * W, ...], [B, W] -> [B, ...].

  >>> vectors, is_there = ops.array([[2.0], [4.0]]), ops.array([[1.0, 1.0]])
  >>> float(PoolWindows("mean")(vectors, is_there)[0, 0])
  3.0
  """

  def __init__(self, pooling: str, **kwargs):
    super().__init__(**kwargs)
    self.pooling = pooling

  def call(self, vectors, is_there):
    axes = vectors.shape[1:]
    vectors = ops.reshape(vectors, (-1, ops.shape(is_there)[1], *axes))
    weights = ops.cast(is_there, vectors.dtype)
    weights = ops.expand_dims(weights, tuple(range(2, 2 + len(axes))))
    if self.pooling == "max":
      return ops.max(ops.where(weights > 0, vectors, -1e4), axis=1)
    return ops.sum(vectors * weights, axis=1) / ops.sum(weights, axis=1)


class Windows(NamedTuple):
  """Windows of long texts: see TextWindows and PoolWindows."""

  size: int
  stride: int
  pooling: str

  def cut(self, inputs: dict) -> tuple:
    """Returns inputs of all windows, and 1 where a window exists, [B, W]."""
    cut = TextWindows(self.size, self.stride)
    ids, mask, is_there = cut(inputs["input_ids"], inputs["input_mask"])
    segments = ops.zeros_like(ids)
    inputs = {"input_ids": ids, "input_mask": mask, "segment_ids": segments}
    return inputs, is_there
