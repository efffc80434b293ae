"""Evaluation and prediction. Each replica slices its rows from a batch of B."""

import functools
import itertools
from collections.abc import Iterable

import numpy as np
import tensorflow as tf

from storage import Progress, UserError
from training import step as steps


def evaluate(
  model, objective, batches: Iterable, max_steps: int | None = None
) -> dict[str, float]:
  """Returns {name: mean} for an Objective's losses and metrics over batches.

  `loss` is the mean of the batches' losses, as in the original. Other means are
  over all examples or tokens. Batches are dicts of [B, ...] for any B, and all
  workers get the same batches. Raises ValueError if there is no batch.
  """
  batch_sums = _batch_sums(model, objective, tf.distribute.get_strategy())
  totals = {name: np.zeros(2) for name in (*objective.names, "loss")}
  for batch in itertools.islice(batches, max_steps):
    sums = {name: value.numpy() for name, value in batch_sums(batch).items()}
    loss = sum(
      sums[name][0] / (sums[name][1] + objective.epsilon.get(name, 0.0))
      for name in objective.terms
    )
    for name, value in (sums | {"loss": np.array([loss, 1.0])}).items():
      totals[name] += value
  if not totals["loss"][1]:
    raise UserError("there is nothing to evaluate: no batch was read")
  return steps.means(totals)


@functools.lru_cache(maxsize=1)  # a run evaluates the same model often
def _batch_sums(model, objective, strategy):
  """Makes a tf.function: batch -> {name: [2]}, as in step.weighted_sums."""

  def on_replica(batch):
    batch, is_row = _replica_rows(batch, strategy.num_replicas_in_sync)
    outputs = model(steps.batch_inputs(model, batch), training=False)
    return steps.weighted_sums(objective, outputs, batch, is_row)

  @tf.function(reduce_retracing=True, autograph=False)
  def on_all(batch):
    sums = strategy.run(on_replica, args=(batch,))
    return {k: strategy.reduce("SUM", v, axis=None) for k, v in sums.items()}

  return on_all


def predict(model, batches: Iterable) -> dict[str, np.ndarray]:
  """Returns outputs for all examples, in order: {name: [examples, ...]}.

  The result includes fields of batches, [B, ...], that are not inputs of the
  model. Zeros pad the outputs of batches with fewer tokens.
  """
  forward = _forward(model, tf.distribute.get_strategy())
  result: dict[str, list] = {}
  for batch in batches:
    outputs = forward(steps.batch_inputs(model, batch))
    passed = {name: v for name, v in batch.items() if name not in model.input}
    for name, value in (outputs | passed).items():
      result.setdefault(name, []).append(np.asarray(value))
  return {name: _concat_padded(values) for name, values in result.items()}


def outputs(model, dataset, batch_size: int) -> dict[str, np.ndarray]:
  """Outputs for all examples of a data.records.RecordDataset, in order."""
  progress = Progress("read", len(dataset.rows), "examples")
  batches = progress.follow(dataset.eval_batches(batch_size))
  return dataset.in_order(predict(model, batches))


@functools.lru_cache(maxsize=1)
def _forward(model, strategy):
  """Makes a tf.function of a model, traced once for batches of any shape."""
  replicas = 1
  if strategy.num_replicas_in_sync > 1:
    replicas = len(strategy.extended.worker_devices)

  def on_replica(batch):
    return model(_replica_rows(batch, replicas)[0], training=False)

  def forward(batch):
    outputs = {}
    for name, value in strategy.run(on_replica, args=(batch,)).items():
      results = strategy.experimental_local_results(value)
      outputs[name] = results[0]
      if len(results) > 1:  # [ceil(B / R), ...] of each replica
        outputs[name] = tf.concat(results, 0)[: _num_rows(batch)]
    return outputs

  inputs = {
    name: tf.TensorSpec([None] * len(value.shape), value.dtype)
    for name, value in model.input.items()
  }
  return tf.function(forward, [inputs], autograph=False)


def _concat_padded(arrays):
  """Concatenates arrays [B, ...], zero-padded to the largest [...]."""
  largest = np.max([array.shape[1:] for array in arrays], axis=0).astype(int)
  padded = []
  for array in arrays:
    gaps = largest - array.shape[1:]
    widths = [(0, 0), *((0, gap) for gap in gaps)]
    padded.append(np.pad(array, widths) if gaps.any() else array)
  return np.concatenate(padded)


def _replica_rows(batch: dict, replicas: int) -> tuple[dict, tf.Tensor]:
  """Returns this replica's rows, and for each row 1.0, or 0.0 for padding.

  Each of R replicas has ceil(B / R) rows.
  """
  rows = _num_rows(batch)
  size = -(-rows // replicas)
  context = tf.distribute.get_replica_context()
  first = context.replica_id_in_sync_group % replicas * size
  is_row = tf.cast(first + tf.range(size) < rows, tf.float32)
  if replicas == 1:
    return batch, is_row
  missing = size * replicas - rows
  result: dict[str, tf.Tensor] = {}
  for name, value in batch.items():
    gaps = [[0, missing]] + [[0, 0]] * (value.shape.rank - 1)
    result[name] = tf.pad(value, gaps)[first : first + size]
  return result, is_row


def _num_rows(batch):
  value = next(iter(batch.values()))
  return value.shape[0] or tf.shape(value)[0]
