"""What the layers of an encoder put out, by token or as one vector a text.

Legend: B batch, T tokens, L layers asked for, H hidden.
"""

from collections.abc import Sequence

import keras
from keras import ops

from modeling import models
from modeling.config import BertConfig

POOLINGS = ("none", "mean", "cls")


def layer_outputs(
  config: BertConfig,
  layers: Sequence[int],
  pooling: str = "none",
  use_one_hot_embeddings: bool = False,
) -> keras.Model:
  """An encoder that shows chosen layers.

  Args:
    config: sizes.
    layers: 0 is the first block's output, -1 the last one's.
    pooling: "none"; "mean" over all tokens but padding, [CLS] and [SEP] being
      tokens; "cls", what stands at [CLS].
    use_one_hot_embeddings: look tokens up by a matrix product (TPU).

  Returns:
    A model from `input_ids`, `input_mask`, `segment_ids` [B, T] to `values`,
    float32 [B, T, L, H], or [B, L, H] where it pools.

  Raises:
    ValueError: there is no such layer.
  """
  _check(layers, config.num_hidden_layers)
  encoder = models.encoder(config, use_one_hot_embeddings)
  outputs = encoder.output["encoder_layers"]
  chosen = ops.stack([outputs[i] for i in layers], axis=2)  # [B, T, L, H]
  chosen = ops.cast(chosen, "float32")
  if pooling == "mean":
    chosen = mean(chosen, encoder.input["input_mask"])
  elif pooling == "cls":
    chosen = chosen[:, 0]
  return keras.Model(encoder.input, {"values": chosen})


def mean(values, mask):
  """Means of the unmasked tokens: [B, T, L, H], [B, T] -> [B, L, H]."""
  weights = ops.cast(mask, values.dtype)
  total = ops.einsum("btlh,bt->blh", values, weights)
  return total / ops.maximum(ops.sum(weights, axis=1), 1.0)[:, None, None]


def _check(layers, number):
  for layer in layers:
    if not -number <= layer < number:
      raise ValueError(
        f"there is no layer {layer}: the model has {number}, "
        f"0 to {number - 1} from below or -1 to {-number} from above"
      )
