"""Loops over batches: training, evaluation, prediction.

Training is Python around steps that run inside TensorFlow. In an evaluation and
a prediction, each replica slices its rows from a batch of B.
"""

import functools
import itertools
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging

from storage import Progress, UserError, processes, setting
from training import step as steps
from training.report import Report
from training.run_folder import Checkpoints, sum_over_replicas

# Raised by TensorFlow for a corrupt record, among other reasons.
RECORD_ERRORS = tf.errors.DataLossError, tf.errors.InvalidArgumentError
_SECONDS_AT_ONCE = 5.0


@dataclass(frozen=True)
class Plan:
  """Steps at which training returns to Python.

  At most `max_steps` steps run inside TensorFlow at once, except in a profile
  for TensorBoard, of steps `profile_first` + 1 to `profile_last`. A save or an
  evaluation divides the profile.
  """

  num_train_steps: int
  save_every: int = 1000
  max_steps: int = 1000
  evaluate_every: int = 0  # 0: never
  evaluate_last: bool = False
  profile_folder: str = ""
  profile_first: int = 0
  profile_last: int = 0

  def steps_to_run(self, step: int, seconds_per_step: float) -> int:
    """Number of steps to run at once after `step` updates."""
    stops = [self.num_train_steps, self.profile_first, self.profile_last]
    intervals = self.save_every, self.evaluate_every
    stops += [(step // n + 1) * n for n in intervals if n]
    number = min([stop for stop in stops if stop > step]) - step
    if self.profiles_at(step):  # up to the next stop, in one profile
      return number
    in_time = int(_SECONDS_AT_ONCE / seconds_per_step)
    return max(1, min(number, self.max_steps, in_time))

  def profiles_at(self, step: int) -> bool:
    return self.profile_first <= step < self.profile_last

  def saves_at(self, step: int) -> bool:
    return step == self.num_train_steps or step % self.save_every == 0

  def evaluates_at(self, step: int) -> bool:
    if step >= self.num_train_steps and self.evaluate_last:
      return True
    return bool(self.evaluate_every) and step % self.evaluate_every == 0


@dataclass
class Training:
  """A training, as an iterator over the steps to evaluate.

    for step in training:
      if is_good_enough(evaluate(step)):
        training.end()

  The iteration saves, reports and handles signals. `training.end()` saves a
  checkpoint of the step and ends the iteration. While a step is evaluated, the
  model's variables hold the moving averages, if there are any.

  Raises ValueError for a corrupt record, and for a loss that is not finite. The
  step with such a loss is not saved. SIGTERM to a worker saves and ends all.
  """

  train_step: steps.TrainStep  # training begins from its variables
  # Makes a replica's batches, from the first step to train.
  dataset: Callable[[tf.distribute.InputContext], tf.data.Dataset]
  checkpoints: Checkpoints
  plan: Plan
  make_report: Callable[[], Report]  # called when the batches exist
  # The last step that an interrupted run evaluated. If it saved a checkpoint
  # and did not evaluate it, the iteration yields the checkpoint's step first.
  evaluated: int = 0
  source: Any = None  # `source.first_corrupt()` describes a corrupt record
  has_trained: bool = field(default=False, init=False)  # a step has run
  _ended: bool = field(default=False, init=False)

  def end(self) -> None:
    """Ends the training at the step that the iteration has yielded."""
    self._ended = True

  def __iter__(self) -> Iterator[int]:
    train_step, plan = self.train_step, self.plan
    step = int(train_step.step.numpy())
    if self.evaluated < step and plan.evaluates_at(step):
      with train_step.averaged_weights():
        yield step
    if self._ended or step >= plan.num_train_steps:
      message = "nothing to train: step %d is reached already, of %d in all"
      logging.info(message, step, plan.num_train_steps)
      return
    strategy = tf.distribute.get_strategy()
    batches = iter(strategy.distribute_datasets_from_function(self.dataset))
    report = self.make_report()  # so a start without data is not in run.json
    self._trace_and_save_first(batches, step)
    seconds_per_step = _SECONDS_AT_ONCE  # still unknown: begin with one step
    report.begin(step, plan.num_train_steps)
    interrupted = False
    with processes.graceful_shutdown() as shutdown:
      while step < plan.num_train_steps and not (self._ended or interrupted):
        number = plan.steps_to_run(step, seconds_per_step)
        begin = time.monotonic()
        sums = self._run_steps(batches, step, number)
        seconds_per_step = max((time.monotonic() - begin) / number, 1e-6)
        step += number
        self.has_trained = True
        report.add_steps(step, number, sums)
        if plan.saves_at(step):
          self._save(step, report)
        if plan.evaluates_at(step):
          report.log()  # both curves have a point at this step
          with train_step.averaged_weights():
            yield step
          report.restart_clock()
        state = shutdown.requested, seconds_per_step
        interrupted, seconds_per_step = _synchronize(*state)
      if (self._ended or interrupted) and not plan.saves_at(step):
        self._save(step, report)
    report.log()
    if interrupted:
      logging.info("interrupted: the same command resumes from step %d", step)
      processes.end_interrupted()

  def _trace_and_save_first(self, batches, step):
    """Traces the step, and at the same time saves a run's first checkpoint.

    Saving BERT-base with its slots, 1.3 GB, takes a processor 2.5 s.
    """
    logging.info("preparing the training step, which takes seconds to minutes")
    with ThreadPoolExecutor(1) as thread:
      if step == 0:  # as in the original; shows early that saving works
        state = self.train_step.state
        saving = thread.submit(self.checkpoints.save, 0, state)
      self.train_step.train.get_concrete_function(batches, tf.constant(1))
    if step == 0:
      saving.result()

  def _run_steps(self, batches, step, number):
    """Runs `number` steps inside TensorFlow; returns sums of their metrics."""
    train_step, profile = self.train_step, nullcontext()
    if self.plan.profiles_at(step):
      folder = self.plan.profile_folder
      logging.info("profile of %d steps: %s", number, folder)
      profile = tf.profiler.experimental.Profile(folder)
    try:
      with profile:
        sums = train_step.train(batches, tf.constant(number))
        sums = {name: np.asarray(value) for name, value in sums.items()}
    except RECORD_ERRORS:
      raise_if_corrupt(self.source)
      raise
    nonfinite = int(train_step.first_nonfinite_step.numpy())
    is_skipped = False
    if train_step.loss_scale:
      # Steps with an overflow are skipped while the loss scale can be lowered.
      skipped, weight = sums["skipped_steps"]
      is_skipped = skipped < weight or train_step.loss_scale.scale.numpy() > 1.0
    if nonfinite >= 0 and not is_skipped:
      raise UserError(
        f"the loss or its gradient is not finite at step {nonfinite}; the last "
        f"checkpoint is {self.checkpoints.newest_readable()}. A lower "
        f"{setting('learning_rate')} or a longer warm-up usually helps"
      )
    sums.pop("example_loss", None)  # the only term, so equal to `loss`
    rate = float(train_step.learning_rate(step + number - 1))
    return sums | {"learning_rate": np.array([rate, 1.0])}

  def _save(self, step, report):
    report.log()
    path = self.checkpoints.save(step, self.train_step.state)
    logging.log_if(logging.INFO, "saved %s", processes.is_chief(), path)


def raise_if_corrupt(source) -> None:
  """Raises ValueError if `source` has a corrupt record; see RECORD_ERRORS."""
  logging.info("searching the files for a corrupt record")
  if message := source.first_corrupt():
    raise UserError(message) from None


def _synchronize(interrupted: bool, seconds: float) -> tuple[bool, float]:
  """Returns whether any worker is interrupted, and the mean `seconds`."""
  if not processes.has_others():
    return interrupted, seconds
  strategy = tf.distribute.get_strategy()
  own = tf.constant([float(interrupted), seconds])  # this worker's
  number, seconds = sum_over_replicas(strategy, own).numpy().tolist()
  return number > 0.0, seconds / strategy.num_replicas_in_sync


# --- Evaluation and prediction ----------------------------------------------


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
    loss = 0.0
    for name in objective.terms:
      total, weight = sums[name]
      loss += total / (weight + objective.epsilon.get(name, 0.0))
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
    inputs = {name: batch[name] for name in model.input}
    outputs = model(inputs, training=False)
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
    outputs = forward({name: batch[name] for name in model.input})
    passed = {name: v for name, v in batch.items() if name not in model.input}
    for name, value in (outputs | passed).items():
      result.setdefault(name, []).append(np.asarray(value))
  for values in result.values():
    largest = np.max([value.shape[1:] for value in values], axis=0).astype(int)
    for i, value in enumerate(values):
      gaps = largest - value.shape[1:]
      if gaps.any():
        values[i] = np.pad(value, [(0, 0), *((0, gap) for gap in gaps)])
  return {name: np.concatenate(values) for name, values in result.items()}


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
        rows = tf.shape(next(iter(batch.values())))[0]
        outputs[name] = tf.concat(results, 0)[:rows]
    return outputs

  inputs = {
    name: tf.TensorSpec([None] * len(value.shape), value.dtype)
    for name, value in model.input.items()
  }
  return tf.function(forward, [inputs], autograph=False)


def _replica_rows(batch: dict, replicas: int) -> tuple[dict, tf.Tensor]:
  """Returns this replica's rows, and for each row 1.0, or 0.0 for padding.

  Each of R replicas has ceil(B / R) rows.
  """
  first = next(iter(batch.values()))
  rows = first.shape[0] or tf.shape(first)[0]
  size = -(-rows // replicas)
  context = tf.distribute.get_replica_context()
  begin = context.replica_id_in_sync_group % replicas * size
  is_row = tf.cast(begin + tf.range(size) < rows, tf.float32)
  if replicas == 1:
    return batch, is_row
  missing = size * replicas - rows
  result: dict[str, tf.Tensor] = {}
  for name, value in batch.items():
    gaps = [[0, missing]] + [[0, 0]] * (value.shape.rank - 1)
    result[name] = tf.pad(value, gaps)[begin : begin + size]
  return result, is_row
