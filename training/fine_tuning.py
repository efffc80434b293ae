"""Fine-tuning as its flags describe it, for all tasks alike."""

from collections.abc import Callable, Mapping

import tensorflow as tf
from absl import flags, logging

from training import (
  best,
  dry_run,
  export,
  freezing,
  program,
  strategy,
  sweep,
)
from training.run import Run, Source


def begin(FLAGS: flags.FlagValues) -> None:
  """What program.begin, export and strategy check before any work."""
  program.begin(FLAGS)
  export.check_flags(FLAGS)
  strategy.check_flags(FLAGS)


def devices(FLAGS: flags.FlagValues) -> tf.distribute.Strategy:
  """The devices to work on, after a sweep has had them if one is wanted.

  What sweep.run_if_wanted and strategy.from_flags ask of the process, they ask
  here, too.
  """
  sweep.run_if_wanted(FLAGS)
  return strategy.from_flags(FLAGS)


def evaluates(FLAGS: flags.FlagValues) -> bool:
  """Whether a run trains and evaluates while it does.

  Args:
    FLAGS: the values of training.flags.define_fine_tuning, and `do_train`.

  Raises:
    ValueError: patience is asked for and no evaluations.
  """
  if FLAGS.early_stopping_patience and not FLAGS.eval_every:
    raise ValueError(
      "--early_stopping_patience counts evaluations: say with --eval_every "
      "after how many steps there is one"
    )
  return FLAGS.do_train and (bool(FLAGS.eval_every) or best.is_kept(FLAGS))


def needs_dev(FLAGS: flags.FlagValues) -> bool:
  """Whether there is anything to evaluate on: `do_eval`, or `evaluates`."""
  return FLAGS.do_eval or evaluates(FLAGS)


def check_files(FLAGS: flags.FlagValues) -> None:
  """Raises ValueError if a file is not named that a run needs.

  Args:
    FLAGS: as for `evaluates`, and `train_file`, `dev_file`, `test_file`,
      `do_eval`, `do_predict`.
  """
  needed = {
    "train_file": FLAGS.do_train,
    "dev_file": needs_dev(FLAGS),
    "test_file": FLAGS.do_predict,
  }
  for name, is_needed in needed.items():
    if is_needed and not FLAGS[name].value:
      raise ValueError(f"what is asked for needs --{name}")


def train(
  run: Run,
  model,
  objective,
  source: Source,
  *,
  num_examples: int,
  unit: str = "examples",
  evaluate: Callable[[int], Mapping[str, float]],
  metric: str,
) -> None:
  """Fine-tunes a model for --num_train_epochs, in the strategy's scope.

  Args:
    run: its flags include those of training.flags.define_fine_tuning.
    model: a fresh Keras model.
    objective: what to minimize (as modeling.losses.Objective).
    source: what it is trained on.
    num_examples: of an epoch.
    unit: what an example is called.
    evaluate: from the step to results by name; called if `evaluates(FLAGS)`.
    metric: which of the results says how good a model is; more is better.

  Raises:
    ValueError: the examples do not make a single step.
  """
  FLAGS = run.FLAGS
  steps = _steps(FLAGS, num_examples)
  freezing.freeze(model, FLAGS.freeze_layers)
  kept = None
  if best.is_kept(FLAGS):
    patience = FLAGS.early_stopping_patience * FLAGS.eval_every
    kept = best.Best(FLAGS.output_dir, metric, patience)
    if kept.is_final:
      logging.info("nothing to train: this run has ended early")
      return

  def evaluated(step):
    results = evaluate(step)
    if kept:
      kept.note(step, results, model)
      return kept.is_final
    return False

  averaged = run.train(
    model,
    objective,
    source,
    num_train_steps=steps,
    num_warmup_steps=int(steps * FLAGS.warmup_proportion),
    unit=unit,
    evaluate=evaluated,
  )
  if kept and not kept.is_final and kept.evaluated < steps:
    with averaged():
      evaluated(steps)


def _steps(FLAGS, num_examples):
  if FLAGS.dry_run:
    return dry_run.STEPS
  epochs, batch_size = FLAGS.num_train_epochs, FLAGS.train_batch_size
  steps = int(num_examples / batch_size * epochs)
  if not steps:
    raise ValueError(
      f"{num_examples} examples x --num_train_epochs={epochs:g} make no step "
      f"of --train_batch_size={batch_size}"
    )
  logging.info("%d examples, %d steps", num_examples, steps)
  return steps
