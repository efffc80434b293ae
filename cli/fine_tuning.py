"""Fine-tuning by flags, for all tasks: one training, or a sweep of them.

A sweep (appendix A.3 of the paper) has a trial for each combination of learning
rate, batch size, epochs and seed: the same command in a process and a folder of
its own.
"""

import math
import os
import re
import statistics
from collections.abc import Callable, Iterable, Mapping
from itertools import product

import keras
import tensorflow as tf
from absl import logging

from cli import arguments, encoder, shared_flags, training_program
from cli.arguments import Arguments
from cli.run import Run, load, needs_static_shapes
from data import labels
from data.records import RecordDataset
from modeling import losses, tracing
from modeling.config import BertConfig
from serving.export import ServedModel
from storage import UserError, files
from storage.progress import number_of
from training import optimization, processes, report, run_folder, run_record
from training.run_folder import BestCheckpoint, Checkpoints
from training.step import batch_inputs, set_dtype_policy

# Flags in which the trials of a sweep may differ.
_OF_NO_TRIAL = re.compile(f"{arguments.NOT_OF_TRAINING.pattern}|num_seeds")


def start(args: Arguments) -> Run:
  """Starts a run.

  Raises ValueError if it does not train and --init_checkpoint has no head.
  """
  run = Run(args, encoder.config(args))
  path = encoder.checkpoint(args)
  if path and path == args.init_checkpoint and not args.do_train:
    run_folder.check_head(path)
  if not path:
    logging.warning("no --init_checkpoint: all variables start at random")
  return run


def train(
  run: Run,
  model,
  objective,
  source: RecordDataset,
  *,
  num_examples: int,
  packed: Callable[[keras.Model], keras.Model] | None = None,
  not_packed: Iterable[str] = (),
  unit: str = "examples",
  evaluate: Callable[[int], Mapping[str, float]],
  metric: str,
  served_model: Callable[[Arguments], ServedModel],
) -> None:
  """Fine-tunes a model for --num_train_epochs, in the strategy's scope.

  An epoch has `num_examples`, ValueError if one step needs more. `unit` names
  rows in the log. If they are packed, `packed` makes the model to train; for
  `not_packed` see training_program.packing_conflict. The best checkpoint has
  the largest `metric` of `evaluate(step)`. `served_model` makes --teacher's.
  """
  args = run.args
  steps = _num_steps(args, num_examples)
  if packed:
    packs = packs_examples(args, run.config, not_packed)
    source = source.with_packing(args.train_batch_size, packs)
  optimization.freeze(model, shared_flags.frozen_layers(args, run.config))
  best_checkpoint, evaluated = None, report.last_evaluation(args.output_dir)
  if run_record.keeps_best(args.to_dict()):
    patience = args.early_stopping_patience * args.eval_steps
    best_checkpoint = BestCheckpoint(args.output_dir, metric, patience)
    if best_checkpoint.is_final:
      logging.info("nothing to train: early stopping has ended this run")
      return
    evaluated = best_checkpoint.evaluated

  def evaluate_and_save_best(step):
    results = evaluate(step)
    if not best_checkpoint:
      return False
    best_checkpoint.update(step, results, model)
    return best_checkpoint.is_final

  step = run.train(
    model,
    _distilled(args, objective, model, served_model),
    source,
    num_train_steps=steps,
    num_warmup_steps=int(steps * args.warmup_proportion),
    packed=packed,
    new_head=args.new_head,
    unit=unit,
    evaluate=evaluate_and_save_best,
    evaluated=evaluated,
  )
  if best_checkpoint:
    if not best_checkpoint.is_final and best_checkpoint.evaluated < step:
      with run.averaged_weights():
        evaluate_and_save_best(step)
    Checkpoints(run_folder.best_folder(args.output_dir)).log_all()


def _distilled(args, objective, model, build):
  """Objective that follows --teacher, too; the same one without a teacher."""
  if not (args.teacher and args.distill_weight):
    return objective
  entry = run_record.read(args.teacher)[-1]
  teacher = restore(args.teacher, entry, build, {}).model
  ranks = {name: len(value.shape) for name, value in model.output.items()}
  expected, actual = (
    {name: m.output[name].shape[rank - 1] for name, rank in ranks.items()}
    for m in (teacher, model)
  )
  if expected != actual:
    raise UserError(
      f"--teacher={args.teacher} has outputs of the sizes {expected}, this "
      f"model {actual}: train both with the same labels"
    )

  def outputs(batch):
    with tracing.mode(gradients=False):
      values = teacher(batch_inputs(teacher, batch), training=False)
    for name, rank in ranks.items():
      if values[name].shape.rank > rank:  # of spans, each member's logits
        values[name] = tf.reduce_mean(values[name], -1)
    return values

  return losses.distilled(
    objective, outputs, args.distill_weight, args.distill_temperature
  )


def restore(
  folder: str,
  entry: Mapping,
  build: Callable[[Arguments], ServedModel],
  changes: Mapping,
) -> ServedModel:
  """Restores the model that --do_export would export; see tasks.restore.

  `entry` is of the folder's run.json, `build` makes the model from flags.
  """
  args = arguments.from_record(folder, entry, changes)
  vocab_size = BertConfig.from_json(args.bert_config_file).vocab_size
  encoder.check_vocabulary(args, vocab_size, encoder.checkpoint(args))
  before = keras.config.dtype_policy()
  set_dtype_policy(args.dtype, is_trained=False)
  try:
    result = build(args)
  finally:
    keras.config.set_dtype_policy(before)
  load(args, result.model, Checkpoints(folder))
  return result


def _num_steps(args, num_examples):
  epochs, batch_size = args.num_train_epochs, args.train_batch_size
  steps = int(num_examples / batch_size * epochs)
  at_most = training_program.max_examples(args)
  are_all = at_most is None or num_examples < at_most
  if not steps and are_all:
    raise UserError(
      f"{number_of(num_examples, 'example')} x --num_train_epochs={epochs:g} "
      f"make no step of --train_batch_size={batch_size}: lower it, or raise "
      "--num_train_epochs"
    )
  if args.dry_run:
    return training_program.DRY_RUN_STEPS
  logging.info(
    "%s, %s", number_of(num_examples, "example"), number_of(steps, "step")
  )
  return steps


def packs_examples(
  args: Arguments, config: BertConfig, not_packed: Iterable[str] = ()
) -> bool | None:
  """--pack_examples; without the flag False if it is impossible, else None."""
  if args.pack_examples is not None:
    return args.pack_examples
  conflict = training_program.packing_conflict(args, config, not_packed)
  return False if conflict or needs_static_shapes(args) else None


def run_sweep(args: Arguments) -> Arguments:
  """Trains with each setting and seed that has no row in sweep.tsv.

  Copies the best trial's checkpoint to the folder `best`. Of several workers
  the chief reads and writes. Call it before this process uses a device, which
  the trials need. Returns the flags to go on with, the first setting's: what is
  left is to evaluate, predict and export the model in the folder `best`. Raises
  ChildProcessError if a trial failed.
  """
  settings = arguments.settings_of_sweep(args)
  first = 1 if args.seed is None else args.seed
  rows = run_record.read_sweep(args.output_dir)
  trials: dict[str, dict] = {row["run"]: row for row in rows}
  for setting, seed in product(settings, range(first, first + args.num_seeds)):
    name = f"{_name(args, setting)}_seed_{seed}"
    folder = os.path.join(args.output_dir, name)
    if name in trials:
      logging.info("%s is complete already", name)
      arguments.warn_if_changed(args.replace(**setting), folder, _OF_NO_TRIAL)
      continue
    _run_trial(args, folder, setting, seed)
    if processes.is_chief():
      best = run_folder.read_best(folder)
      rate = setting["learning_rate"]
      trials[name] = {"run": name, "learning_rate": rate, "seed": seed}
      trials[name] |= {key: best[key] for key in ("step", "metric", "value")}
      table = [trials[name], *(trial.values() for trial in trials.values())]
      text = "".join("\t".join(map(str, row)) + "\n" for row in table)
      files.write_text(os.path.join(args.output_dir, run_record.SWEEP), text)
  if processes.is_chief():
    arguments.save_command(args, first)
    _log_trials(trials.values())
    [folder] = run_record.best_trials(args.output_dir, 1)
    best = trials[os.path.basename(folder)]
    value = float(best["value"])
    logging.info("the best is %s: %s %.4f", best["run"], best["metric"], value)
    _copy_labels(folder, args.output_dir)
    _copy_best(folder, args.output_dir)
    run_record.copy_last_entry(args.output_dir, folder, ensemble=args.ensemble)
  # Several workers need a seed, also to evaluate.
  changes = {"do_train": False, "keep_best": True, "seed": first}
  return args.replace(**settings[0] | changes)


def _name(args, setting):
  """Name of a setting: its rate, and of other flags those with several."""
  name = f"rate_{setting['learning_rate']:g}"
  shorts = {"train_batch_size": "batch", "num_train_epochs": "epochs"}
  for flag, short in shorts.items():
    if isinstance(args[flag], tuple):
      name += f"_{short}_{setting[flag]:g}"
  return name


def _run_trial(args, folder, setting, seed):
  """Runs the same command with the flags of a trial."""
  if processes.is_chief():
    _copy_labels(args.output_dir, folder)
  # Only the best trial evaluates, predicts and exports.
  later = args.set_flags.intersection(training_program.STAGES) - {"do_train"}
  flags = [f"--output_dir={folder}"]
  flags += [f"--{flag}={value}" for flag, value in setting.items()]
  flags += [f"--seed={seed}", "--num_seeds=1", "--ensemble=1", "--keep_best"]
  flags += [f"--no{flag}" for flag in sorted(later)]
  training_program.rerun(args, os.path.basename(folder), flags)


def _log_trials(trials):
  by_setting = {}
  for trial in trials:
    value = float(trial["value"])
    logging.info("  %s: %s %.4f", trial["run"], trial["metric"], value)
    setting, _, _ = trial["run"].rpartition("_seed_")
    by_setting.setdefault(setting, []).append(value)
  for setting, values in by_setting.items():
    if len(values) > 1 and all(map(math.isfinite, values)):
      mean, spread = statistics.mean(values), statistics.stdev(values)
      numbers = f"{mean:.4f} ± {spread:.4f}, {len(values)} seeds"
      logging.info("  %s: %s", setting, numbers)


def _copy_labels(source, target):
  """Copies labels.txt, if any; ValueError if the target has another order."""
  if not labels.exist(source):
    return
  known = labels.load(source)
  labels.save_if_missing(known, target)
  if labels.load(target) != known:
    raise UserError(
      f"{source} and {target} have other labels in {labels.FILE_NAME}, or "
      "another order of them: take a new --output_dir"
    )


def _copy_best(source, target):
  for name in labels.THRESHOLD_FILES:
    path = os.path.join(source, name)
    if files.exists(path):
      tf.io.gfile.copy(path, os.path.join(target, name), True)
  source, target = map(run_folder.best_folder, (source, target))
  files.remove_folder(target)  # of a sweep with fewer trials
  tf.io.gfile.makedirs(target)
  for name in files.list_folder(source):
    tf.io.gfile.copy(os.path.join(source, name), os.path.join(target, name))
