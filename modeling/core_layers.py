"""Layers that the encoder and the heads are made of.

Legend: B batch, T tokens, P positions, I input size, O output size, H any size.
"""

import keras
from keras import ops

from modeling import fused_ops
from modeling.config import BertConfig
from modeling.stateless_dropout import next_seed


def initializer(config: BertConfig):
  """New initializer; one used twice gives the same values twice."""
  return keras.initializers.TruncatedNormal(stddev=config.initializer_range)


class ConfigLayer(keras.layers.Layer):
  """Layer that is built from a BertConfig and saved with it.

  Arguments:
    config: a BertConfig or a dict of its values.
  """

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

  Arguments:
    units: O.
    config: initializer_range.
    activation: one of fused_ops.ACTIVATIONS.
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
    return fused_ops.dense(
      x,
      self.kernel,
      self.bias,
      activation=self.activation,
      training=training,
    )


def gather_positions(sequence, positions):
  """Vectors at some positions: [B, T, H], [B, P] -> [B, P, H]."""
  batch, length, width = ops.shape(sequence)
  flat = ops.reshape(sequence, (batch * length, width))
  offsets = ops.expand_dims(ops.arange(batch, dtype=positions.dtype), 1)
  return ops.take(flat, positions + offsets * length, axis=0)


class Dropout(keras.layers.Layer):
  """Sets a fraction of the values to zero in training, scales up the others.

  The result has the compute type, also where the input is float32.

  Arguments:
    rate: the fraction.
  """

  def __init__(self, rate: float, **kwargs):
    super().__init__(autocast=False, **kwargs)
    self.rate = rate
    self.built = True

  def seed(self, training: bool | None):
    """Seed of the next dropout, [2] uint32; None where nothing is dropped."""
    return next_seed() if training and self.rate else None

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

  Computed in float32 whatever the compute type is.

  Arguments:
    rate: of dropout.

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
    return fused_ops.dropout_add_layer_norm(
      x,
      residual,
      self.dropout.seed(training),
      self.gamma,
      self.beta,
      rate=self.dropout.rate,
      training=training,
    )
