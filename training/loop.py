"""Training: Python around steps that run inside TensorFlow.

Between two returns to Python there are as many steps as fit into a few seconds;
checkpoints, evaluation, summaries and the progress line happen there.
"""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import tensorflow as tf
from absl import logging

from training import cluster
from training import step as steps
from training.checkpoints import Checkpoints
from training.interruption import Interruption
from training.profile import Profile
from training.report import Report

# How TensorFlow says that another process does not answer.
_LOST = (
  tf.errors.AbortedError,
  tf.errors.DeadlineExceededError,
  tf.errors.InternalError,
  tf.errors.UnavailableError,
)
# Seconds of work to aim at between two returns to Python.
_SECONDS_INSIDE = 5.0


@dataclass(frozen=True)
class Schedule:
  """When a run returns to Python, in steps.

  Attributes:
    num_train_steps: where it ends.
    save_every: between two checkpoints.
    at_most: inside TensorFlow at one go.
    evaluate_every: between two evaluations; 0 is never.
    profile: which of them are watched by TensorFlow's profiler.
  """

  num_train_steps: int
  save_every: int = 1000
  at_most: int = 1000
  evaluate_every: int = 0
  profile: Profile = field(default_factory=Profile)

  def stretch(self, step: int, seconds_per_step: float) -> int:
    """How many steps to do at one go after `step` updates."""
    stops = [self.num_train_steps, _next_multiple(step, self.save_every)]
    if self.evaluate_every:
      stops.append(_next_multiple(step, self.evaluate_every))
    stops += [stop for stop in self.profile.stops if stop > step]
    fitting = int(_SECONDS_INSIDE / seconds_per_step)
    return max(1, min(min(stops) - step, self.at_most, fitting))

  def saves_at(self, step: int) -> bool:
    """Whether there is a checkpoint after `step` updates."""
    return step == self.num_train_steps or step % self.save_every == 0

  def evaluates_at(self, step: int) -> bool:
    """Whether there is an evaluation after `step` updates."""
    return bool(self.evaluate_every) and step % self.evaluate_every == 0


def _next_multiple(step, every):
  return (step // every + 1) * every


def train(
  train_step: steps.TrainStep,
  dataset: Callable[[tf.distribute.InputContext], tf.data.Dataset],
  checkpoints: Checkpoints,
  schedule: Schedule,
  report: Report,
  *,
  evaluate: Callable[[int], bool | None] = lambda step: None,
  damage: Callable[[], str | None] = lambda: None,
) -> None:
  """Trains until the schedule ends, from wherever `train_step` stands.

  Asked to end (SIGTERM), it saves and ends the program with status 0. Of
  several workers all do when one is asked.

  Args:
    train_step: restored or fresh; its counter says where the run is.
    dataset: from which worker this is to a replica's batches from there on.
    checkpoints: where they go.
    schedule: when to return.
    report: gets the numbers of every stretch.
    evaluate: called with the step, as often as the schedule says; True ends
      the training.
    damage: says what is wrong with the data when reading them has failed.

  Raises:
    FloatingPointError: the loss is not finite; the last checkpoint is kept.
    ValueError: a record cannot be read; says which.
    ConnectionError: another worker is gone.
  """
  step = int(train_step.step.numpy())
  if step >= schedule.num_train_steps:
    logging.info("nothing to train: step %d is reached already", step)
    return
  if step == 0:  # as the original; also shows it can be written
    checkpoints.save(0, train_step.state)
  batches = _distributed(dataset)
  pace = _Pace()
  report.begin(step, schedule.num_train_steps)
  ended = asked = False
  with Interruption() as interruption:
    while step < schedule.num_train_steps and not ended:
      number, means = _stretch(train_step, batches, schedule, pace, damage)
      step += number
      _check_finite(train_step, means, checkpoints)
      report.stretch(step, number, means)
      saved = schedule.saves_at(step)
      if saved:
        _save(train_step, checkpoints, report)
      if schedule.evaluates_at(step):
        ended = evaluate(step)
        report.resume()
      asked = _agree(interruption.requested, pace)
      ended = ended or asked
    if ended and not saved:
      _save(train_step, checkpoints, report)
  report.end()
  if asked and step < schedule.num_train_steps:
    logging.info("asked to end: the same command goes on from step %d", step)
    sys.exit(0)


def _distributed(dataset) -> Iterator:
  """Batches of all replicas."""
  strategy = tf.distribute.get_strategy()
  return iter(strategy.distribute_datasets_from_function(dataset))


def _stretch(
  train_step, batches, schedule, pace, damage
) -> tuple[int, dict[str, float]]:
  """Does as many steps as fit into a few seconds.

  Returns:
    Their number, and the means of what they reported.
  """
  step = int(train_step.step.numpy())
  number = schedule.stretch(step, pace.seconds_per_step)
  schedule.profile.enter(step)
  begin = time.monotonic()
  try:
    with _others():
      means = steps.means(train_step.run(batches, tf.constant(number)))
  except (tf.errors.DataLossError, tf.errors.InvalidArgumentError):
    found = damage()
    if found is None:
      raise
    raise ValueError(found) from None
  pace.note(number, time.monotonic() - begin)
  schedule.profile.leave(step + number)
  means["learning_rate"] = float(train_step.schedule(step + number - 1))
  return number, means


def _save(train_step, checkpoints, report):
  report.say()
  step = int(train_step.step.numpy())
  logging.info("saved %s", checkpoints.save(step, train_step.state))


@contextmanager
def _others() -> Iterator[None]:
  """Within it a worker that is gone is a ConnectionError."""
  try:
    yield
  except _LOST as error:
    if not cluster.has_others():
      raise
    raise ConnectionError(
      f"another worker cannot be reached any more ({error.message[:200]}): "
      "start all of them again; they go on from the last checkpoint"
    ) from None


def _agree(asked: bool, pace: "_Pace") -> bool:
  """Whether any worker is asked to end; gives all of them the same pace.

  So that all do the same stretches, and end after the same one.
  """
  if not cluster.has_others():
    return asked
  strategy = tf.distribute.get_strategy()
  own = tf.constant([float(asked), pace.seconds_per_step])
  with _others():
    total = strategy.reduce("SUM", strategy.run(lambda: own), axis=None)
    number, seconds = total.numpy().tolist()
  pace.seconds_per_step = seconds / strategy.num_replicas_in_sync
  return number > 0.0


class _Pace:
  """Seconds a step, from the last stretch; the first one only compiles."""

  def __init__(self):
    self.seconds_per_step = _SECONDS_INSIDE  # one step at first
    self._stretches = 0

  def note(self, number, seconds):
    self._stretches += 1
    if self._stretches > 1:
      self.seconds_per_step = max(seconds / number, 1e-6)


def _check_finite(train_step, means, checkpoints):
  bad = int(train_step.first_bad.numpy())
  scale = train_step.loss_scale
  if scale is None and bad < 0:
    return
  # With a loss scale such steps are skipped, until it cannot fall any more.
  if scale and (means["skipped_steps"] < 1.0 or scale.scale.numpy() > 1.0):
    return
  raise FloatingPointError(
    f"the loss or its gradient is not finite at step {bad}; the last good "
    f"checkpoint is {checkpoints.latest()}. A lower --learning_rate or a "
    "longer warm-up usually helps"
  )
