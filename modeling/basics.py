"""The layers that all others are made of.

Legend: H any size.
"""

import keras
from keras import ops

from modeling.chains import activate, add_and_normalize, drop
from modeling.config import BertConfig
from modeling.gradients import own_gradient, sum_rows
from modeling.randomness import next_seed


def initializer(config: BertConfig):
  """A fresh one for each variable: used twice, it gives the same values."""
  return keras.initializers.TruncatedNormal(stddev=config.initializer_range)


class Configured(keras.layers.Layer):
  """A layer that is made by a configuration and saved with it.

  Arguments:
    config: sizes, a BertConfig or a dict of its values.
  """

  def __init__(self, config: BertConfig | dict, **kwargs):
    super().__init__(**kwargs)
    if isinstance(config, dict):
      config = BertConfig.from_dict(config)
    self.config = config

  def get_build_config(self):
    """None: what is loaded is built by being called, as it was before."""

  def get_config(self):
    return super().get_config() | {"config": self.config.to_dict()}


class Dense(keras.layers.Layer):
  """An affine map of the last axis and an activation: [..., I] -> [..., O].

  Arguments:
    units: O.
    config: initial spread.
    act: of chains.ACTIVATIONS.
  """

  def __init__(
    self,
    units: int,
    config: BertConfig,
    name: str = "dense",
    act: str = "linear",
  ):
    super().__init__(name=name)
    self.units = units
    self.config = config
    self.act = act

  def build(self, input_shape):
    shape = (input_shape[-1], self.units)
    spread = initializer(self.config)
    self.kernel = self.add_weight(
      name="kernel", shape=shape, initializer=spread
    )
    self.bias = self.add_weight(
      name="bias", shape=(self.units,), initializer="zeros"
    )

  def call(self, x, training=None):
    if self.act == "linear":
      return affine(x, self.kernel, self.bias)
    flat = ops.reshape(x, (-1, x.shape[-1])) @ self.kernel
    flat = activate(flat, self.bias, name=self.act, training=training)
    return ops.reshape(flat, (*ops.shape(x)[:-1], self.units))


def affine(x, matrix, bias, by_rows: bool = False):
  """An affine map of the last axis: [..., I] -> [..., O].

  Args:
    x: [..., I].
    matrix: [I, O], or [O, I] if `by_rows`.
    bias: [O].
    by_rows: whether there is a row of the matrix for each output.
  """

  @own_gradient
  def product(flat, matrix, bias):
    columns = ops.transpose(matrix) if by_rows else matrix

    def gradient(upstream):
      # Left to itself, TensorFlow sums the gradient of `bias` slowly and
      # transposes that of `matrix`, which may have as many rows as words.
      of_matrix = (
        ops.transpose(upstream) @ flat
        if by_rows
        else ops.transpose(flat) @ upstream
      )
      of_flat = upstream @ ops.transpose(columns)
      return of_flat, of_matrix, sum_rows(upstream)

    return flat @ columns + bias, gradient

  matrix, bias = ops.copy(matrix), ops.copy(bias)  # their values, if variables
  # One product of two matrices: of more axes, it would be many.
  flat = product(ops.reshape(x, (-1, x.shape[-1])), matrix, bias)
  return ops.reshape(flat, (*ops.shape(x)[:-1], bias.shape[0]))


def gather_positions(sequence, positions):
  """Takes the vectors at the given positions: [B, T, H], [B, P] -> [B, P, H].

  One look-up in the flattened batch.
  """
  batch, length, width = ops.shape(sequence)
  flat = ops.reshape(sequence, (batch * length, width))
  rows = ops.expand_dims(ops.arange(batch, dtype=positions.dtype), 1)
  return ops.take(flat, positions + rows * length, axis=0)


@own_gradient
def swap_heads(x):
  """Brings the heads before the tokens, or back: axes 1 and 2 change places.

  As integers of the same bits: of real numbers, TensorFlow would leave it to
  oneDNN, which takes several times as long where they are few.

  Args:
    x: [B, T, A, D] or [B, A, T, D] float.
  """

  def swap(x):
    bits = "int32" if x.dtype == "float32" else "int16"
    return ops.view(ops.swapaxes(ops.view(x, bits), 1, 2), x.dtype)

  return swap(x), swap


class Dropout(keras.layers.Layer):
  """Sets a share of the values to zero in training and scales up the rest.

  Arguments:
    rate: share of values that are dropped.
  """

  def __init__(self, rate: float, **kwargs):
    super().__init__(**kwargs)
    self.rate = rate
    self.built = True

  def seed(self, training: bool | None):
    """What chains drop values by, [2] uint32; None if they drop none."""
    return next_seed() if training and self.rate else None

  def call(self, x, training=None):
    return drop(x, self.seed(training), rate=self.rate, training=training)


class LayerNorm(keras.layers.Layer):
  """Dropout, residual connection, normalization of the last axis.

  Computed in float32, whatever the compute type is.

  Arguments:
    rate: of dropout, in training.

  Call arguments:
    x: [..., H].
    residual: [..., H], added after dropout; or None.

  Returns:
    [..., H].
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
    return add_and_normalize(
      x,
      residual,
      self.dropout.seed(training),
      ops.convert_to_tensor(self.gamma),
      ops.convert_to_tensor(self.beta),
      rate=self.dropout.rate,
      training=training,
    )
