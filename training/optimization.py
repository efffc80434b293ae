"""Optimizers, learning rates, frozen layers and moving averages.

Source: optimization.py of the original; section A.2 of the paper.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass

import tensorflow as tf
from absl import logging

from training import checkpoint

# Matches names of variables without weight decay.
NOT_DECAYED = re.compile("LayerNorm|layer_norm|bias")
# Matches variables of one encoder, or of the two of attention "shallow".
_LAYER = re.compile(
  r"bert/(?:left_to_right/|right_to_left/)?(\w+)/(?:layer_(\d+)/)?"
)


@dataclass(frozen=True)
class WarmupLinearDecay:
  """Linear warm-up from zero, then linear decay to zero.

  As in the original, a warm-up begins at 0, and the decay counts from step 0.
  """

  peak: float
  num_train_steps: int
  num_warmup_steps: int = 0

  def __call__(self, step: tf.Tensor) -> tf.Tensor:
    """Rate of the update after `step` updates; scalar float32."""
    total = max(self.num_train_steps, 1)
    done = tf.cast(step, tf.float32)
    decayed = self.peak * (1.0 - tf.minimum(done, total) / total)
    if not self.num_warmup_steps:
      return decayed
    warmup = self.peak * (done / self.num_warmup_steps)
    return tf.where(done < self.num_warmup_steps, warmup, decayed)


class AdamWeightDecay:
  """Adam with decoupled weight decay and no bias correction.

  m and v are `<name>/adam_m` and `<name>/adam_v` in a checkpoint. Created in a
  strategy's scope, they are mirrored on all devices. `lr_multipliers` are one
  per variable, None for all 1.
  """

  beta_1 = 0.9
  epsilon = 1e-6  # added to the root of v

  def __init__(
    self,
    variables: Mapping[str, tf.Variable],
    weight_decay: float = 0.01,
    beta_2: float = 0.999,
    lr_multipliers: Sequence[float] | None = None,
  ):
    self.names = list(variables)
    self.variables = list(variables.values())
    self.weight_decay = weight_decay
    self.beta_2 = beta_2
    self.lr_multipliers = lr_multipliers or [1.0] * len(self.variables)
    self.m = [_slot(v, "adam_m") for v in self.variables]
    self.v = [_slot(v, "adam_v") for v in self.variables]

  @property
  def state(self) -> dict[str, tf.Variable]:
    slots = {}
    for name, m, v in zip(self.names, self.m, self.v, strict=True):
      slots[f"{name}/adam_m"] = m
      slots[f"{name}/adam_v"] = v
    return slots

  def apply(
    self, gradients, learning_rate, step, gradient_scale=1.0, enabled=None
  ) -> None:
    """Updates every variable that has a gradient; the others stay as they are.

    `gradients` are summed over replicas, `step` counts the updates before this
    one, `gradient_scale` is a factor of the gradients (see `clip_factor`). The
    update is skipped if `enabled`, a scalar bool, is False.
    """
    replica = tf.distribute.get_replica_context()
    scalars = learning_rate, gradient_scale, tf.cast(step, tf.float32)
    replica.merge_call(self._apply, args=(gradients, scalars, enabled))

  def _apply(self, strategy, gradients, scalars, enabled):
    groups = defaultdict(list)
    rows = zip(self.variables, self.m, self.v, gradients, strict=True)
    named = zip(self.names, self.lr_multipliers, rows, strict=True)
    for name, multiplier, row in named:
      variable, _, _, gradient = row
      if gradient is not None:
        decay = 0.0 if NOT_DECAYED.search(name) else self.weight_decay
        # Vectors without decay are updated as one: each update of its own
        # would be compiled and started by itself.
        is_vector = len(variable.shape) == 1 and not decay
        groups[multiplier, decay, None if is_vector else name].append(row)
    for (multiplier, decay, _), group in groups.items():
      args = *zip(*group, strict=True), scalars, multiplier, decay, enabled
      strategy.extended.update(group[0][0], self._update, args, group=False)

  def _update(
    self, _, variables, m, v, gradients, scalars, multiplier, decay, enabled
  ):
    def change():
      slots = variables, m, v
      old = [_concat(targets) for targets in slots]
      new = self._changed(old, _concat(gradients), scalars, multiplier, decay)
      for targets, values in zip(slots, new, strict=True):
        if len(targets) > 1:
          values = tf.split(values, [target.shape[0] for target in targets])
        else:
          values = [values]
        _assign(targets, values)

    if enabled is None:
      change()
    else:
      tf.cond(enabled, change, lambda: None)

  @tf.function(autograph=False, jit_compile=True)
  def _changed(self, old, gradient, scalars, multiplier, decay):
    # Compiled, so that each variable and slot is read once. ResourceApplyAdam
    # computes 1 - beta_2 in float32, which is off by 1.3e-5; after a few steps
    # the numbers would differ from the original's.
    variable, m, v = old
    rate, gradient_scale, step = scalars
    gradient *= gradient_scale
    m = self.beta_1 * m + (1.0 - self.beta_1) * gradient
    v = self.beta_2 * v + (1.0 - self.beta_2) * tf.square(gradient)
    update = self._direction(m, v, step)
    if decay:
      update += decay * variable
      update = self._rescale(update, variable)
    return variable - rate * multiplier * update, m, v

  def _direction(self, m, v, step):
    return m / (tf.sqrt(v) + self.epsilon)

  def _rescale(self, update, variable):
    return update


def _assign(targets, values):
  for target, value in zip(targets, values, strict=True):
    target.assign(value)


def _concat(tensors):
  """The tensors as one; a gradient of rows of embeddings becomes dense."""
  tensors = [tf.convert_to_tensor(tensor) for tensor in tensors]
  return tf.concat(tensors, 0) if len(tensors) > 1 else tensors[0]


def _slot(variable, name):
  return tf.Variable(tf.zeros_like(variable), trainable=False, name=name)


class Lamb(AdamWeightDecay):
  """LAMB: Adam with updates in proportion to the norm of their variable.

  With bias correction. Variables without weight decay are updated as by Adam.
  Source: You et al. 2020, arXiv 1904.00962, algorithm 2.
  """

  def _direction(self, m, v, step):
    m = m / (1.0 - tf.pow(self.beta_1, step + 1.0))
    v = v / (1.0 - tf.pow(self.beta_2, step + 1.0))
    return m / (tf.sqrt(v) + self.epsilon)

  def _rescale(self, update, variable):
    variable_norm, update_norm = tf.norm(variable), tf.norm(update)
    is_defined = (variable_norm > 0.0) & (update_norm > 0.0)
    return update * tf.where(is_defined, variable_norm / update_norm, 1.0)


def layerwise_lr_multipliers(names: Iterable[str], decay: float) -> list[float]:
  """Learning rate multipliers of named variables, lower for lower layers.

  1 for the head, `decay` for the last block and the pooler, `decay` squared for
  the block below, and so on. Source: Howard and Ruder 2018, arXiv 1801.06146.
  """
  layers = [_layer_of(name) for name in names]
  top = max((n for _, n in layers if n is not None), default=-1)
  depths = {"": 0, "embeddings": 2 + top}
  return [
    decay ** (depths.get(part, 1) if number is None else 1 + top - number)
    for part, number in layers
  ]


def freeze(model, frozen: Set[tuple[str, int | None]]) -> None:
  """Makes variables of some layers of a model non-trainable.

  ("encoder", 3) is a block, ("pooler", None) a part of the network. Frozen
  variables do not count in the global norm; dropout stays active.
  """
  number = 0
  for variable in model.variables:
    part, block = _layer_of(variable.path)
    if frozen & {(part, block), (part, None)}:
      variable.trainable = False
      number += 1
  if frozen:
    logging.info("frozen: %d of %d variables", number, len(model.variables))


def _layer_of(name: str) -> tuple[str, int | None]:
  """("encoder", 3) of a variable of a block, else its part, or "", and None."""
  match = _LAYER.match(name)
  part, number = match.groups() if match else ("", None)
  return part, int(number) if part == "encoder" and number else None


class ExponentialMovingAverage:
  """Moving averages of variables, for evaluation and prediction.

  After t updates the decay is at most (1 + t) / (10 + t), as in TensorFlow 1.
  """

  def __init__(self, variables: Mapping[str, tf.Variable], decay: float):
    self.decay = decay
    self.variables = list(variables.values())
    self.averages = [tf.Variable(v, trainable=False) for v in self.variables]
    names = map(checkpoint.average_name, variables)
    self.state = dict(zip(names, self.averages, strict=True))

  def restart(self) -> None:
    """Sets the averages to the variables' values."""
    _assign(self.averages, self.variables)

  def update(self, step: tf.Tensor) -> None:
    """Adds the variables' values after `step` updates."""
    replica = tf.distribute.get_replica_context()
    replica.merge_call(self._update, args=(step,))

  def _update(self, strategy, step):
    step = tf.cast(strategy.experimental_local_results(step)[0], tf.float32)
    decay = tf.minimum(self.decay, (1.0 + step) / (10.0 + step))

    def approach(average, value):
      return average.assign_sub((1.0 - decay) * (average - value))

    for variable, average in zip(self.variables, self.averages, strict=True):
      strategy.extended.update(average, approach, (variable,), group=False)

  @contextmanager
  def averaged_weights(self) -> Iterator[None]:
    values = [tf.identity(variable) for variable in self.variables]
    _assign(self.variables, self.averages)
    try:
      yield
    finally:
      _assign(self.variables, values)


def clip_factor(gradients, max_norm: float):
  """Factor that limits the global norm of gradients, and the norm.

  Gradients are tensors, None or tf.IndexedSlices, whose repeated rows are not
  summed for the norm, as in the original on one device. Both are scalar
  float32, the factor NaN if a gradient is not finite.
  """
  norm = tf.linalg.global_norm(gradients)
  # norm - norm is 0, or NaN if the norm is not finite.
  factor = max_norm / tf.maximum(norm, max_norm) if max_norm else 1.0
  return factor + (norm - norm), norm
