"""Head and loss for ratings: B texts, T tokens, hidden size H."""

import keras
from keras import ops

from modeling.heads import LinearHead
from modeling.layers import ConfigLayer
from modeling.losses import Objective


@keras.saving.register_keras_serializable("bert")
class RatingHead(ConfigLayer):
  """Maps the mean token vector to a number: [B, T, H], [B, T] -> [B]."""

  def __init__(self, config, name="cls", **kwargs):
    super().__init__(config, name=name, **kwargs)
    self.rating = LinearHead(1, self.config, name="rating")

  def build(self, *_):
    self.rating.build()

  def call(self, sequence, input_mask):
    weights = ops.cast(ops.expand_dims(input_mask, -1), sequence.dtype)
    mean = ops.sum(sequence * weights, axis=1) / ops.sum(weights, axis=1)
    return ops.squeeze(self.rating(mean), -1)


def absolute_error():
  """Returns an objective: the absolute error of `rating` [B]."""

  def weights(batch):
    return {"example_loss": ops.ones_like(batch["label_ids"])}

  def losses(outputs, batch):
    return {"example_loss": ops.abs(outputs["rating"] - batch["label_ids"])}

  return Objective(("example_loss",), (), weights, losses)
