"""The original's optimizer: Adam with decoupled weight decay, no bias
correction, after clipping by the global norm.

Source: optimization.py of the original; section A.2 of the paper.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import tensorflow as tf

# Which variables keep their size: found anywhere in the name.
NOT_DECAYED = ("LayerNorm", "layer_norm", "bias")


@dataclass(frozen=True)
class LinearSchedule:
  """Warms up from zero in a straight line, then decays to zero in one.

  The first update of a run with warm-up has a rate of 0 and the decay counts
  from step 0, both as in the original.

  Attributes:
    peak: the learning rate that the flags name.
    num_train_steps: where it reaches zero; it stays there.
    num_warmup_steps: length of the warm-up.
  """

  peak: float
  num_train_steps: int
  num_warmup_steps: int = 0

  def __call__(self, step: tf.Tensor) -> tf.Tensor:
    """The rate of the update that follows `step` updates; scalar float32."""
    total = tf.constant(max(self.num_train_steps, 1), tf.float32)
    warmup = tf.constant(self.num_warmup_steps, tf.float32)
    peak = tf.constant(self.peak, tf.float32)
    done = tf.cast(step, tf.float32)
    decayed = peak * (1.0 - tf.minimum(done, total) / total)
    if not self.num_warmup_steps:
      return decayed
    return tf.where(done < warmup, peak * (done / warmup), decayed)


def is_decayed(name: str) -> bool:
  """Whether weight decay applies to the variable of that name."""
  return not any(re.search(part, name) for part in NOT_DECAYED)


class AdamWeightDecay:
  """Adam with decoupled weight decay and no bias correction.

  m and v are kept in the checkpoint as `<name>/adam_m` and `<name>/adam_v`.
  Made under a strategy's scope, it keeps a copy of them on every device.

  Arguments:
    variables: [(name, tf.Variable)], what is trained.
    weight_decay: share of the learning rate that shrinks a variable.
    beta_1, beta_2: decay of the two moving averages.
    epsilon: added to the root of v, outside of it.
  """

  def __init__(
    self,
    variables: Sequence[tuple[str, tf.Variable]],
    weight_decay: float = 0.01,
    beta_1: float = 0.9,
    beta_2: float = 0.999,
    epsilon: float = 1e-6,
  ):
    self.names = [name for name, _ in variables]
    self.variables = [variable for _, variable in variables]
    self.weight_decay = weight_decay
    self.beta_1, self.beta_2, self.epsilon = beta_1, beta_2, epsilon
    self.m = [self._slot(v, "adam_m") for v in self.variables]
    self.v = [self._slot(v, "adam_v") for v in self.variables]

  @staticmethod
  def _slot(variable, name):
    return tf.Variable(
      tf.zeros(variable.shape, variable.dtype), trainable=False, name=name
    )

  @property
  def state(self) -> dict[str, tf.Variable]:
    """All slots under their names in a checkpoint."""
    slots = {}
    for name, m, v in zip(self.names, self.m, self.v, strict=True):
      slots[f"{name}/adam_m"] = m
      slots[f"{name}/adam_v"] = v
    return slots

  def apply(self, gradients, learning_rate, enabled=None) -> None:
    """Updates every variable that has a gradient.

    Args:
      gradients: one per variable, already summed over replicas and clipped;
        None leaves a variable and its slots as they are.
      learning_rate: scalar float32.
      enabled: scalar bool, False leaves everything as it is; None is True.
    """
    replica = tf.distribute.get_replica_context()
    replica.merge_call(self._apply, args=(gradients, learning_rate, enabled))

  def _apply(self, strategy, gradients, learning_rate, enabled):
    for name, variable, m, v, gradient in zip(
      self.names, self.variables, self.m, self.v, gradients, strict=True
    ):
      if gradient is not None:
        decay = self.weight_decay if is_decayed(name) else 0.0
        strategy.extended.update(
          variable,
          self._update,
          args=(m, v, gradient, learning_rate, decay, enabled),
          group=False,
        )

  def _update(self, variable, m, v, gradient, rate, decay, enabled):
    if enabled is None:
      self._adam(variable, m, v, gradient, rate, decay)
    else:
      tf.cond(
        enabled,
        lambda: self._adam(variable, m, v, gradient, rate, decay),
        lambda: None,
      )

  def _adam(self, variable, m, v, gradient, learning_rate, decay):
    # Not ResourceApplyAdam: it computes 1 - beta_2 in float32, which is off
    # by 1.3e-5, and after a few steps so are the original's numbers.
    gradient = tf.convert_to_tensor(gradient)  # sums repeated rows
    m.assign(self.beta_1 * m + (1.0 - self.beta_1) * gradient)
    v.assign(self.beta_2 * v + (1.0 - self.beta_2) * tf.square(gradient))
    update = m / (tf.sqrt(v) + self.epsilon)
    if decay:
      update += decay * variable
    variable.assign_sub(learning_rate * update)


def clip(gradients, max_norm: float):
  """Scales gradients down together where their global norm exceeds max_norm.

  A sparse gradient (tf.IndexedSlices) goes into the norm as it comes, repeated
  rows unsummed, as in the original on one device.

  Args:
    gradients: tensors, tf.IndexedSlices or None.
    max_norm: largest norm that is let through.

  Returns:
    The scaled gradients and the norm they had, scalar float32.
  """
  return tf.clip_by_global_norm(gradients, max_norm)
