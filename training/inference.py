"""Evaluation and prediction, on all replicas: a batch is divided among them.

Every replica gets the whole batch, which is small, and takes its rows of it.

Legend: B batch, R replicas.
"""

import functools
from collections.abc import Iterable, Sequence

import numpy as np
import tensorflow as tf

from training import step as steps


def evaluate(
  model, objective, batches: Iterable, max_steps: int | None = None
) -> dict[str, float]:
  """Means of every term and metric over batches, without dropout.

  `loss` is the mean over batches of the batches' losses, as the original
  reports it; all others are means over items.

  Args:
    model: a Keras model from a dict of inputs to a dict of outputs.
    objective: terms and metrics (as modeling.losses.Objective).
    batches: of dicts [B, ...], which the replicas share; the last may be
      shorter. With several workers, the same on each.
    max_steps: how many of them at most.

  Returns:
    {name: mean}.

  Raises:
    ValueError: there is no batch.
  """
  strategy = tf.distribute.get_strategy()

  def on_replica(batch):
    batch, is_row = _of_replica(batch, strategy.num_replicas_in_sync)
    outputs = model(steps.batch_inputs(model, batch), training=False)
    losses, weights = objective.losses(outputs, batch), objective.weights(batch)
    pairs = steps.reports(objective, outputs, batch, losses, weights)
    return {
      name: steps.weighted_sum(values, _masked(weights, is_row))
      for name, (values, weights) in pairs.items()
    }

  @tf.function(reduce_retracing=True, autograph=False)
  def one(batch):
    replicas = strategy.run(on_replica, args=(batch,))
    return {
      name: strategy.reduce("SUM", value, axis=None)
      for name, value in replicas.items()
    }

  totals = {name: np.zeros(2) for name in (*objective.names, "loss")}
  for number, batch in enumerate(batches):
    if number == max_steps:
      break
    sums = {name: value.numpy() for name, value in one(batch).items()}
    loss = sum(
      sums[name][0] / (sums[name][1] + objective.epsilon.get(name, 0.0))
      for name in objective.terms
    )
    for name, value in (sums | {"loss": np.array([loss, 1.0])}).items():
      totals[name] += value
  if not totals["loss"][1]:
    raise ValueError("there is nothing to evaluate: no batch was read")
  return steps.means(totals)


def predict(model, batches: Iterable) -> dict[str, np.ndarray]:
  """A model's outputs for every example, in order.

  Args:
    model: a Keras model from a dict of inputs to a dict of outputs.
    batches: of dicts [B, ...]; the last may be shorter. A field that is no
      input of the model is passed through.

  Returns:
    {name: [examples, ...]} of all outputs and fields passed through. Where
    batches differ in length (trimmed ones), zeros fill up the shorter.
  """
  forward = _forward(model, tf.distribute.get_strategy())
  found = {}
  for batch in batches:
    outputs = forward(steps.batch_inputs(model, batch))
    beside = {name: v for name, v in batch.items() if name not in model.input}
    for name, value in (outputs | beside).items():
      found.setdefault(name, []).append(np.asarray(value))
  return {name: _joined(values) for name, values in found.items()}


def outputs(model, source, batch_size: int) -> dict[str, np.ndarray]:
  """A model's outputs for all examples of a source, as `predict` has them.

  Args:
    model: a Keras model from a dict of inputs to a dict of outputs.
    source: its `outputs` takes a batch size and what predicts batches (as
      data.tasks.recorded.Recorded).
    batch_size: how many records the model sees at a time.
  """
  return source.outputs(batch_size, functools.partial(predict, model))


@functools.lru_cache(maxsize=4)  # a run evaluates the same model often
def _forward(model, strategy):
  """A model as a tf.function that is traced once, for batches of any shape.

  The replicas of this process share a batch.
  """
  replicas = _here(strategy)

  def on_replica(batch):
    return model(_of_replica(batch, replicas)[0], training=False)

  def forward(batch):
    return {
      name: _together(strategy.experimental_local_results(value), batch)
      for name, value in strategy.run(on_replica, args=(batch,)).items()
    }

  inputs = {
    name: tf.TensorSpec([None] * len(value.shape), value.dtype)
    for name, value in model.input.items()
  }
  return tf.function(forward, [inputs], autograph=False)


def _joined(parts):
  """Concatenates arrays [B, ...], filled up to the largest in [...]."""
  largest = np.max([part.shape[1:] for part in parts], axis=0)
  filled = []
  for part in parts:
    gaps = [(0, gap) for gap in largest.astype(int) - part.shape[1:]]
    filled.append(np.pad(part, [(0, 0), *gaps]) if any(gaps) else part)
  return np.concatenate(filled)


def _of_replica(batch: dict, replicas: int) -> tuple[dict, tf.Tensor]:
  """The rows of a batch for the replica that this is called on.

  Args:
    batch: {name: [B, ...]}.
    replicas: how many share it, R; numbered from 0, or from a multiple of R.

  Returns:
    {name: [ceil(B / R), ...]}, filled up with rows of zeros, and
    [ceil(B / R)] float32, 1 for the rows that there are.
  """
  rows = _rows(next(iter(batch.values())))
  size = -(-rows // replicas)
  context = tf.distribute.get_replica_context()
  first = context.replica_id_in_sync_group % replicas * size
  is_row = tf.cast(first + tf.range(size) < rows, tf.float32)
  if replicas == 1:
    return batch, is_row
  missing = size * replicas - rows
  share = {}
  for name, value in batch.items():
    gaps = [[0, missing]] + [[0, 0]] * (value.shape.rank - 1)
    share[name] = tf.pad(value, gaps)[first : first + size]
  return share, is_row


def _together(parts: Sequence[tf.Tensor], batch: dict) -> tf.Tensor:
  """Puts the replicas' results, [ceil(B / R), ...] each, in a row: [B, ...]."""
  if len(parts) == 1:
    return parts[0]
  return tf.concat(parts, 0)[: _rows(next(iter(batch.values())))]


def _here(strategy: tf.distribute.Strategy) -> int:
  """How many replicas this process has."""
  if strategy.num_replicas_in_sync == 1:
    return 1
  return len(strategy.extended.worker_devices)


def _masked(weights: tf.Tensor, is_row: tf.Tensor) -> tf.Tensor:
  """Weights [B, ...] of items, 0 in the rows that only fill up."""
  return weights * tf.reshape(is_row, [-1] + [1] * (weights.shape.rank - 1))


def _rows(value):
  return value.shape[0] or tf.shape(value)[0]
