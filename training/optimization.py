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
# Matches an encoder's variables, also in the two scopes of "shallow".
_LAYER = re.compile(
  r"bert/(?:left_to_right/|right_to_left/)?(\w+)/(?:layer_(\d+)/)?"
)


@dataclass(frozen=True)
class WarmupLinearDecay:
  """Linear warm-up from zero, then linear decay to zero.

  A warm-up begins at 0, and the decay counts from step 0, as in the original.
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


class Optimizer:
  """Updates variables by their gradients, with decoupled weight decay.

  A subclass defines `direction` and the names of `slots`, the tensors kept for
  each variable. A slot is `<variable>/<slot>` in a checkpoint. Slots that are
  created in a strategy's scope are mirrored on all devices. `variables` are the
  trained variables by name, and NOT_DECAYED matches variables without
  `weight_decay`. `beta_2` is the decay of mean squares. `lr_multipliers` has a
  factor for each variable; None stands for 1.
  """

  slots: tuple[str, ...] = ()

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
    self.state = {
      f"{name}/{slot}": tf.Variable(
        tf.zeros_like(variable), trainable=False, name=slot
      )
      for name, variable in variables.items()
      for slot in self.slots
    }

  def direction(self, gradient, slots, step):
    """Returns the direction of a variable's update, and the new slots.

    `slots` are tensors in the order of `self.slots`. `step`, float32, counts
    the updates before this one.
    """
    raise NotImplementedError

  def rescale(self, update, variable):
    """Rescales a variable's update, which includes weight decay."""
    return update

  def apply(
    self, gradients, learning_rate, step, gradient_scale=1.0, enabled=None
  ) -> None:
    """Updates every variable that has a gradient.

    `gradients` are summed over replicas, `step` counts the updates before this
    one, and `gradient_scale` multiplies the gradients (see `clip_factor`). If
    `enabled`, a scalar bool, is False, there is no update.
    """
    replica = tf.distribute.get_replica_context()
    scalars = learning_rate, gradient_scale, tf.cast(step, tf.float32)
    replica.merge_call(self._apply, args=(gradients, scalars, enabled))

  def _apply(self, strategy, gradients, scalars, enabled):
    groups = defaultdict(list)
    rows = zip(
      self.names, self.variables, self.lr_multipliers, gradients, strict=True
    )
    for name, variable, multiplier, gradient in rows:
      if gradient is not None:
        decay = 0.0 if NOT_DECAYED.search(name) else self.weight_decay
        # Vectors without decay get one joint update. Separate updates would be
        # compiled and started separately.
        is_vector = len(variable.shape) == 1 and not decay
        slots = [self.state[f"{name}/{slot}"] for slot in self.slots]
        key = multiplier, decay, None if is_vector else name
        groups[key].append((gradient, variable, *slots))
    for (multiplier, decay, _), group in groups.items():
      gradients, *targets = zip(*group, strict=True)
      args = gradients, targets, scalars, multiplier, decay, enabled
      strategy.extended.update(group[0][1], self._update, args, group=False)

  def _update(self, _, gradients, targets, scalars, multiplier, decay, enabled):
    """Updates some variables as one; `targets` has variables, then slots."""
    old = [_concat(tensors) for tensors in targets]
    gradient = _concat(gradients)
    new = self._changed(old, gradient, scalars, multiplier, decay, enabled)
    for tensors, values in zip(targets, new, strict=True):
      sizes = [tensor.shape[0] for tensor in tensors]
      _assign(tensors, tf.split(values, sizes) if sizes[1:] else [values])

  @tf.function(autograph=False, jit_compile=True)
  def _changed(self, old, gradient, scalars, multiplier, decay, enabled):
    # Compiled, so that each variable and slot is read once.
    variable, *slots = old
    rate, gradient_scale, step = scalars
    update, slots = self.direction(gradient * gradient_scale, slots, step)
    if decay:
      update += decay * variable
      update = self.rescale(update, variable)
    new = variable - rate * multiplier * update, *slots
    if enabled is None:
      return new
    # tf.cond would make the host wait for the gradients of a GPU.
    return [tf.where(enabled, *pair) for pair in zip(new, old, strict=True)]


class AdamWeightDecay(Optimizer):
  """Adam without bias correction, as in the original."""

  slots = ("adam_m", "adam_v")
  beta_1 = 0.9
  epsilon = 1e-6  # added to the root of v
  corrects_bias = False

  def direction(self, gradient, slots, step):
    # ResourceApplyAdam computes 1 - beta_2 in float32, which is off by 1.3e-5;
    # after a few steps the numbers would differ from the original's.
    m, v = slots
    m = self.beta_1 * m + (1.0 - self.beta_1) * gradient
    v = self.beta_2 * v + (1.0 - self.beta_2) * tf.square(gradient)
    slots = m, v
    if self.corrects_bias:
      m = m / (1.0 - tf.pow(self.beta_1, step + 1.0))
      v = v / (1.0 - tf.pow(self.beta_2, step + 1.0))
    return m / (tf.sqrt(v) + self.epsilon), slots


def _assign(targets, values):
  for target, value in zip(targets, values, strict=True):
    target.assign(value)


def _concat(tensors):
  """Concatenates tensors; sparse gradients of embeddings become dense."""
  tensors = [tf.convert_to_tensor(tensor) for tensor in tensors]
  return tf.concat(tensors, 0) if len(tensors) > 1 else tensors[0]


class Lamb(AdamWeightDecay):
  """LAMB: Adam with updates in proportion to a variable's norm.

  LAMB corrects the bias. Variables without weight decay get Adam's update.
  Source: You et al. 2020, arXiv 1904.00962, algorithm 2.
  """

  corrects_bias = True

  def rescale(self, update, variable):
    variable_norm, update_norm = tf.norm(variable), tf.norm(update)
    is_defined = (variable_norm > 0.0) & (update_norm > 0.0)
    return update * tf.where(is_defined, variable_norm / update_norm, 1.0)


OPTIMIZERS = {"adamw": AdamWeightDecay, "lamb": Lamb}


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
  """Makes the variables of some layers non-trainable.

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
  """Returns ("encoder", 3) for block 3; otherwise (part or "", None)."""
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
    names = [name + checkpoint.AVERAGE for name in variables]
    self.state = dict(zip(names, self.averages, strict=True))

  def restart(self) -> None:
    """Sets the averages to the variables' values."""
    _assign(self.averages, self.variables)

  def update(self, step: tf.Tensor) -> None:
    """Moves the averages toward the variables after `step` updates."""
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
  """Returns the factor that limits the gradients' global norm, and the norm.

  Both are scalar float32. The norm does not sum repeated rows of IndexedSlices,
  as in the original on one device. The factor is NaN if a gradient is not
  finite.
  """
  norm = tf.linalg.global_norm(gradients)
  # norm - norm is 0, or NaN if the norm is not finite.
  factor = max_norm / tf.maximum(norm, max_norm) if max_norm else 1.0
  return factor + (norm - norm), norm
