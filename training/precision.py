"""Types of activations: float32, bfloat16, or float16 with loss scaling.

Variables, optimizer, normalization, softmax of the loss and loss are float32
in all of them.
"""

import keras
import tensorflow as tf


def set_policy(dtype: str, is_trained: bool = True) -> None:
  """Makes models that are built from now on compute in `dtype`.

  Args:
    dtype: float32, bfloat16 or float16.
    is_trained: False keeps their variables in `dtype`, too, but for those of
      normalization. Results are the same; nothing is cast at each use, and
      half of the memory does.
  """
  is_mixed = is_trained and dtype != "float32"
  keras.config.set_dtype_policy(f"mixed_{dtype}" if is_mixed else dtype)


class LossScale:
  """Keeps small float16 gradients from vanishing.

  The loss is multiplied by a scale that doubles after `patience` good steps
  and halves when a gradient overflows; the update of that step is left out.

  Arguments:
    initial: scale to begin with.
    patience: good steps before it doubles.
  """

  def __init__(self, initial: float = 2.0**15, patience: int = 2000):
    self.patience = patience
    self.scale = _replicated(initial, tf.float32, "scale")
    self.good_steps = _replicated(0, tf.int64, "good_steps")

  @property
  def state(self) -> dict[str, tf.Variable]:
    """What a checkpoint keeps of it, by name."""
    return {
      "loss_scale/scale": self.scale,
      "loss_scale/good_steps": self.good_steps,
    }

  def update(self, finite: tf.Tensor) -> None:
    """Notes whether this step's gradients were all finite (scalar bool)."""
    good = tf.where(finite, self.good_steps + 1, 0)
    grow = good >= self.patience
    factor = tf.where(finite, tf.where(grow, 2.0, 1.0), 0.5)
    self.scale.assign(tf.maximum(self.scale * factor, 1.0))
    self.good_steps.assign(tf.where(grow, tf.zeros_like(good), good))


def _replicated(value, dtype, name):
  return tf.Variable(
    tf.constant(value, dtype),
    trainable=False,
    name=name,
    aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA,
  )
