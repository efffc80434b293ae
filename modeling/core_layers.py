"""Layers that the encoder and the heads are made of.

Legend: B batch, T tokens, P positions, I input size, O output size, H any size.
"""

import contextlib
import threading

import keras
import numpy as np
from keras import ops

from modeling import fused_ops
from modeling.config import BertConfig

_dropout = threading.local()  # replicas are traced in threads of their own


def initializer(config: BertConfig):
  """New initializer; one used twice gives the same values twice."""
  return keras.initializers.TruncatedNormal(stddev=config.initializer_range)


def _frequencies(width):
  return np.pi * (np.arange(width // 2) + 0.5) / (width // 2)


def sinusoids(config: BertConfig):
  """Initializer of position embeddings: sines, then cosines, [T, H].

  Evenly spaced frequencies make the vectors of different positions orthogonal.
  Their standard deviation is initializer_range, as that of random ones.
  """

  def make(shape, dtype=None):
    length, width = shape
    angles = np.arange(length)[:, None] * _frequencies(width)
    waves = np.concatenate([np.sin(angles), np.cos(angles)], axis=-1)
    return ops.cast(waves * 2**0.5 * config.initializer_range, dtype)

  return make


def look_at_neighbors(query, key, num_heads: int, attention: str) -> None:
  """Adds to [H, H] kernels what makes heads look at neighboring positions.

  The heads look at the token before, the one after, two before, two after and
  so on; left to right, at one, two, three before, and the mirror image. At
  `sinusoids` a head's queries are a part of them, its keys the same part of the
  sinusoids of another position, which is a rotation.
  """
  width = query.shape[0]
  head_size = width // num_heads
  columns = np.arange(width).reshape(2, head_size // 2, num_heads)
  columns = np.transpose(columns, (2, 0, 1)).reshape(num_heads, head_size)
  queries, keys = [], []
  for head in range(num_heads):
    offset = _offset(head, attention)
    angles = offset * _frequencies(width)
    cos, sin = np.diag(np.cos(angles)), np.diag(np.sin(angles))
    queries.append(np.eye(width)[:, columns[head]])
    keys.append(np.block([[cos, sin], [-sin, cos]])[:, columns[head]])
  # A third of the variance of normalized embeddings is the positions'. So the
  # score of the neighbor is 32 / 3, whatever the head size: most of a softmax.
  gain = 32**0.5 * head_size**-0.25
  for kernel, added in (query, queries), (key, keys):
    added = gain * np.concatenate(added, axis=1)
    kernel.assign(kernel + ops.cast(added, kernel.dtype))


def _offset(head, attention):
  """Position that a head begins with, relative to the token's own."""
  if attention == "bidirectional":
    return (head // 2 + 1) * (1 if head % 2 else -1)
  return (head + 1) * (1 if attention == "right_to_left" else -1)


class ConfigLayer(keras.layers.Layer):
  """Layer that is built from a BertConfig, or its dict, and saved with it."""

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
  """Affine map of the last axis and an activation: [..., I] -> [..., O].

  O is `units`, `activation` a key of fused_ops.ACTIVATIONS.
  """

  def __init__(
    self,
    units: int,
    config: BertConfig,
    name: str = "dense",
    activation: str = "linear",
  ):
    super().__init__(name=name)
    self.units = units
    self.config = config
    self.activation = activation

  def build(self, input_shape):
    self.kernel = self.add_weight(
      name="kernel",
      shape=(input_shape[-1], self.units),
      initializer=initializer(self.config),
    )
    self.bias = self.add_weight(
      name="bias", shape=(self.units,), initializer="zeros"
    )

  def call(self, x, training=None):
    options = {"activation": self.activation, "training": training}
    return fused_ops.dense(x, self.kernel, self.bias, **options)


def gather_positions(sequence, positions):
  """Vectors at some positions: [B, T, H], [B, P] -> [B, P, H]."""
  batch, length, width = ops.shape(sequence)
  flat = ops.reshape(sequence, (batch * length, width))
  offsets = ops.expand_dims(ops.arange(batch, dtype=positions.dtype), 1)
  return ops.take(flat, positions + offsets * length, axis=0)


@contextlib.contextmanager
def dropout_seed_scope(seed, count: int = 0):
  """Context in which every dropout derives its seed from `seed`.

  A training step that is repeated after a restart draws the same masks so: no
  layer has a random state.

  Args:
    seed: [2] int32, different for every step and replica. The n-th dropout
      mixes n into the second number.
    count: number of the first dropout.

  Yields:
    A list of the seed and the number of the next dropout.
  """
  before = getattr(_dropout, "state", None)
  _dropout.state = state = [seed, count]
  try:
    yield state
  finally:
    _dropout.state = before


def dropout_state() -> list:
  """The list of the present `dropout_seed_scope`, or one of a random seed."""
  state = getattr(_dropout, "state", None)
  return state or [_random_seed(), 0]


def _random_seed():
  return keras.random.randint((2,), 0, 2**31 - 1)


def _next_seed():
  """Seed of the next dropout, [2] uint32.

  Outside of `dropout_seed_scope` it comes from Keras' global generator.
  """
  state = getattr(_dropout, "state", None)
  if state is None:
    return ops.cast(_random_seed(), "uint32")
  seed, count = state
  state[1] += 1
  # Distinct for every count below 2^30, and far from the next ones.
  stream = [0, (count * 0x3C6EF372 + 1) % 2**31]
  return ops.cast(ops.bitwise_xor(seed, ops.array(stream, "int32")), "uint32")


class Dropout(keras.layers.Layer):
  """Sets a fraction of the values to zero in training, scales up the others.

  The result has the compute type, also where the input is float32.
  """

  def __init__(self, rate: float, **kwargs):
    super().__init__(autocast=False, **kwargs)
    self.rate = rate
    self.built = True

  def seed(self, training: bool | None):
    """Seed of the next dropout, [2] uint32; None where nothing is dropped."""
    return _next_seed() if training and self.rate else None

  def call(self, x, training=None):
    return fused_ops.dropout(
      x,
      self.seed(training),
      rate=self.rate,
      training=training,
      dtype=self.compute_dtype,
    )


class DropoutAddLayerNorm(keras.layers.Layer):
  """Dropout, residual connection and normalization of the last axis.

  Computed in float32 whatever the compute type is. `residual`, of the shape of
  x, is added after dropout unless it is None.
  """

  def __init__(self, rate: float = 0.0):
    super().__init__(name="LayerNorm")
    self.dropout = Dropout(rate)

  def build(self, input_shape, *_):
    for name, value in (("gamma", "ones"), ("beta", "zeros")):
      weight = self.add_weight(
        name=name,
        shape=input_shape[-1:],
        initializer=value,
        dtype="float32",
        autocast=False,
      )
      setattr(self, name, weight)

  def call(self, x, residual=None, training=None):
    return fused_ops.dropout_add_layer_norm(
      x,
      residual,
      self.dropout.seed(training),
      self.gamma,
      self.beta,
      rate=self.dropout.rate,
      training=training,
    )


@keras.saving.register_keras_serializable("bert")
class BiLstm(keras.layers.Layer):
  """A stack of bidirectional LSTM layers, `units` wide per direction.

  Call arguments:
    hidden_states: [B, T, any] float.
    input_mask: [B, T] int, 1 for tokens and 0 for padding, which is skipped.

  Returns:
    [B, T, 2 * units].
  """

  def __init__(
    self,
    units: int = 768,
    depth: int = 2,
    use_cudnn: bool | str = "auto",
    name: str = "bilstm",
    **kwargs,
  ):
    super().__init__(name=name, **kwargs)
    self.units, self.depth, self.use_cudnn = units, depth, use_cudnn
    self.stack = [
      keras.layers.Bidirectional(
        keras.layers.LSTM(
          units, return_sequences=True, use_cudnn=use_cudnn, name="lstm"
        ),
        name=f"layer_{i}",
      )
      for i in range(depth)
    ]
    # What Keras says of an LSTM that may use cuDNN.
    self.supports_jit = all(
      layer.forward_layer.supports_jit for layer in self.stack
    )

  def build(self, input_shape, *_):
    for layer in self.stack:
      layer.build(input_shape)
      input_shape = (*input_shape[:-1], 2 * self.units)

  def call(self, hidden_states, input_mask, training=None):
    mask = ops.cast(input_mask, "bool")
    for layer in self.stack:
      hidden_states = layer(hidden_states, mask=mask, training=training)
    # A copy drops Keras' mask; later layers would warn about it.
    return ops.copy(hidden_states)

  def get_config(self):
    return super().get_config() | {
      "units": self.units,
      "depth": self.depth,
      "use_cudnn": self.use_cudnn,
    }


@keras.saving.register_keras_serializable("bert")
class TextWindows(keras.layers.Layer):
  """Cuts rows of [CLS] text [SEP] into windows that overlap.

  Every token of the text is in a window, and each window has [CLS] and [SEP].

  Arguments:
    size: T, largest number of tokens of a window.
    stride: tokens between the beginnings of windows, 1 to T - 2.

  Call arguments:
    input_ids, input_mask: [B, L] int, padded with zeros; L of any size.

  Returns:
    Ids and mask of the windows, [B * W, T or L if that is less] int, and
    [B, W] float, 0 for windows that shorter rows do not have.
  """

  def __init__(self, size: int, stride: int, name: str = "windows", **kwargs):
    super().__init__(name=name, **kwargs)
    self.size = size
    self.stride = stride

  def compute_output_spec(self, input_ids, input_mask):
    dtypes = ("int32", "int32", "float32")
    return tuple(keras.KerasTensor((None, None), dtype) for dtype in dtypes)

  def call(self, input_ids, input_mask):
    longest = ops.maximum(ops.shape(input_ids)[1] - 2, 1)
    width = ops.minimum(longest, self.size - 2)
    missing = ops.maximum(longest - (self.size - 2), 0)
    number = 1 + (missing + self.stride - 1) // self.stride  # W
    lengths = ops.sum(ops.cast(input_mask, "int32"), axis=1)  # [B]
    first = ops.arange(number, dtype="int32") * self.stride  # [W]
    index = first[:, None] + ops.arange(width, dtype="int32")  # [W, T - 2]
    # Each but the first has tokens that the one before it does not have.
    end_before = first - self.stride + self.size - 2
    is_there = ops.logical_or(first == 0, end_before < lengths[:, None] - 2)
    is_text = index < ops.reshape(lengths - 2, (-1, 1, 1))  # [B, W, T - 2]
    is_text = ops.logical_and(is_text, is_there[:, :, None])
    last = ops.maximum(lengths - 1, 0)[:, None]
    sep = ops.take_along_axis(input_ids, last, axis=1)[:, :, None]
    text = ops.take(
      input_ids, ops.minimum(index + 1, ops.shape(input_ids)[1] - 1), axis=1
    )
    text = ops.where(is_text, text, 0)
    cls = ops.zeros_like(text[:, :, :1]) + input_ids[:, None, :1]
    ids = ops.concatenate([cls, text, ops.zeros_like(cls)], axis=-1)
    position = ops.arange(width + 2, dtype="int32")
    end = ops.sum(ops.cast(is_text, "int32"), axis=-1, keepdims=True) + 1
    ids = ops.where(position == end, sep, ids)
    mask = ops.cast(position <= end, "int32")
    ids, mask = (ops.reshape(x, (-1, width + 2)) for x in (ids, mask))
    return ids, mask, ops.cast(is_there, "float32")

  def get_config(self):
    return super().get_config() | {"size": self.size, "stride": self.stride}


@keras.saving.register_keras_serializable("bert")
class PoolWindows(keras.layers.Layer):
  """Mean or maximum over a row's windows: [B * W, H], [B, W] -> [B, H]."""

  def __init__(self, pooling: str, **kwargs):
    super().__init__(**kwargs)
    self.pooling = pooling

  def compute_output_spec(self, vectors, is_there):
    return keras.KerasTensor((None, vectors.shape[-1]), vectors.dtype)

  def call(self, vectors, is_there):
    shape = (-1, ops.shape(is_there)[1], vectors.shape[-1])
    vectors = ops.reshape(vectors, shape)  # [B, W, H]
    weights = ops.cast(is_there, vectors.dtype)[:, :, None]
    if self.pooling == "max":
      return ops.max(ops.where(weights > 0, vectors, -1e4), axis=1)
    return ops.sum(vectors * weights, axis=1) / ops.sum(weights, axis=1)

  def get_config(self):
    return super().get_config() | {"pooling": self.pooling}
