"""Optimizers, learning rates and moving averages.

Source: optimization.py of the original; section A.2 of the paper.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import tensorflow as tf

from training import checkpoint

# Matches names of variables without weight decay.
NOT_DECAYED = re.compile("LayerNorm|layer_norm|bias")


@dataclass(frozen=True)
class WarmupLinearDecay:
  """Linear warm-up from zero, then linear decay to zero.

  As in the original, the decay counts from step 0, not from the warm-up's end.
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


class Slot:
  """A slot of one variable: a part of `joint` [N], the slot of a group.

  A Slot is assigned and converted to a tensor like a tf.Variable of `shape`.
  """

  def __init__(self, joint: tf.Variable, start: int, shape: tf.TensorShape):
    self._copies = getattr(joint, "values", [joint])  # one on each device
    self._range = slice(start, start + shape.num_elements())
    self.shape, self.dtype = shape, joint.dtype

  def assign(self, value) -> None:
    for copy in self._copies:
      copy[self._range].assign(tf.reshape(value, [-1]))

  def __tf_tensor__(self, dtype=None, name=None):
    with tf.device(self._copies[0].device):  # copies no other slots to the host
      return tf.reshape(self._copies[0][self._range], self.shape)


class Optimizer:
  """Updates variables by their gradients, with decoupled weight decay.

  A subclass defines `direction` and the names of `slots`, the values kept for
  each variable. A slot is `<variable>/<slot>` in a checkpoint. Slots that are
  created in a strategy's scope are mirrored on all devices. `variables` are the
  trained variables by name, and NOT_DECAYED matches variables without
  `weight_decay`. `beta_2` is the decay of mean squares. `lr_multipliers` has a
  factor for each variable; None stands for 1.

  A group of variables is updated as one and has joint slots. With `joins_all`,
  all variables of equal decay and multiplier form a group, and XLA compiles the
  update, so that a GPU need not wait for the host. Otherwise only vectors
  without decay are grouped, which is fastest on a CPU.
  """

  slots: tuple[str, ...] = ()

  def __init__(
    self,
    variables: Mapping[str, tf.Variable],
    weight_decay: float = 0.01,
    beta_2: float = 0.999,
    lr_multipliers: Sequence[float] | None = None,
    joins_all: bool = False,
  ):
    names, self.variables = list(variables), list(variables.values())
    self.beta_2 = beta_2
    self.lr_multipliers = lr_multipliers or [1.0] * len(names)
    self.state: dict[str, tf.Variable | Slot] = {}
    members = defaultdict(list)
    for i, (name, variable) in enumerate(variables.items()):
      decay = 0.0 if NOT_DECAYED.search(name) else weight_decay
      is_joined = joins_all or (len(variable.shape) == 1 and not decay)
      key = self.lr_multipliers[i], decay, None if is_joined else name
      members[key].append(i)
    # Multiplier, decay, indices of variables, slots.
    self._groups: list[tuple] = []
    for (multiplier, decay, _), indices in members.items():
      shapes = [self.variables[i].shape for i in indices]
      sizes = [shape.num_elements() for shape in shapes]
      is_joint = len(indices) > 1
      zeros = tf.zeros([sum(sizes)] if is_joint else shapes[0])
      slots = [tf.Variable(zeros, trainable=False, name=x) for x in self.slots]
      start = 0
      for i, shape, size in zip(indices, shapes, sizes, strict=True):
        for name, slot in zip(self.slots, slots, strict=True):
          own = Slot(slot, start, shape) if is_joint else slot
          self.state[f"{names[i]}/{name}"] = own
        start += size
      self._groups.append((multiplier, decay, indices, slots))
    self._run_update = self._update
    if joins_all:
      compiled = tf.function(self._update, autograph=False, jit_compile=True)
      self._run_update = compiled

  def direction(self, gradient, slots, step):
    """Returns the direction of an update, and the new slots.

    `gradient` and `slots`, in the order of `self.slots`, have the shape of a
    variable, or are vectors for several variables. `step`, float32, counts the
    updates before this one.
    """
    raise NotImplementedError

  def rescale(self, update, variable):
    """Rescales a variable's update, which includes weight decay."""
    return update

  def apply(self, strategy, gradients, scalars, enabled=None) -> None:
    """Updates every variable that has a gradient; called by merge_call.

    A variable without a gradient stays the same, but its joint slots decay.
    `gradients` are summed over replicas. `scalars` are the learning rate, a
    factor for the gradients (see `clip_factor`), and, float32, the number of
    earlier updates. There is no update if `enabled`, a scalar bool, is False.
    """
    update = strategy.extended.update
    for multiplier, decay, indices, slots in self._groups:
      own = [gradients[i] for i in indices]
      if any(gradient is not None for gradient in own):
        variables = [self.variables[i] for i in indices]
        options = multiplier, decay, enabled
        args = own, variables, slots, scalars, options
        update(variables[0], self._run_update, args, group=False)

  def _update(self, first, gradients, variables, slots, scalars, options):
    """Updates a group's slots, and its variables that have a gradient."""
    _, decay, _ = options
    pairs = zip(gradients, variables, strict=True)
    gradient = _join([tf.zeros_like(v) if g is None else g for g, v in pairs])
    # Weight decay needs separate variables. Without decay, one vector will do.
    old = variables if decay else [_join(variables)]
    old = [tf.convert_to_tensor(tensor) for tensor in (*old, *slots)]
    new = self._changed(old, gradient, scalars, options)
    number = len(new) - len(slots)
    values = new[:number] if decay else _split(new[0], variables)
    rows = zip(variables, values, gradients, strict=True)
    for variable, value, gradient in rows:
      if gradient is not None:
        variable.assign(value)
    for slot, value in zip(slots, new[number:], strict=True):
      slot.assign(value)

  @tf.function(autograph=False, jit_compile=True)
  def _changed(self, old, gradient, scalars, options):
    """Returns new values for `old`: the variables first, then the slots."""
    # Compiled, so that each variable and slot is read once.
    number = len(old) - len(self.slots)
    rate, gradient_scale, step = scalars
    multiplier, decay, enabled = options
    gradient *= gradient_scale
    direction, slots = self.direction(gradient, old[number:], step)
    new, variables = [], old[:number]
    updates = _split(direction, variables)
    for variable, update in zip(variables, updates, strict=True):
      if decay:
        update = self.rescale(update + decay * variable, variable)
      new.append(variable - rate * multiplier * update)
    new += slots
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


def _join(tensors):
  """Joins tensors to a dense vector. A single tensor keeps its shape."""
  tensors = [tf.convert_to_tensor(tensor) for tensor in tensors]
  if len(tensors) == 1:
    return tensors[0]
  return tf.concat([tf.reshape(tensor, [-1]) for tensor in tensors], 0)


def _split(joint, tensors):
  """Splits a result of `_join` into parts with the shapes of `tensors`."""
  if len(tensors) == 1:
    return [joint]
  parts = tf.split(joint, [t.shape.num_elements() for t in tensors])
  return [tf.reshape(p, t.shape) for p, t in zip(parts, tensors, strict=True)]


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
    """Moves the averages toward the variables after update number `step`."""
    replica = tf.distribute.get_replica_context()
    replica.merge_call(self._update, args=(step,))

  def _update(self, strategy, step):
    step = tf.cast(strategy.experimental_local_results(step)[0], tf.float32)
    rate = 1.0 - tf.minimum(self.decay, (1.0 + step) / (10.0 + step))
    for variable, average in zip(self.variables, self.averages, strict=True):
      strategy.extended.update(
        average,
        lambda a, v: a.assign_sub(rate * (a - v)),
        (variable,),
        group=False,
      )

  @contextmanager
  def averaged_weights(self) -> Iterator[None]:
    values = [tf.identity(variable) for variable in self.variables]
    _assign(self.variables, self.averages)
    try:
      yield
    finally:
      _assign(self.variables, values)


def clip_factor(gradients, max_norm: float, unscale=1.0):
  """Returns a factor that limits the gradients' global norm, and the norm.

  Both are scalar float32. The gradients belong to a loss that was multiplied by
  1 / `unscale`: the norm is of the unscaled gradients, and the factor unscales
  them, too. Repeated rows of IndexedSlices count one by one, as in the original
  on one device. The factor is NaN if a gradient is not finite.
  """
  norm = tf.linalg.global_norm(gradients) * unscale
  # norm - norm is 0, or NaN if the norm is not finite.
  factor = max_norm / tf.maximum(norm, max_norm) if max_norm else 1.0
  return unscale * factor + (norm - norm), norm
