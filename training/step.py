"""Updates of the model, several inside one tf.function.

Gradients are summed over micro-batches and replicas and then clipped, so that
the update does not depend on how the batch is divided. Activations may be
bfloat16, or float16 with loss scaling. All other values are float32.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import KW_ONLY, InitVar, dataclass
from functools import partial
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from storage import UserError, setting
from training import checkpoint, optimization


def set_dtype_policy(dtype: str, is_trained: bool = True) -> None:
  """Sets Keras' dtype policy for models that are built afterwards.

  If `is_trained` is False, variables (except in normalization) have `dtype`,
  too: the results are the same, without casts and in half of the memory.
  """
  is_mixed = is_trained and dtype != "float32"
  keras.config.set_dtype_policy(f"mixed_{dtype}" if is_mixed else dtype)


def _scalar_variable(value, dtype: tf.DType, name: str) -> tf.Variable:
  """A scalar that is not trained and that all replicas update alike."""
  kind = tf.VariableAggregation.ONLY_FIRST_REPLICA
  options = {"trainable": False, "name": name, "aggregation": kind}
  return tf.Variable(tf.constant(value, dtype), **options)


class LossScale:
  """Dynamic loss scale, which keeps small float16 gradients from vanishing.

  The scale doubles after `patience` finite steps. If a gradient overflows, the
  scale halves, and the step has no update.
  """

  def __init__(self, initial: float = 2.0**15, patience: int = 2000):
    self.patience = patience
    self.scale = _scalar_variable(initial, tf.float32, "scale")
    self.good_steps = _scalar_variable(0, tf.int64, "good_steps")
    self.state = {"loss_scale/scale": self.scale}
    self.state["loss_scale/good_steps"] = self.good_steps

  def update(self, finite: tf.Tensor) -> None:
    """Updates the scale. `finite` (scalar bool): all gradients are finite."""
    good = tf.where(finite, self.good_steps + 1, 0)
    grow = good >= self.patience
    factor = tf.where(finite, tf.where(grow, 2.0, 1.0), 0.5)
    self.scale.assign(tf.maximum(self.scale * factor, 1.0))
    self.good_steps.assign(tf.where(grow, tf.zeros_like(good), good))


@dataclass(eq=False)
class TrainStep:
  """A training step. Create it in the strategy's scope.

  `model` maps a dict to a dict, and `objective` is a modeling.losses.Objective.
  `batch_size` is the number of examples on all replicas together. Each replica
  divides its part into `accumulation_steps` micro-batches. `dropout_seeds`
  makes a context for dropouts from a [2] int32, which depends on `seed` and the
  step. `max_grad_norm` limits the gradients' global norm; 0 is no limit. A
  `loss_scale` goes with float16. `jit_compile` compiles the step with XLA, but
  with a strategy only the parts before and after the exchange of gradients.

  The variables `step` (updates done), `examples` (position in the data), `seed`
  and `first_nonfinite_step` (in the last `train`, or -1) are scalar int64.
  """

  model: keras.Model
  objective: Any
  optimizer: optimization.Optimizer
  learning_rate: optimization.WarmupLinearDecay
  _: KW_ONLY
  batch_size: int
  seed: int | tf.Variable = 0  # a number becomes a variable
  dropout_seeds: Callable[..., AbstractContextManager] = nullcontext
  max_grad_norm: float = 1.0
  accumulation_steps: int = 1
  loss_scale: LossScale | None = None
  average: optimization.ExponentialMovingAverage | None = None
  jit_compile: InitVar[bool] = False

  def __post_init__(self, jit_compile):
    self.variables = self.optimizer.variables
    self.strategy = tf.distribute.get_strategy()
    replicas = self.strategy.num_replicas_in_sync
    number = self.accumulation_steps
    if self.batch_size % (replicas * number):
      raise UserError(
        f"{setting('train_batch_size', self.batch_size)} cannot be divided "
        f"evenly into {replicas} replicas x "
        f"{setting('gradient_accumulation_steps', number)}"
      )
    self.step = _scalar_variable(0, tf.int64, "global_step")
    self.examples = _scalar_variable(0, tf.int64, "examples")
    self.seed = _scalar_variable(self.seed, tf.int64, "seed")
    self.first_nonfinite_step = _scalar_variable(-1, tf.int64, "nonfinite_step")
    self.names = [*self.objective.names, "loss", "gradient_norm"]
    self.names += ["skipped_steps"] if self.loss_scale else []
    self._gradients = self._accumulate if number > 1 else self._differentiate
    self._clip_factor = optimization.clip_factor
    compiled = partial(tf.function, autograph=False, jit_compile=True)
    self._run_step = self._step
    if jit_compile and not tf.distribute.has_strategy():
      self._run_step = compiled(self._step)
    elif jit_compile:  # XLA cannot exchange gradients
      self._gradients = compiled(self._gradients)
      self._clip_factor = compiled(self._clip_factor)

  def averaged_weights(self) -> AbstractContextManager:
    """Context in which variables hold their moving averages, if these exist."""
    return self.average.averaged_weights() if self.average else nullcontext()

  @property
  def state(self) -> dict[str, tf.Variable]:
    """All variables that a run resumes from, by name in a checkpoint."""
    state = checkpoint.variables(self.model)
    state |= self.optimizer.state | {"global_step": self.step}
    state |= {"run/examples": self.examples, "run/seed": self.seed}
    for extra in (self.loss_scale, self.average):
      state |= extra.state if extra else {}
    return state

  @tf.function
  def train(self, iterator, steps: tf.Tensor) -> dict:
    """Runs `steps` (scalar int) updates on batches from an iterator.

    Returns {name: [2] float32}, the sums of values and weights, for all losses
    and metrics, `loss` and `gradient_norm`. A loss scale adds `skipped_steps`,
    and the other sums leave skipped steps out.
    """
    self.first_nonfinite_step.assign(-1)
    # Each replica sums on its device, so the host need not wait for each step.
    sums = self.strategy.run(tf.zeros, args=([len(self.names), 2],))
    for _ in tf.range(steps):
      sums = self.strategy.run(self._run_step, args=(next(iterator), sums))
    totals = self.strategy.reduce("SUM", sums, axis=None)
    return {name: totals[i] for i, name in enumerate(self.names)}

  # AutoGraph would convert all called functions, which takes seconds.
  @tf.autograph.experimental.do_not_convert
  def _step(self, batch, totals):
    """Runs one update on a replica; adds its sums to `totals`, see `train`."""
    replica = tf.distribute.get_replica_context()
    weights = self.objective.weights(batch)
    weight_sums = {name: tf.reduce_sum(w) for name, w in weights.items()}
    if replica.num_replicas_in_sync > 1:
      weight_sums = replica.all_reduce("SUM", weight_sums)
    number = replica.replica_id_in_sync_group
    gradients, sums = self._gradients(batch, weight_sums, number)
    weight = 1.0 / replica.num_replicas_in_sync
    if replica.num_replicas_in_sync > 1:
      dense = [tf.convert_to_tensor(g) for g in gradients if g is not None]
      loss, *dense = replica.all_reduce("SUM", [sums["loss"], *dense])
      sums["loss"] = loss * weight
      summed = iter(dense)
      gradients = [g if g is None else next(summed) for g in gradients]
    unscale = 1.0 / self.loss_scale.scale if self.loss_scale else 1.0
    factor, norm = self._clip_factor(gradients, self.max_grad_norm, unscale)
    checked = norm if self.loss_scale else sums["loss"][0] + norm
    finite = tf.math.is_finite(checked)
    enabled = finite if self.loss_scale else None
    done = tf.cast(self.step, tf.float32)
    scalars = self.learning_rate(self.step), factor, done
    replica.merge_call(self.optimizer.apply, (gradients, scalars, enabled))
    sums["gradient_norm"] = tf.stack([norm * weight, weight])
    if self.loss_scale:
      self.loss_scale.update(finite)
      sums = {k: tf.where(finite, v, tf.zeros(2)) for k, v in sums.items()}
      skipped = tf.where(finite, 0.0, weight)
      sums["skipped_steps"] = tf.stack([skipped, weight])
    step = self.step.assign_add(1)
    is_first = (self.first_nonfinite_step < 0) & ~finite
    first = tf.where(is_first, step, self.first_nonfinite_step)
    self.first_nonfinite_step.assign(first)
    if self.average:
      self.average.update(self.step)
    self.examples.assign_add(self.batch_size)
    return totals + tf.stack([sums[name] for name in self.names])

  @tf.function
  def _accumulate(self, batch, weight_sums, replica_id):
    """Runs `_differentiate` on micro-batches and sums the results."""
    number = self.accumulation_steps
    split = {  # [B, ...] -> [number, B / number, ...]
      name: tf.stack(tf.split(value, number)) for name, value in batch.items()
    }
    gradients = [tf.zeros(v.shape) for v in self.variables]
    sums = {name: tf.zeros(2) for name in [*self.objective.names, "loss"]}
    for i in tf.range(number):
      microbatch = {name: value[i] for name, value in split.items()}
      args = microbatch, weight_sums, replica_id, i
      new_gradients, new_sums = self._differentiate(*args)
      gradients = [
        g if new is None else g + tf.convert_to_tensor(new)
        for g, new in zip(gradients, new_gradients, strict=True)
      ]
      sums = {name: sums[name] + new_sums[name] for name in sums}
    return gradients, sums

  @tf.autograph.experimental.do_not_convert
  def _differentiate(self, batch, weight_sums, replica_id, microbatch=0):
    """Gradients and sums of a micro-batch, with losses over `weight_sums`."""
    objective = self.objective
    # Steps, replicas and micro-batches differ in their seed. A seed's parts are
    # int64, which a GPU can join; TensorFlow would join int32 on the host.
    number = tf.cast(replica_id, tf.int64) * 65536
    number += tf.cast(microbatch, tf.int64)
    seed = tf.bitwise.bitwise_xor(number, self.seed)
    seed = tf.cast(tf.stack([seed, self.step % 2**31]), tf.int32)
    # watch_accessed_variables=False: no record below the first trainable layer.
    with (
      tf.GradientTape(watch_accessed_variables=False) as tape,
      self.dropout_seeds(seed),
    ):
      tape.watch(self.variables)
      inputs = {name: batch[name] for name in self.model.input}
      outputs = self.model(inputs, training=True)
      sums = weighted_sums(objective, outputs, batch)
      terms = [
        sums[name][0] / (weight_sums[name] + objective.epsilon.get(name, 0.0))
        for name in objective.terms
      ]
      loss = tf.add_n(terms)
      scaled = loss * self.loss_scale.scale if self.loss_scale else loss
    gradients = tape.gradient(scaled, self.variables)
    # Each replica and micro-batch has a part of the loss, with this weight.
    parts = self.strategy.num_replicas_in_sync * self.accumulation_steps
    return gradients, sums | {"loss": tf.stack([loss, 1.0 / parts])}


def weighted_sums(objective, outputs: dict, batch: dict, is_row=None) -> dict:
  """Returns {name: [2] float32}, sums of values and weights.

  Rows that are 0 in `is_row` [B] are padding.
  """
  losses, weights = objective.losses(outputs, batch), objective.weights(batch)
  pairs = {name: (losses[name], weights[name]) for name in objective.terms}
  sums = {}
  pairs |= objective.metrics(outputs, batch)
  for name, (values, weight) in pairs.items():  # [B, ...] each
    if is_row is not None:
      weight *= tf.reshape(is_row, [-1] + [1] * (weight.shape.rank - 1))
    total = tf.reduce_sum(values * weight)
    sums[name] = tf.stack([total, tf.reduce_sum(weight)])
  return sums


def means(sums: Mapping) -> dict[str, float]:
  """Divides each total by its sum of weights; 0 if the weights sum to 0."""
  values = {name: np.asarray(value) for name, value in sums.items()}
  return {
    name: float(total / weight) if weight else 0.0
    for name, (total, weight) in values.items()
  }
