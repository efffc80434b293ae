"""A run as its flags describe it: its checkpoints, its seed, what it trains."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

import tensorflow as tf
from absl import flags

from training import (
  best,
  checkpoint,
  export,
  loop,
  metrics,
  optimization,
  precision,
  profile,
  report,
  run_record,
)
from training.checkpoints import Checkpoints
from training.step import TrainStep


class Source(Protocol):
  """What a model is trained on."""

  def training(
    self,
    batch_size: int,
    seed: int,
    skip: int,
    context: tf.distribute.InputContext,
    by_length: bool,
  ) -> tf.data.Dataset:
    """A replica's batches without end.

    Args:
      batch_size: of all replicas together.
      seed: of the order.
      skip: number of examples that were used before.
      context: which worker this is.
      by_length: whether examples of a batch are of similar length.
    """

  @property
  def files(self) -> Sequence[str]:
    """Where it is."""

  def damage(self) -> str | None:
    """Which record cannot be read, and what to do; None if all can."""


class Run:
  """One start of a program: what is asked for, its checkpoints and its seed.

  Models that are built from now on have the types of --dtype and initial values
  by the seed.

  Arguments:
    FLAGS: the values of training.flags.define_model, define_training,
      define_export and define_devices.
    seeded: context manager in which dropout draws from a [2] int32 seed.

  Attributes:
    FLAGS: the same.
    checkpoints: those of --output_dir.
    seed: of initial values, the order of the data and dropout.
  """

  def __init__(self, FLAGS: flags.FlagValues, seeded: Callable):
    precision.set_policy(FLAGS.dtype)
    self.FLAGS = FLAGS
    self.checkpoints = Checkpoints(FLAGS.output_dir, FLAGS.keep_checkpoint_max)
    self.seed = self.checkpoints.fix_seed(FLAGS.seed)
    self._seeded = seeded

  def train(
    self,
    model,
    objective,
    source: Source,
    *,
    num_train_steps: int,
    num_warmup_steps: int,
    stop_at: int = 0,
    unit: str = "examples",
    evaluate: Callable[[int], bool | None] = lambda step: None,
  ) -> Callable[[], AbstractContextManager]:
    """Trains a model to its last step; to be called in the strategy's scope.

    It begins with the newest checkpoint, else with --init_checkpoint.

    Args:
      model: a fresh Keras model.
      objective: what to minimize (as modeling.losses.Objective).
      source: what it is trained on.
      num_train_steps: updates in all.
      num_warmup_steps: updates of warm-up.
      stop_at: where to end before the last step; 0 for there.
      unit: what an example is called.
      evaluate: called with the step every --eval_every steps; True ends the
        run.

    Returns:
      Makes a context in which the variables have the values to evaluate with:
      their moving averages, if there are any. `evaluate` is called in one.
    """
    FLAGS = self.FLAGS
    train_step = self._train_step(
      model, objective, num_train_steps, num_warmup_steps
    )
    self.checkpoints.resume(train_step, FLAGS.init_checkpoint)
    used = int(train_step.examples.numpy())
    average = train_step.average
    averaged = average.in_place if average else nullcontext

    def evaluated(step):
      with averaged():
        return evaluate(step)

    loop.train(
      train_step,
      lambda context: source.training(
        FLAGS.train_batch_size, self.seed, used, context, FLAGS.group_by_length
      ),
      self.checkpoints,
      self._schedule(stop_at or num_train_steps),
      self._report(objective, source, unit),
      evaluate=evaluated,
      damage=source.damage,
    )
    metrics.draw(FLAGS.output_dir)
    return averaged

  def _schedule(self, num_train_steps):
    FLAGS = self.FLAGS
    return loop.Schedule(
      num_train_steps,
      FLAGS.save_checkpoints_steps,
      FLAGS.iterations_per_loop,
      FLAGS.eval_every,
      profile.parse(FLAGS.output_dir, FLAGS.profile_steps),
    )

  def _report(self, objective, source, unit):
    """What says how it goes; run.json has noted the start."""
    FLAGS = self.FLAGS
    told = report.Report(
      FLAGS.output_dir,
      FLAGS.train_batch_size,
      unit,
      ("loss", *objective.reported),
    )
    told.note("run", run_record.write(FLAGS, self.seed, source.files))
    return told

  def _train_step(self, model, objective, num_train_steps, num_warmup_steps):
    FLAGS = self.FLAGS
    trained = checkpoint.trained(model)
    average = None
    if FLAGS.moving_average_decay:
      average = optimization.Average(trained, FLAGS.moving_average_decay)
    return TrainStep(
      model,
      objective,
      _optimizer(FLAGS, trained),
      optimization.LinearSchedule(
        FLAGS.learning_rate, num_train_steps, num_warmup_steps
      ),
      batch_size=FLAGS.train_batch_size,
      seed=self.seed,
      seeded=self._seeded,
      max_grad_norm=FLAGS.max_grad_norm,
      accumulation=FLAGS.gradient_accumulation_steps,
      loss_scale=precision.LossScale() if FLAGS.dtype == "float16" else None,
      average=average,
      jit_compile=FLAGS.jit_compile,
    )

  def require_same(self, *names: str) -> None:
    """Raises ValueError if checkpoints were trained with other such flags."""
    if self.checkpoints.latest() or best.read(self.FLAGS.output_dir):
      run_record.require_same(self.FLAGS, *names)

  def load(self, model) -> int:
    """Gives a model what the run has trained; see `load`."""
    return load(self.FLAGS, model, self.checkpoints)

  def export(self, build: Callable[[flags.FlagValues], tuple]) -> None:
    """Exports what the run has trained; see export.run.

    Args:
      build: from flags to a fresh model, the task, and labels or None.
    """
    export.set_policy(self.FLAGS)
    model, task, labels = build(self.FLAGS)
    self.load(model)
    export.run(self.FLAGS, model, task, labels)


def load(FLAGS: flags.FlagValues, model, checkpoints: Checkpoints) -> int:
  """Gives a model what is to be evaluated, to predict with or to be exported.

  That is the run's best checkpoint with --keep_best, now or in the last
  training, or if it has no other (where learning rates were tried); else the
  newest; else --init_checkpoint.

  Args:
    FLAGS: the values of training.flags.define_model and define_training; of
      define_fine_tuning where the program has them.
    model: a Keras model.
    checkpoints: those of --output_dir, which know what is whole.

  Returns:
    The number of updates that the checkpoint has seen.

  Raises:
    ValueError: there is none, or it is of another model.
  """
  folder = best.choose(FLAGS.output_dir, best.is_kept(FLAGS))
  if folder != checkpoints.directory:
    checkpoints = Checkpoints(folder)
  averaged = FLAGS.moving_average_decay > 0.0
  return checkpoints.load(model, FLAGS.init_checkpoint, averaged)


def _optimizer(FLAGS, trained):
  kinds = {
    "adamw": optimization.AdamWeightDecay,
    "lamb": optimization.Lamb,
  }
  names = [name for name, _ in trained]
  shares = optimization.layerwise(names, FLAGS.layerwise_learning_rate_decay)
  return kinds[FLAGS.optimizer](trained, rate_shares=shares)
