"""Layers of encoder and heads; I is the size of an input, O of an output."""

import contextlib
import threading

import keras
import numpy as np
from keras import ops

from modeling import fused_ops
from modeling.config import BertConfig

_dropout = threading.local()  # replicas are traced in threads of their own


def initializer(config: BertConfig):
  """New initializer for each variable: one repeats its values."""
  return keras.initializers.TruncatedNormal(stddev=config.initializer_range)


# Structured initial values ("initial_attention" of a configuration): the first
# half of the hidden units holds positions, the last unit the segment, all units
# the word. In initializer_range squared a word's variance is 1, a position's 2
# in its half, a segment's H / 5 in its unit: 2.2 on average over the units.
_POSITION_VARIANCE, _SEGMENT_VARIANCE, _MEAN_VARIANCE = 2.0, 0.2, 2.2


def sinusoids(config: BertConfig):
  """Initializer of position embeddings: sines, cosines, zeros, [T, H].

  Evenly spaced frequencies make the vectors of different positions orthogonal.
  """

  def make(shape, dtype=None):
    length, width = shape
    angles = np.arange(length)[:, None] * _frequencies(width)
    waves = np.concatenate([np.sin(angles), np.cos(angles)], axis=-1)
    values = np.pad(waves, [(0, 0), (0, width // 2)])
    scale = (2 * _POSITION_VARIANCE) ** 0.5 * config.initializer_range
    return ops.cast(values * scale, dtype)

  return make


def opposite_segments(config: BertConfig):
  """Initializer of segment embeddings: one unit has opposite signs, [S, H]."""

  def make(shape, dtype=None):
    values = np.zeros(shape)
    values[:2, -1] = [1, -1][: shape[0]]
    scale = (_SEGMENT_VARIANCE * shape[1]) ** 0.5 * config.initializer_range
    return ops.cast(values * scale, dtype)

  return make


def structure_attention(query, key, num_heads: int, attention: str) -> None:
  """Adds the initial attention of the first block's heads to [H, H] kernels.

  The first half of the heads attends to neighbors: the token before, the one
  after, two before, two after and so on; with attention "left_to_right" to one,
  two, three before, with "right_to_left" to those after. Their queries are a
  part of the position, their keys the same part of another position, which is a
  rotation. The last head attends to the same word in the other segment, since a
  next sentence repeats more words than a random one. The heads between remain
  random.
  """
  width = query.shape[0]
  half, head_size = width // 2, width // num_heads
  columns = np.arange(half).reshape(2, head_size // 2, num_heads // 2)
  columns = np.transpose(columns, (2, 0, 1)).reshape(num_heads // 2, head_size)
  queries, keys = np.zeros((2, num_heads, width, head_size))
  # A neighbor's score is 32 / 3, whatever the head size: most of a softmax.
  gain = (32 / 3 * _MEAN_VARIANCE / _POSITION_VARIANCE) ** 0.5
  for head, its_columns in enumerate(columns):
    angles = _offset(head, attention) * _frequencies(width)
    cos, sin = np.diag(np.cos(angles)), np.diag(np.sin(angles))
    queries[head] = gain * np.eye(width)[:, its_columns]
    rotation = np.block([[cos, sin], [-sin, cos]])
    keys[head, :half] = gain * rotation[:, its_columns]
  # The score of the same word is nearly 8, and the other segment's are greater
  # by more than this, so that a token is not its own match.
  match = 17**0.5 * np.eye(width)[:, -head_size:]
  queries[-1] = match
  keys[-1] = match * np.where(np.arange(width) == width - 1, -1, 1)[:, None]
  for kernel, added in (query, queries), (key, keys):
    added = np.concatenate(added, axis=1) * head_size**-0.25
    kernel.assign(kernel + ops.cast(added, kernel.dtype))


def _frequencies(width):
  return np.pi * (np.arange(width // 4) + 0.5) / (width // 4)


def _offset(head, attention):
  """Position that a head attends to at first, relative to the token's own."""
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
  """Affine map of the last axis and an activation: [..., I] -> [..., O]."""

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
  """Context in which every dropout derives its seed from `seed`, [2] int32.

  No layer has a random state, so a step that is repeated after a restart draws
  the same masks. The n-th dropout mixes n, from `count` (an int, or a scalar
  int32 tensor), into the second number. Yields a list of the seed and the
  number of the next dropout.
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
  """Seed of the next dropout, [2] uint32; by default of Keras' generator."""
  state = getattr(_dropout, "state", None)
  if state is None:
    return ops.cast(_random_seed(), "uint32")
  seed, count = state
  state[1] += 1
  # Distinct for every count below 2^30, and far from the next ones.
  stream = ops.stack([0, (count * 0x3C6EF372 + 1) & (2**31 - 1)])
  return ops.cast(ops.bitwise_xor(seed, stream), "uint32")


class Dropout(keras.layers.Layer):
  """Dropout whose result has the compute type, even if x is float32."""

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

  [B, T, any] float and `input_mask` [B, T] int, 0 for padding, which is
  skipped, to [B, T, 2 * units].
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
