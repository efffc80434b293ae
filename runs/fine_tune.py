"""Fine-tuning of any task: sweep, train, evaluate, predict, export."""

import hashlib
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, TypeVar

import keras
import tensorflow as tf
from absl import logging

from data import labels
from data.records import RecordDataset
from modeling import losses, models
from modeling.config import BertConfig
from modeling.losses import Objective
from runs import checks, model_files, training_program
from runs.devices import compiles_step
from runs.session import Run, restore, write_page
from runs.settings import DRY_RUN_STEPS, Packing
from runs.task_settings import FineTuning
from serving import run_page
from serving.export import ServedModel
from serving.run_page import Evaluation
from storage import UserError, number_of, processes
from training import checkpoint_files, report, run_folder
from training.run_folder import BestCheckpoint

S = TypeVar("S", bound=FineTuning)
Data = Mapping[str, RecordDataset]  # by split


@dataclass(frozen=True)
class Task(ABC, Generic[S]):
  """A task, the settings of the run, and the examples that the run reads.

  `examples` has examples by split: "train", "dev", "test", or a variant such as
  "dev_mismatched". `labels` are the labels of the user's data in the order of
  labels.txt, or () if the task itself defines the labels.
  """

  settings: S
  examples: Mapping[str, Sequence[Any]]
  labels: Sequence[str] = ()

  unit: ClassVar[str] = "examples"  # name of a record in the log
  predicted: ClassVar[str] = "test"  # split of --do_predict
  has_table: ClassVar[bool] = False  # the task writes eval_predictions.tsv

  @property
  @abstractmethod
  def metric(self) -> str:
    """Name of the score that ranks models. A larger score is better."""

  def records_file(self, split: str) -> str:
    """Path of a split's records: eval.tf_record for dev, as in the original."""
    names = {"train": "train", "dev": "eval", "test": "predict"}
    kind = split.partition("_")[0]
    file = f"{split.replace(kind, names[kind], 1)}.tf_record"
    return os.path.join(self.settings.output_dir, file)

  @abstractmethod
  def convert(self, split: str) -> RecordDataset:
    """Writes and returns the records of a split."""

  def num_examples(self, records: RecordDataset) -> int:
    """Number of examples in an epoch of training."""
    return len(records.rows)

  @abstractmethod
  def make_model(self, config: BertConfig) -> keras.Model:
    """Makes the model, with initial values."""

  @abstractmethod
  def objective(self) -> Objective:
    """Losses of the training."""

  def is_best(self, score: float) -> bool:
    """True unless --keep_best has a checkpoint that scored as well in training.

    Thresholds that an evaluation finds belong to the best checkpoint, too.
    """
    settings = self.settings
    best = checkpoint_files.read_best(settings.output_dir)
    is_first = not (best and settings.keeps_best and settings.do_train)
    return is_first or score > best["value"]

  def is_evaluated(self) -> bool:
    """False if a training ended before its last evaluation set thresholds."""
    return True

  @abstractmethod
  def evaluate(
    self, model: keras.Model, records: RecordDataset
  ) -> Mapping[str, float]:
    """Scores a dev set; the result may be an Evaluation, for run.html."""

  @abstractmethod
  def predict(
    self, model: keras.Model, split: str, records: RecordDataset, step: int
  ) -> Evaluation | None:
    """Writes predictions for a split; `step` is the model's training step.

    Returns an Evaluation, with examples for run.html, or None.
    """

  @staticmethod
  @abstractmethod
  def served_model(settings: Any) -> ServedModel:
    """Makes the untrained model for `settings`, and its Answers."""


def fine_tune(task: Task[S]) -> None:
  """Sweeps, trains, evaluates, predicts and exports, as the settings ask.

  All workers evaluate, because scores may end the training. Only the chief
  worker predicts and writes results. The other workers wait.
  """
  if task.settings.is_sweep:
    mark = _fingerprint(task.examples, "train", "dev")
    swept = training_program.run_sweep(task.settings, mark)
    task = replace(task, settings=swept)
  settings = task.settings
  run = Run(settings, model_files.config(settings))
  data = {
    split: task.convert(split)
    for split in task.examples
    if split.partition("_")[0] in settings.splits_to_read
  }
  with run.scope():
    model = task.make_model(run.config)
    if settings.do_train:
      has_trained = train(run, task, model, data)
      if not has_trained and task.is_evaluated():
        # Saved thresholds stay: the user may have edited them.
        task = replace(task, settings=settings.replace(do_train=False))
    if settings.do_eval or settings.do_predict:
      step = run.load(model)
    if settings.do_eval:
      evaluate(task, model, data, step, is_last=True)
    if settings.do_predict and processes.is_chief():
      for split, records in data.items():
        if split.startswith(task.predicted):
          evaluation = task.predict(model, split, records, step)
          if evaluation and not settings.do_eval:
            _write_page(task, evaluation, split, data, step)
    run_folder.wait_for_chief()
  if settings.do_export:
    run.export(task.served_model)


def _fingerprint(examples, *splits):
  """Returns 12 hex digits, which change if an example of a split changes."""
  digest = hashlib.sha256()
  for split in splits:
    for example in (split, *examples.get(split, ())):
      digest.update(repr(example).encode(errors="surrogatepass"))
  return digest.hexdigest()[:12]


def train(run: Run[S], task: Task[S], model: keras.Model, data: Data) -> bool:
  """Fine-tunes a model for --num_train_epochs, in the strategy's scope.

  With --keep_best, saves the best checkpoint. Returns False if an earlier start
  has trained all steps. Raises ValueError for too few examples.
  """
  settings, source = run.settings, data["train"]
  steps = _num_steps(settings, task.num_examples(source))
  # Without a training, the next command may evaluate another model.
  if task.labels and not labels.exist(settings.output_dir):
    labels.save(task.labels, settings.output_dir)
  if isinstance(settings, Packing):
    packs = packs_examples(settings, run.config)
    source = source.with_packing(settings.train_batch_size, packs)
  models.freeze(model, settings.frozen_layers(run.config))
  best, evaluated = None, report.last_evaluation(settings.output_dir)
  if settings.keeps_best:
    patience = settings.early_stopping_patience * settings.eval_steps
    mark = _fingerprint(task.examples, "dev")
    best = BestCheckpoint(settings.output_dir, task.metric, patience, mark)
    if best.is_outdated:
      step = run.load(model)
      best.update(step, task.evaluate(model, data["dev"]), model)
    if best.is_final:
      model_files.warn_if_changed(settings, settings.output_dir)
      logging.info("nothing to train: early stopping has ended this run")
      return False
    evaluated = best.evaluated
  objective = task.objective()
  if settings.teacher and settings.distill_weight:
    objective = distilled(settings, objective, model, task.served_model)
  for step in run.train(
    model,
    objective,
    source,
    num_train_steps=steps,
    num_warmup_steps=int(steps * settings.warmup_proportion),
    new_head=settings.new_head,
    unit=task.unit,
    evaluated=evaluated,
    evaluate_last=settings.keeps_best,
  ):
    scores = evaluate(task, model, data, step)
    if best:
      best.update(step, scores, model)
      if best.is_final:
        run.training.end()
  return run.training.has_trained


def evaluate(
  task: Task[S],
  model: keras.Model,
  data: Data,
  step: int,
  is_last: bool = False,
) -> Mapping[str, float]:
  """Writes eval_results.txt of each dev set; returns the scores of "dev".

  With `is_last`, also writes eval_predictions.tsv and run.html.
  """
  results = {}
  for split, records in data.items():
    if split.startswith("dev"):
      logging.info("evaluation on %s at step %d", split, step)
      results[split] = task.evaluate(model, records)
      suffix = split.removeprefix("dev")
      folder = task.settings.output_dir
      report.write_evaluation(folder, results[split], step, suffix)
      if is_last and isinstance(results[split], Evaluation):
        _write_page(task, results[split], split, data, step)
  return results["dev"]


def _write_page(task, evaluation, split, data, step):
  """Writes eval_predictions.tsv of a dev set, and run.html of "dev"."""
  settings = task.settings
  if settings.dry_run or not processes.is_chief():
    return
  if not (judged := [*evaluation.judged]):
    return
  folder, suffix = settings.output_dir, split.removeprefix("dev")
  if not task.has_table:
    path = os.path.join(folder, f"eval_predictions{suffix}.tsv")
    run_page.write_table(path, judged)
  if not suffix:
    counts = {name: len(task.examples[name]) for name in data}
    write_page(settings, step, counts, judged)


def _num_steps(settings: FineTuning, num_examples: int) -> int:
  if settings.dry_run:
    return DRY_RUN_STEPS
  epochs, batch_size = settings.num_train_epochs, settings.train_batch_size
  steps = int(num_examples / batch_size * epochs)
  if not steps:
    raise UserError(
      f"{number_of(num_examples, 'example')} x --num_train_epochs={epochs:g} "
      f"make no step of --train_batch_size={batch_size}: lower it, or raise "
      "--num_train_epochs"
    )
  counts = number_of(num_examples, "example"), number_of(steps, "step")
  logging.info("%s, %s", *counts)
  return steps


def packs_examples(settings: Packing, config: BertConfig) -> bool | None:
  """Value of --pack_examples; None lets batching.plan decide.

  Without the flag: False if packing cannot work or XLA compiles, else None.
  """
  if settings.pack_examples is not None:
    return settings.pack_examples
  conflict = checks.packing_conflict(settings, config)
  return False if conflict or compiles_step(settings) else None


def distilled(
  settings: S,
  objective: Objective,
  model: keras.Model,
  build: Callable[[S], ServedModel],
) -> Objective:
  """Adds a loss for --teacher to an objective; `build` makes the teacher."""
  folder = settings.needed("teacher")
  entry = checkpoint_files.read_runs(folder)[-1]
  teacher = restore(type(settings), folder, entry, build, {}).model

  def outputs(batch):
    inputs = {name: batch[name] for name in teacher.input}
    values = teacher(inputs, training=False)
    for name, value in model.output.items():
      if values[name].shape.rank > len(value.shape):
        # A span ensemble stacks logits.
        values[name] = tf.reduce_mean(values[name], -1)
    return values

  options = settings.distill_weight, settings.distill_temperature
  return losses.distilled(objective, outputs, *options)
