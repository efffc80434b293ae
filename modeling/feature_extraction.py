"""Outputs of chosen encoder layers, per token or pooled per text.

Legend: B batch, T tokens, L layers, H hidden.
"""

from collections.abc import Sequence

import keras
from keras import ops

from modeling import models
from modeling.config import BertConfig


def layer_outputs(
  config: BertConfig,
  layers: Sequence[int],
  pooling: str = "none",
  use_one_hot_embeddings: bool = False,
) -> keras.Model:
  """Makes an encoder that returns chosen layers.

  Args:
    config: sizes.
    layers: indices of blocks; -1 is the last one.
    pooling: "none"; "mean" over all tokens but padding ([CLS] and [SEP]
      included); "cls", the vector at [CLS].
    use_one_hot_embeddings: look tokens up by a matrix product (TPU).

  Returns:
    A model from ENCODER_INPUTS [B, T] to `values`, float32 [B, T, L, H], or
    [B, L, H] with pooling.

  Raises:
    ValueError: there is no such layer.
  """
  _check(layers, config.num_hidden_layers)
  encoder = models.encoder(config, use_one_hot_embeddings)
  outputs = encoder.output["encoder_layers"]
  values = ops.stack([outputs[i] for i in layers], axis=2)  # [B, T, L, H]
  values = ops.cast(values, "float32")
  if pooling == "mean":
    values = mean(values, encoder.input["input_mask"])
  elif pooling == "cls":
    values = values[:, 0]
  return keras.Model(encoder.input, {"values": values})


def mean(values, input_mask):
  """Mean over all tokens but padding: [B, T, L, H], [B, T] -> [B, L, H]."""
  weights = ops.cast(input_mask, values.dtype)
  total = ops.einsum("btlh,bt->blh", values, weights)
  return total / ops.maximum(ops.sum(weights, axis=1), 1.0)[:, None, None]


def _check(layers, number):
  for layer in layers:
    if not -number <= layer < number:
      raise ValueError(
        f"there is no layer {layer}: the model has {number}, "
        f"0 to {number - 1} from below or -1 to {-number} from above"
      )
