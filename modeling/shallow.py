"""Shallow bidirectionality: two networks that read one way each.

As ELMo does, their features are put side by side (section 2.1 of the paper);
neither ever sees what the other makes of the text.

Legend: B batch, T tokens, H hidden.
"""

from dataclasses import replace

import keras
from keras import ops

from modeling.basics import Configured
from modeling.bert import Bert
from modeling.config import BertConfig

SIDES = ("left_to_right", "right_to_left")


@keras.saving.register_keras_serializable("bert")
class Shallow(Configured):
  """A left-to-right BERT and a right-to-left one of the same size.

  What `bert/x` is in a checkpoint of either is `bert/left_to_right/x` or
  `bert/right_to_left/x` here.

  Arguments:
    config: sizes of each, a BertConfig or a dict of its values.
    use_one_hot_embeddings: look tokens up by a matrix product (TPU).

  Call arguments:
    As Bert has them.

  Returns:
    As Bert does, with vectors of both, [..., 2H]; no `embedding_table`.
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
    self.halves = [
      Bert(
        replace(self.config, attention=side), use_one_hot_embeddings, name=side
      )
      for side in SIDES
    ]

  def build(self, input_shape, *_):
    for half in self.halves:
      half.build(input_shape)

  def call(
    self,
    input_ids,
    input_mask=None,
    segment_ids=None,
    positions=None,
    training=None,
  ):
    a, b = (
      half(input_ids, input_mask, segment_ids, positions, training=training)
      for half in self.halves
    )
    layers = zip(a["encoder_layers"], b["encoder_layers"], strict=True)
    outputs = {
      name: ops.concatenate([a[name], b[name]], axis=-1)
      for name in ("embedding_output", "sequence_output", "pooled_output")
    }
    return outputs | {
      "encoder_layers": [ops.concatenate(pair, axis=-1) for pair in layers]
    }

  def leave_pooler(self) -> None:
    """See Bert."""
    for half in self.halves:
      half.leave_pooler()

  def get_config(self):
    return super().get_config() | {
      "use_one_hot_embeddings": self.use_one_hot_embeddings,
    }
