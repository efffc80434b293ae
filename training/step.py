"""One update of the model, and n of them inside one tf.function.

Gradients are summed over micro-batches and replicas first and clipped once, so
that the same batch gives the same update however it is divided.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import numpy as np
import tensorflow as tf

from training import checkpoint, optimization

# The loop over steps is AutoGraph's. It would rewrite all that the loop calls,
# which takes seconds: not what has no loop of its own.
_as_it_is = tf.autograph.experimental.do_not_convert


class TrainStep:
  """A training step of one model, objective and optimizer.

  To be made under the strategy's scope.

  Arguments:
    model: a Keras model from a dict of inputs to a dict of outputs.
    objective: terms and metrics (as modeling.losses.Objective).
    optimizer: updates the variables (as optimization.AdamWeightDecay).
    schedule: from the step to the learning rate.
    batch_size: examples of a step, over all replicas.
    seed: of the run; dropout masks are a function of it and the step.
    seeded: context manager in which dropout draws from a [2] int32 seed.
    max_grad_norm: global norm to clip at.
    accumulation: micro-batches that each replica's batch is cut into.
    loss_scale: a precision.LossScale, with float16.
    average: an optimization.Average of the variables.
    jit_compile: whether XLA compiles forward and backward pass.

  Attributes:
    step: scalar int64, updates done.
    examples: scalar int64, examples used: the place in the data.
    seed: scalar int64.
    first_bad: scalar int64, the first update of the last `run` whose loss or
      gradient was not finite; -1 if there was none.
    variables: what is trained, in the model's order.
  """

  def __init__(
    self,
    model,
    objective,
    optimizer: optimization.AdamWeightDecay,
    schedule: Callable,
    *,
    batch_size: int,
    seed: int = 0,
    seeded: Callable[..., AbstractContextManager] = lambda seed: nullcontext(),
    max_grad_norm: float = 1.0,
    accumulation: int = 1,
    loss_scale=None,
    average: optimization.Average | None = None,
    jit_compile: bool = False,
  ):
    self.model = model
    self.objective = objective
    self.optimizer = optimizer
    self.schedule = schedule
    self.batch_size = batch_size
    self.seeded = seeded
    self.max_grad_norm = max_grad_norm
    self.accumulation = accumulation
    self.loss_scale = loss_scale
    self.average = average
    self.variables = optimizer.variables
    self.strategy = tf.distribute.get_strategy()
    parts = self.strategy.num_replicas_in_sync * accumulation
    if batch_size % parts:
      raise ValueError(
        f"--train_batch_size={batch_size} cannot be divided evenly into "
        f"{self.strategy.num_replicas_in_sync} replicas x "
        f"--gradient_accumulation_steps={accumulation}"
      )
    self.step = _counter("global_step", 0)
    self.examples = _counter("examples", 0)
    self.seed = _counter("seed", seed)
    self.first_bad = _counter("first_bad", -1)
    self._gradients = self._differentiate
    if accumulation > 1:
      self._gradients = self._accumulate
    if jit_compile:
      self._gradients = tf.function(self._gradients, jit_compile=True)

  @property
  def state(self) -> dict[str, tf.Variable]:
    """All that a later run needs to go on, by names in a checkpoint."""
    state = checkpoint.variables(self.model)
    state |= self.optimizer.state | {"global_step": self.step}
    state |= {"run/examples": self.examples, "run/seed": self.seed}
    for part in (self.loss_scale, self.average):
      state |= part.state if part else {}
    return state

  @tf.function
  def run(self, iterator, steps: tf.Tensor) -> dict:
    """Does `steps` (scalar int) updates on batches from an iterator.

    Returns:
      {name: [2] float32}: sums of values and of weights of every term and
      metric, of the `loss` and of the `gradient_norm`. With a loss scale,
      also of the `skipped_steps`, which count in nothing else.
    """
    sums = {name: tf.zeros(2) for name in self._names()}
    first_bad = tf.constant(-1, tf.int64)
    for _ in tf.range(steps):
      replicas = self.strategy.run(self._step, args=(next(iterator),))
      totals = {name: self._total(replicas[name]) for name in sums}
      # A new dict every time: a loop in a graph cannot change one.
      sums = {name: sums[name] + totals[name] for name in sums}
      good = tf.math.is_finite(totals["loss"] + totals["gradient_norm"])[0]
      if self.loss_scale:  # what is skipped counts in neither
        good = totals["skipped_steps"][0] == 0.0
      if first_bad < 0 and not good:
        first_bad = tf.identity(self.step)
    self.first_bad.assign(first_bad)
    return sums

  @_as_it_is
  def _total(self, per_replica):
    value = self.strategy.reduce("SUM", per_replica, axis=None)
    return tf.ensure_shape(value, [2])

  @_as_it_is
  def _names(self):
    names = (*self.objective.names, "loss", "gradient_norm")
    return (*names, "skipped_steps") if self.loss_scale else names

  @_as_it_is
  def _step(self, batch):
    """What one replica does for an update."""
    replica = tf.distribute.get_replica_context()
    weights = self.objective.weights(batch)
    totals = {name: tf.reduce_sum(w) for name, w in weights.items()}
    if replica.num_replicas_in_sync > 1:
      totals = replica.all_reduce("SUM", totals)
    gradients, sums = self._gradients(
      batch, totals, replica.replica_id_in_sync_group
    )
    if replica.num_replicas_in_sync > 1:
      dense = [tf.convert_to_tensor(g) for g in gradients if g is not None]
      summed = iter(replica.all_reduce("SUM", dense))
      gradients = [g if g is None else next(summed) for g in gradients]
    norm, finite = self._update(gradients)
    share = 1.0 / replica.num_replicas_in_sync
    sums["gradient_norm"] = tf.stack([norm * share, share])
    sums["loss"] = tf.stack([sums["loss"], share])
    if self.loss_scale:
      sums = {
        name: tf.where(finite, value, tf.zeros(2))
        for name, value in sums.items()
      }
      skipped = tf.where(finite, 0.0, share)
      sums["skipped_steps"] = tf.stack([skipped, share])
    self.step.assign_add(1)
    if self.average:
      self.average.update(self.step)
    self.examples.assign_add(self.batch_size)
    return sums

  @_as_it_is
  def _update(self, gradients):
    """Clips and applies summed gradients.

    Returns:
      Their norm; and with a loss scale whether they were finite, else None.
    """
    finite = None
    if self.loss_scale:
      gradients = _times(gradients, 1.0 / self.loss_scale.scale)
      finite = tf.reduce_all(
        [tf.reduce_all(tf.math.is_finite(g)) for g in _values(gradients)]
      )
      self.loss_scale.update(finite)
    factor, norm = optimization.clipping(gradients, self.max_grad_norm)
    rate = self.schedule(self.step)
    self.optimizer.apply(gradients, rate, self.step, factor, finite)
    return norm, finite

  @tf.function
  def _accumulate(self, batch, totals, replica_id):
    """`_differentiate`, in micro-batches."""
    parts = {name: self._cut(value) for name, value in batch.items()}
    gradients = [tf.zeros(v.shape) for v in self.variables]
    sums = {name: tf.zeros(2) for name in self.objective.names}
    sums["loss"] = 0.0
    for i in tf.range(self.accumulation):
      part = {name: value[i] for name, value in parts.items()}
      more, new = self._differentiate(part, totals, replica_id, i)
      gradients = [
        g if m is None else g + tf.convert_to_tensor(m)
        for g, m in zip(gradients, more, strict=True)
      ]
      sums = {name: sums[name] + new[name] for name in sums}
    return gradients, sums

  def _cut(self, value):
    """Into micro-batches: [B, ...] -> [accumulation, B / accumulation, ...]."""
    size = value.shape[0] // self.accumulation
    return tf.reshape(
      value, tf.concat([[self.accumulation, size], tf.shape(value)[1:]], 0)
    )

  @_as_it_is
  def _differentiate(self, batch, totals, replica_id, part=0):
    """Gradients of the whole batch's loss by a part of it."""
    objective = self.objective
    seeded = self.seeded(self._seed(replica_id, part))
    # Nothing is recorded below the first layer that is trained.
    with tf.GradientTape(watch_accessed_variables=False) as tape, seeded:
      tape.watch(self.variables)
      outputs = self.model(batch_inputs(self.model, batch), training=True)
      losses = objective.losses(outputs, batch)
      weights = objective.weights(batch)
      loss = tf.add_n(
        [
          tf.reduce_sum(losses[name] * weights[name])
          / (totals[name] + objective.epsilon.get(name, 0.0))
          for name in losses
        ]
      )
      scaled = loss * self.loss_scale.scale if self.loss_scale else loss
    gradients = tape.gradient(scaled, self.variables)
    pairs = reports(objective, outputs, batch, losses, weights)
    sums = {name: weighted_sum(*pair) for name, pair in pairs.items()}
    return gradients, sums | {"loss": loss}

  def _seed(self, replica_id, part):
    """[2] int32: a different one for each step, replica and micro-batch."""
    place = tf.cast(replica_id, tf.int32) * 65536 + tf.cast(part, tf.int32)
    seed = tf.bitwise.bitwise_xor(place, tf.cast(self.seed, tf.int32))
    return tf.stack([seed, tf.cast(self.step % 2**31, tf.int32)])


def _counter(name, value):
  return tf.Variable(
    value,
    dtype=tf.int64,
    trainable=False,
    name=name,
    aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA,
  )


def batch_inputs(model, batch: dict) -> dict:
  """Those fields of a batch that the model takes."""
  return {name: batch[name] for name in model.input}


def reports(
  objective, outputs: dict, batch: dict, losses: dict, weights: dict
) -> dict:
  """{name: (values, weights)} of every term, given, and of every metric."""
  terms = {name: (losses[name], weights[name]) for name in losses}
  return terms | objective.metrics(outputs, batch)


def weighted_sum(values, weights) -> tf.Tensor:
  """[2] float32: the sum of weighted values and the sum of weights."""
  return tf.stack([tf.reduce_sum(values * weights), tf.reduce_sum(weights)])


def means(sums: dict) -> dict[str, float]:
  """{name: mean} of `weighted_sum`s; 0 where no weight was."""
  values = {name: np.asarray(value) for name, value in sums.items()}
  return {
    name: float(total / weight) if weight else 0.0
    for name, (total, weight) in values.items()
  }


def _times(gradients, factor):
  return [
    tf.IndexedSlices(g.values * factor, g.indices, g.dense_shape)
    if isinstance(g, tf.IndexedSlices)
    else (g if g is None else g * factor)
    for g in gradients
  ]


def _values(gradients):
  return [
    g.values if isinstance(g, tf.IndexedSlices) else g
    for g in gradients
    if g is not None
  ]
