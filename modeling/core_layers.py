"""Layers of encoder and heads; I is the size of an input, O of an output."""

import keras
from keras import ops

from modeling import fused_ops
from modeling.config import BertConfig
from modeling.initialization import initializer
from modeling.tracing import DropoutSeeds


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


class Dropout(keras.layers.Layer):
  """Dropout whose result has the compute type, even if x is float32."""

  def __init__(self, rate: float, **kwargs):
    super().__init__(autocast=False, **kwargs)
    self.rate = rate
    self.built = True

  def seed(self, training: bool | None):
    """Seed of the next dropout, [2] uint32; None where nothing is dropped."""
    return DropoutSeeds.current().next() if training and self.rate else None

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
