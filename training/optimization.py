"""The original's optimizer: Adam with decoupled weight decay, no bias
correction, after clipping by the global norm.

Source: optimization.py of the original; section A.2 of the paper.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import tensorflow as tf

from training import checkpoint

# Which variables keep their size: found anywhere in the name.
NOT_DECAYED = ("LayerNorm", "layer_norm", "bias")
# Of one network, or of two side by side.
_BERT = "bert/(?:left_to_right/|right_to_left/)?"
_BLOCK = re.compile(_BERT + r"encoder/layer_(\d+)/")
_EMBEDDINGS = re.compile(_BERT + "embeddings/")


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
    rate_shares: of the learning rate, one for each variable; None for all 1.
  """

  def __init__(
    self,
    variables: Sequence[tuple[str, tf.Variable]],
    weight_decay: float = 0.01,
    beta_1: float = 0.9,
    beta_2: float = 0.999,
    epsilon: float = 1e-6,
    rate_shares: Sequence[float] | None = None,
  ):
    self.names = [name for name, _ in variables]
    self.variables = [variable for _, variable in variables]
    self.weight_decay = weight_decay
    self.beta_1, self.beta_2, self.epsilon = beta_1, beta_2, epsilon
    self.rate_shares = rate_shares or [1.0] * len(self.variables)
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

  def apply(
    self, gradients, learning_rate, step, factor=1.0, enabled=None
  ) -> None:
    """Updates every variable that has a gradient.

    Args:
      gradients: one per variable, already summed over replicas; None leaves a
        variable and its slots as they are.
      learning_rate: scalar float32.
      step: scalar int, updates done before this one.
      factor: scalar float32, for the gradients; see `clipping`.
      enabled: scalar bool, False leaves everything as it is; None is True.
    """
    replica = tf.distribute.get_replica_context()
    scalars = learning_rate, factor, tf.cast(step, tf.float32)
    replica.merge_call(self._apply, args=(gradients, scalars, enabled))

  def _apply(self, strategy, gradients, scalars, enabled):
    for name, variable, m, v, share, gradient in zip(
      self.names,
      self.variables,
      self.m,
      self.v,
      self.rate_shares,
      gradients,
      strict=True,
    ):
      if gradient is not None:
        decay = self.weight_decay if is_decayed(name) else 0.0
        strategy.extended.update(
          variable,
          self._update,
          args=(m, v, gradient, scalars, share, decay, enabled),
          group=False,
        )

  def _update(self, *args):
    *args, enabled = args
    if enabled is None:
      self._change(*args)
    else:
      tf.cond(enabled, lambda: self._change(*args), lambda: None)

  def _change(self, variable, m, v, gradient, scalars, share, decay):
    gradient = tf.convert_to_tensor(gradient)  # sums repeated rows
    old = [tf.convert_to_tensor(one) for one in (variable, m, v)]
    new = self._changed(*old, gradient, *scalars, share, decay)
    for one, value in zip((variable, m, v), new, strict=True):
      one.assign(value)

  @tf.function(autograph=False, jit_compile=True)
  def _changed(
    self, variable, m, v, gradient, rate, factor, done, share, decay
  ):
    # Compiled, so that each variable and slot is read once. And not
    # ResourceApplyAdam: it computes 1 - beta_2 in float32, which is off by
    # 1.3e-5, and after a few steps so are the original's numbers.
    gradient *= factor
    m = self.beta_1 * m + (1.0 - self.beta_1) * gradient
    v = self.beta_2 * v + (1.0 - self.beta_2) * tf.square(gradient)
    update = self._direction(m, v, done)
    if decay:
      update += decay * variable
      update = self._sized(update, variable)
    return variable - rate * share * update, m, v

  def _direction(self, m, v, done):
    del done
    return m / (tf.sqrt(v) + self.epsilon)

  def _sized(self, update, variable):
    del variable
    return update


class Lamb(AdamWeightDecay):
  """Adam whose updates are in proportion to the variable that they change.

  With bias correction, and for variables that decay: others (normalization,
  biases) are updated as by Adam. Source: You et al. 2020, "Large batch
  optimization for deep learning", algorithm 2.
  """

  def _direction(self, m, v, done):
    m = m / (1.0 - tf.pow(self.beta_1, done + 1.0))
    v = v / (1.0 - tf.pow(self.beta_2, done + 1.0))
    return m / (tf.sqrt(v) + self.epsilon)

  def _sized(self, update, variable):
    size, length = tf.norm(variable), tf.norm(update)
    known = (size > 0.0) & (length > 0.0)
    return update * tf.where(known, size / length, 1.0)


def layerwise(names: Sequence[str], decay: float) -> list[float]:
  """What share of the learning rate each variable gets, less further down.

  The head has all of it, the last block and the pooler `decay` times that, the
  block below `decay` squared and so on, and the embeddings the least (Howard
  and Ruder 2018, "discriminative fine-tuning").

  Args:
    names: of variables, as in a checkpoint.
    decay: from layer to layer, 1 for none.
  """
  blocks = [_BLOCK.match(name) for name in names]
  top = max((int(block[1]) for block in blocks if block), default=-1)
  shares = []
  for name, block in zip(names, blocks, strict=True):
    if block:
      below = 1 + top - int(block[1])
    elif _EMBEDDINGS.match(name):
      below = 2 + top
    else:
      below = int(name.startswith("bert/"))
    shares.append(decay**below)
  return shares


class Average:
  """Moving averages of variables, which often predict better than the last.

  The first averages are young: after t updates the decay is at most
  (1 + t) / (10 + t), as in TensorFlow 1.

  Arguments:
    variables: [(name, tf.Variable)].
    decay: of the averages.
  """

  def __init__(
    self, variables: Sequence[tuple[str, tf.Variable]], decay: float
  ):
    self.decay = decay
    self.variables = [variable for _, variable in variables]
    self.averages = [
      tf.Variable(variable, trainable=False) for variable in self.variables
    ]
    self.state = {
      checkpoint.average_name(name): average
      for (name, _), average in zip(variables, self.averages, strict=True)
    }

  def restart(self) -> None:
    """Makes the averages what the variables are now."""
    for variable, average in zip(self.variables, self.averages, strict=True):
      average.assign(variable)

  def update(self, step: tf.Tensor) -> None:
    """Notes what the variables are after `step` updates."""
    replica = tf.distribute.get_replica_context()
    replica.merge_call(self._update, args=(step,))

  def _update(self, strategy, step):
    step = tf.cast(strategy.experimental_local_results(step)[0], tf.float32)
    decay = tf.minimum(self.decay, (1.0 + step) / (10.0 + step))
    for variable, average in zip(self.variables, self.averages, strict=True):
      strategy.extended.update(
        average,
        lambda average, value: average.assign_sub(
          (1.0 - decay) * (average - value)
        ),
        args=(variable,),
        group=False,
      )

  @contextmanager
  def in_place(self) -> Iterator[None]:
    """Within it the variables have the averages' values."""
    kept = [tf.identity(variable) for variable in self.variables]
    for variable, average in zip(self.variables, self.averages, strict=True):
      variable.assign(average)
    try:
      yield
    finally:
      for variable, value in zip(self.variables, kept, strict=True):
        variable.assign(value)


def clipping(gradients, max_norm: float):
  """What to multiply gradients by, so that their global norm is in bounds.

  A sparse gradient (tf.IndexedSlices) goes into the norm as it comes, repeated
  rows unsummed, as in the original on one device.

  Args:
    gradients: tensors, tf.IndexedSlices or None.
    max_norm: largest norm that is let through.

  Returns:
    The factor, NaN where a gradient is not finite, and the norm without it,
    scalar float32.
  """
  norm = tf.linalg.global_norm(gradients)
  # Inf - inf is NaN, and so is what it is added to.
  return max_norm / tf.maximum(norm, max_norm) + (norm - norm), norm
