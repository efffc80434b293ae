"""Fine-tuning by settings, for all tasks."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from absl import logging

from data.records import RecordDataset
from modeling.config import BertConfig
from runs import checks, contradictions
from runs.distillation import distilled
from runs.session import Run, needs_static_shapes
from runs.settings import DRY_RUN_STEPS, Packing
from runs.task_settings import FineTuning
from serving.export import ServedModel
from storage import UserError
from storage.progress import number_of
from training import optimization, report, run_folder
from training.run_folder import BestCheckpoint, Checkpoints

T = TypeVar("T", bound=FineTuning)


def start(args: T) -> Run[T]:
  """Starts a run.

  Raises ValueError if it does not train and --init_checkpoint has no head.
  """
  run = Run(args, checks.config(args))
  path = checks.checkpoint(args)
  if path and path == args.init_checkpoint and not args.do_train:
    run_folder.check_head(path)
  if not path:
    logging.warning("no --init_checkpoint: all variables start at random")
  return run


def train(
  run: Run[FineTuning],
  model,
  objective,
  source: RecordDataset,
  *,
  num_examples: int,
  packs: bool = False,
  not_packed: Iterable[str] = (),
  unit: str = "examples",
  evaluate: Callable[[int], Mapping[str, float]],
  metric: str,
  served_model: Callable[[Any], ServedModel],
) -> None:
  """Fine-tunes a model for --num_train_epochs, in the strategy's scope.

  An epoch has `num_examples`, ValueError if one step needs more. `unit` names
  rows in the log. With `packs`, rows of several examples may train the model
  (models.packed); for `not_packed` see contradictions.packing_conflict. The
  best checkpoint has the largest `metric` of `evaluate(step)`. `served_model`
  makes --teacher's.
  """
  args = run.args
  steps = _num_steps(args, num_examples)
  if packs and isinstance(args, Packing):
    joins = packs_examples(args, run.config, not_packed)
    source = source.with_packing(args.train_batch_size, joins)
  optimization.freeze(model, args.frozen_layers(run.config))
  best_checkpoint, evaluated = None, report.last_evaluation(args.output_dir)
  if args.keeps_best:
    patience = args.early_stopping_patience * args.eval_steps
    best_checkpoint = BestCheckpoint(args.output_dir, metric, patience)
    if best_checkpoint.is_final:
      logging.info("nothing to train: early stopping has ended this run")
      return
    evaluated = best_checkpoint.evaluated

  for step in run.train(
    model,
    distilled(args, objective, model, served_model),
    source,
    num_train_steps=steps,
    num_warmup_steps=int(steps * args.warmup_proportion),
    new_head=args.new_head,
    unit=unit,
    evaluated=evaluated,
    evaluate_last=args.keeps_best,
  ):
    results = evaluate(step)
    if best_checkpoint:
      best_checkpoint.update(step, results, model)
      if best_checkpoint.is_final:
        run.end_training()
  if best_checkpoint:
    Checkpoints(run_folder.best_folder(args.output_dir)).log_all()


def _num_steps(args: FineTuning, num_examples: int) -> int:
  epochs, batch_size = args.num_train_epochs, args.train_batch_size
  steps = int(num_examples / batch_size * epochs)
  at_most = args.max_examples
  are_all = at_most is None or num_examples < at_most
  if not steps and are_all:
    raise UserError(
      f"{number_of(num_examples, 'example')} x --num_train_epochs={epochs:g} "
      f"make no step of --train_batch_size={batch_size}: lower it, or raise "
      "--num_train_epochs"
    )
  if args.dry_run:
    return DRY_RUN_STEPS
  logging.info(
    "%s, %s", number_of(num_examples, "example"), number_of(steps, "step")
  )
  return steps


def packs_examples(
  args: Packing, config: BertConfig, not_packed: Iterable[str] = ()
) -> bool | None:
  """--pack_examples; without the flag False if it is impossible, else None."""
  if args.pack_examples is not None:
    return args.pack_examples
  conflict = contradictions.packing_conflict(args, config, not_packed)
  return False if conflict or needs_static_shapes(args) else None
