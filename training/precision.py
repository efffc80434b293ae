"""Types of activations: float32, bfloat16, or float16 with loss scaling.

Variables, optimizer, normalization and loss are float32 with all of them.
"""

import keras
import tensorflow as tf


def set_policy(dtype: str, is_trained: bool = True) -> None:
  """Sets Keras' dtype policy for models that are built afterwards.

  Without `is_trained` variables have that type, too, except those of
  normalization: the same results without casts, in half of the memory.
  """
  is_mixed = is_trained and dtype != "float32"
  keras.config.set_dtype_policy(f"mixed_{dtype}" if is_mixed else dtype)


class LossScale:
  """Dynamic loss scale, which keeps small float16 gradients from vanishing.

  It doubles after `patience` finite steps and halves when a gradient
  overflows; the update of that step is skipped.
  """

  def __init__(self, initial: float = 2.0**15, patience: int = 2000):
    self.patience = patience
    self.scale = scalar_variable(initial, tf.float32, "scale")
    self.good_steps = scalar_variable(0, tf.int64, "good_steps")

  @property
  def state(self) -> dict[str, tf.Variable]:
    """Its variables by their names in a checkpoint."""
    return {
      "loss_scale/scale": self.scale,
      "loss_scale/good_steps": self.good_steps,
    }

  def update(self, finite: tf.Tensor) -> None:
    """Updates the scale; `finite` (scalar bool) is about all gradients."""
    good = tf.where(finite, self.good_steps + 1, 0)
    grow = good >= self.patience
    factor = tf.where(finite, tf.where(grow, 2.0, 1.0), 0.5)
    self.scale.assign(tf.maximum(self.scale * factor, 1.0))
    self.good_steps.assign(tf.where(grow, tf.zeros_like(good), good))


def scalar_variable(value, dtype: tf.DType, name: str) -> tf.Variable:
  """A scalar that is not trained and that all replicas update alike."""
  return tf.Variable(
    tf.constant(value, dtype),
    trainable=False,
    name=name,
    aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA,
  )
