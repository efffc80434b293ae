"""Shallow bidirectionality: two unidirectional networks, concatenated as in
ELMo (section 2.1 of the paper).

Legend: H hidden.
"""

from dataclasses import replace

import keras
from keras import ops

from modeling.bert import Bert
from modeling.config import SIDES, BertConfig
from modeling.core_layers import ConfigLayer


@keras.saving.register_keras_serializable("bert")
class ConcatEncoders(ConfigLayer):
  """A left-to-right BERT and a right-to-left one of the same size.

  A variable `bert/x` of their checkpoints is `bert/left_to_right/x` or
  `bert/right_to_left/x` here.

  Arguments:
    config: of each, a BertConfig or a dict of its values.
    use_one_hot_embeddings: look tokens up by a matrix product (TPU).

  Call arguments:
    See Bert.

  Returns:
    The dict that Bert returns, with concatenated vectors, [..., 2H], and
    without `embedding_table`.
  """

  def __init__(
    self,
    config: BertConfig | dict,
    use_one_hot_embeddings: bool = False,
    name: str = "bert",
    **kwargs,
  ):
    super().__init__(config, name=name, **kwargs)
    self.use_one_hot_embeddings = use_one_hot_embeddings
    self.encoders = [
      Bert(
        replace(self.config, attention=side), use_one_hot_embeddings, name=side
      )
      for side in SIDES
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
    outputs = [
      encoder(input_ids, input_mask, segment_ids, positions, training=training)
      for encoder in self.encoders
    ]
    layers = zip(*(output["encoder_layers"] for output in outputs), strict=True)
    return {
      "encoder_layers": [ops.concatenate(pair, axis=-1) for pair in layers]
    } | {
      name: ops.concatenate([output[name] for output in outputs], axis=-1)
      for name in ("embedding_output", "sequence_output", "pooled_output")
    }

  def freeze_pooler(self) -> None:
    """Makes the poolers untrainable."""
    for encoder in self.encoders:
      encoder.freeze_pooler()

  def get_config(self):
    return super().get_config() | {
      "use_one_hot_embeddings": self.use_one_hot_embeddings,
    }
