"""Bidirectional LSTM layers on top of an encoder.

Legend: B batch, T tokens.
"""

import keras
from keras import ops


@keras.saving.register_keras_serializable("bert")
class BiLstm(keras.layers.Layer):
  """A stack of bidirectional LSTM layers.

  Arguments:
    units: per direction.
    depth: number of layers.
    use_cudnn: see keras.layers.LSTM.

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
