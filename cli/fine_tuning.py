"""Fine-tuning by flags, for all tasks."""

from collections.abc import Callable, Mapping

from absl import logging

from cli import checks, dry_run
from cli.run import Run, TrainingData
from training import optimization, run_folder


def train(
  run: Run,
  model,
  objective,
  source: TrainingData,
  *,
  num_examples: int,
  unit: str = "examples",
  evaluate: Callable[[int], Mapping[str, float]],
  metric: str,
) -> None:
  """Fine-tunes a model for --num_train_epochs, in the strategy's scope.

  Args:
    run: with the flags of cli.flags.define_fine_tuning.
    model: a fresh Keras model.
    objective: a modeling.losses.Objective.
    source: training data.
    num_examples: of an epoch.
    unit: name of an example in log lines.
    evaluate: from the step to metrics by name; called if
      `checks.evaluates_while_training(args)`.
    metric: the metric that decides which checkpoint is the best, as maximum.

  Raises:
    ValueError: there are fewer examples than one step needs.
  """
  args = run.args
  steps = _num_steps(args, num_examples)
  optimization.freeze(model, args.freeze_layers)
  best_checkpoint = None
  if checks.keeps_best(args):
    patience = args.early_stopping_patience * args.eval_steps
    best_checkpoint = run_folder.BestCheckpoint(
      args.output_dir, metric, patience
    )
    if best_checkpoint.is_final:
      logging.info("nothing to train: early stopping has ended this run")
      return

  def evaluate_and_save_best(step):
    results = evaluate(step)
    if best_checkpoint:
      best_checkpoint.update(step, results, model)
      return best_checkpoint.is_final
    return False

  averaged_weights = run.train(
    model,
    objective,
    source,
    num_train_steps=steps,
    num_warmup_steps=int(steps * args.warmup_proportion),
    unit=unit,
    evaluate=evaluate_and_save_best,
  )
  if best_checkpoint:
    if not best_checkpoint.is_final and best_checkpoint.evaluated < steps:
      with averaged_weights():
        evaluate_and_save_best(steps)
    best_folder = run_folder.best_folder(args.output_dir)
    run_folder.Checkpoints(best_folder).log_all()


def _num_steps(args, num_examples):
  if args.dry_run:
    return dry_run.STEPS
  epochs, batch_size = args.num_train_epochs, args.train_batch_size
  steps = int(num_examples / batch_size * epochs)
  if not steps:
    raise ValueError(
      f"{num_examples} examples x --num_train_epochs={epochs:g} make no step "
      f"of --train_batch_size={batch_size}"
    )
  logging.info("%d examples, %d steps", num_examples, steps)
  return steps
