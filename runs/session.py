"""One run: devices, training, checkpoints, export; restores trained models."""

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Generic, TypeVar

import keras
import tensorflow as tf
from absl import logging

from cli import program
from data.records import TrainingRecords
from modeling import models, tracing
from modeling.config import BertConfig
from modeling.losses import Objective
from modeling.tracing import dropout_seeds
from runs import checks, model_files, trained_model
from runs.devices import compiles_step, make_strategy, why_uncompiled
from runs.settings import ServedEncoder, Training
from runs.task_settings import FineTuning, LongText
from serving import export as exports
from serving import run_page
from serving.export import ServedModel
from serving.formats import FORMATS
from storage import files, processes, record_scan
from training import checkpoint_files, loop, optimization, report, run_folder
from training.run_folder import Checkpoints
from training.step import LossScale, TrainStep, set_dtype_policy

# Raised by TensorFlow when another worker does not answer.
_LOST_WORKER = (
  tf.errors.AbortedError,
  tf.errors.DeadlineExceededError,
  tf.errors.InternalError,
  tf.errors.UnavailableError,
)

T_co = TypeVar("T_co", bound=Training, covariant=True)
# Settings of a training program, or of extract_features.py.
S = TypeVar("S", bound=Training | ServedEncoder)


class Run(Generic[T_co]):
  """One start of a training program.

  Make the Run before its models, because it sets the dtype policy and the
  random seed. `config` describes the encoder. The attribute `seed` determines
  initial values, data order and dropout.
  """

  def __init__(self, settings: T_co, config: BertConfig):
    self.strategy = make_strategy(settings)
    set_dtype_policy(settings.dtype)
    one_hot = config.use_one_hot_embeddings or settings.on_tpu
    self.config = replace(config, use_one_hot_embeddings=one_hot)
    self.settings = settings
    keep = settings.keep_checkpoint_max
    self.checkpoints = Checkpoints(settings.output_dir, keep)
    self.seed = self.checkpoints.restore_or_set_seed(settings.seed)
    self.training: loop.Training  # set by `train`
    if processes.has_others():
      values = {"--seed": self.seed, "bert_config.json": config}
      with self.scope():
        run_folder.check_workers(model_files.shared_by(settings) | values)

  @contextmanager
  def scope(self) -> Iterator[None]:
    """Scope of the strategy; ConnectionError if a worker does not answer."""
    try:
      with self.strategy.scope():
        yield
    except _LOST_WORKER as error:
      if not processes.has_others():
        raise
      logging.error("%s", error.message)
      raise ConnectionError(
        "another worker cannot be reached any more: start all of them again; "
        "they resume from the last checkpoint"
      ) from None

  def train(
    self,
    model: keras.Model,
    objective: Objective,
    source: TrainingRecords,
    *,
    num_train_steps: int,
    num_warmup_steps: int,
    new_head: bool = False,
    stop_at: int = 0,
    unit: str = "examples",
    evaluated: int = 0,
    evaluate_last: bool = False,
  ) -> Iterator[int]:
    """Trains in the strategy's scope; yields each step after which to evaluate.

    Resumes from the newest checkpoint, or starts from --init_checkpoint. A
    start with `new_head` does not restore the head. The learning rate reaches 0
    at `num_train_steps`. The training ends at the step `stop_at`, if this is
    not 0. `unit` names an example in the log. `evaluated` is the last step that
    an earlier start has evaluated. `evaluate_last` yields the last step, too.
    """
    settings = self.settings
    model = models.packed(model) if source.packing else model
    compiled = not (reason := why_uncompiled(settings, model))
    text = f"does not compile the complete step: {reason}"
    logging.info("XLA %s", "compiles the step" if compiled else text)
    steps = num_train_steps, num_warmup_steps
    step = self._train_step(model, objective, steps, compiled)
    is_chief, data = processes.is_chief(), {}
    if is_chief:
      marks = files.in_threads(files.fingerprint, source.files)
      data = dict(zip(source.files, marks, strict=True))
    if own := self.checkpoints.newest_readable():
      model_files.warn_if_changed(settings, own, data)
    if processes.has_others() and is_chief:
      # Only the chief scans files that lack an index. The other workers wait.
      record_scan.load_index(source.files, source.index_file)
    run_folder.wait_for_chief()
    self.checkpoints.resume(step, settings.init_checkpoint, new_head)
    run_folder.check_loaded(step.state.values())
    given = settings.train_batch_size, self.seed, settings.group_by_length
    skip = int(step.examples.numpy())
    self.training = loop.Training(
      step,
      lambda context: source.train_batches(
        *given, few_shapes=compiled, skip=skip, context=context
      ),
      self.checkpoints,
      self._plan(stop_at or num_train_steps, evaluate_last),
      lambda: self._report(objective, source, unit, data),
      evaluated=evaluated,
      source=source,
    )
    with tracing.mode(recompute=settings.recompute_layers, compiled=compiled):
      yield from self.training

  def _plan(self, num_train_steps, evaluate_last):
    settings = self.settings
    return loop.Plan(
      num_train_steps,
      settings.save_checkpoints_steps,
      settings.iterations_per_loop,
      settings.eval_steps,
      evaluate_last,
      settings.output_dir,
      *(settings.profile_steps or ()),
    )

  def _report(self, objective, source, unit, data):
    """Makes the run's report; the chief worker adds an entry to run.json."""
    settings = self.settings
    names, size = ("loss", *objective.metric_names), settings.train_batch_size
    result = report.Report(settings.output_dir, size, unit, names)
    if processes.is_chief():
      size = self.config.vocab_size
      mark, changes = checks.vocabulary(settings, source.files, size)
      # bert_config.json may set the attention, too.
      changes["attention"] = self.config.attention
      entry = {
        "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "program": settings.program,
        "directory": os.getcwd(),  # for relative paths in flags
        "seed": self.seed,
        "flags": settings.to_dict() | changes,
        "versions": program.versions(),
        "commit": program.commit(),
        "data": data,  # fingerprints
        "config": self.config.to_dict(),
      }
      entry |= {"vocabulary": mark} if mark else {}
      checkpoint_files.append_run(settings.output_dir, entry)
      model_files.save_command(settings, self.seed)
      text = f"```\n{json.dumps(entry, indent=1)}\n```"
      report.summarize(settings.output_dir, {"run": text}, 0)
    return result

  def _train_step(self, model, objective, steps, compiled):
    settings = self.settings
    trained = {v.path: v.value for v in model.trainable_variables}
    numbers = [value.shape.num_elements() for value in trained.values()]
    counts = f"{model.count_params():,}", f"{sum(numbers):,}"
    logging.info("%s parameters, %s of them trained", *counts)
    make = optimization.OPTIMIZERS[settings.optimizer]
    decay = settings.layerwise_learning_rate_decay
    multipliers = models.layerwise_lr_multipliers(trained, decay)
    compiled = compiled and compiles_step(settings)  # a TPU always compiles
    return TrainStep(
      model,
      objective,
      make(
        trained,
        beta_2=settings.adam_beta_2,
        lr_multipliers=multipliers,
        joins_all=compiled,
      ),
      optimization.WarmupLinearDecay(settings.learning_rate, *steps),
      batch_size=settings.train_batch_size,
      seed=self.seed,
      dropout_seeds=dropout_seeds,
      max_grad_norm=settings.max_grad_norm,
      accumulation_steps=settings.gradient_accumulation_steps,
      loss_scale=LossScale() if settings.dtype == "float16" else None,
      average=optimization.ExponentialMovingAverage(trained, settings.ema_decay)
      if settings.ema_decay
      else None,
      jit_compile=compiled,
    )

  def load(self, model: keras.Model) -> int:
    settings = self.settings
    if not checkpoint_files.choose_checkpoint(settings.output_dir):
      model_files.save_command(settings, self.seed)  # a run without training
    step = load(settings, model, self.checkpoints)
    run_folder.check_loaded(model.weights)
    return step

  def export(self, build: Callable[[T_co], ServedModel]) -> None:
    """The chief worker exports what `build` makes; the other workers wait."""
    settings, formats = self.settings, self.settings.export_format
    if processes.is_chief():
      set_export_policy(settings.dtype, formats)
      served = build(settings)
      self.load(served.model)
      exports.save(settings.needed("export_dir"), served, formats)
    with self.scope():
      run_folder.wait_for_chief()


def load(settings: S, model: keras.Model, checkpoints: Checkpoints) -> int:
  """Restores a model to evaluate, predict or export; returns its step.

  Loads the first that exists: 1. the best checkpoint, if this run or the last
  training saves it (--keep_best, --early_stopping_patience); 2. the newest of
  `checkpoints`, else the best one; 3. --init_checkpoint. An ensemble loads the
  best checkpoints of a sweep's best trials. Raises ValueError without a
  checkpoint that fits `model`.
  """
  output_dir = checkpoints.directory
  if members := models.members(model):
    folders = model_files.best_trials(output_dir, len(members))
    names = ", ".join(map(os.path.basename, folders))
    logging.info("an ensemble of %d models: %s", len(folders), names)
    best = [os.path.join(folder, checkpoint_files.BEST) for folder in folders]
    pairs = zip(members, best, strict=True)
    steps = [Checkpoints(path).load(own, None) for own, path in pairs]
    return steps[0]
  keeps_best = isinstance(settings, FineTuning) and settings.keeps_best
  prefix = checkpoint_files.choose_checkpoint(output_dir, keeps_best)
  folder = os.path.join(output_dir, checkpoint_files.BEST)
  if prefix and os.path.dirname(prefix) == folder:
    checkpoints = Checkpoints(folder)
  return checkpoints.load(model, settings.init_checkpoint)


def restore(
  kind: type[S],
  folder: str,
  entry: Mapping,
  build: Callable[[S], ServedModel],
  changes: Mapping,
) -> ServedModel:
  """Restores the model that --do_export would export; see tasks.open.

  `entry` comes from run.json in the folder, `build` makes the model.
  """
  checkpoint_files.check_name(folder)
  settings = model_files.from_record(kind, folder, entry, changes)
  network = BertConfig.from_json(settings.bert_config_file)
  start = checkpoint_files.choose_checkpoint(folder)
  if start:
    trained_model.check_sizes(settings.bert_config_file, network, start)
  elif isinstance(settings, Training):
    checkpoint_files.check_listed(folder)
  if start := start or settings.init_checkpoint:
    model_files.check_vocabulary(settings, start)
  before = keras.config.dtype_policy()
  set_dtype_policy(settings.dtype, is_trained=False)
  try:
    result = build(settings)
  finally:
    keras.config.set_dtype_policy(before)
  load(settings, result.model, Checkpoints(folder))
  return result


def write_page(
  settings: Training,
  step: int,
  counts: Mapping[str, int] | None = None,
  judged: Sequence[run_page.Judged] = (),
) -> None:
  """Writes run.html: curves and scores of the folder, and judged examples.

  `counts` are numbers of examples by split, `judged` are examples with labels
  and predictions. Only the chief worker writes the page, and no dry run does.
  """
  folder = settings.output_dir
  if settings.dry_run or not processes.is_chief():
    return
  run = checkpoint_files.run_of(folder)
  started = run.get("started", "")[:16]
  facts = {"folder": os.path.basename(os.path.abspath(folder))}
  facts |= {"program": settings.program, "started": started.replace("T", " ")}
  facts |= {"step": f"{step:,}"}
  facts |= {name: f"{count:,}" for name, count in (counts or {}).items()}
  flags = {name: settings[name] for name in sorted(settings.given)}
  # After a sweep, `settings` has the first trial's values.
  swept = {"seed"} | {f.name for f in settings.flags.values() if f.swept}
  for name in swept & settings.given:
    flags[name] = run["flags"].get(name, flags[name])
  curves = report.read_metrics(folder)
  scores: dict[str, float] = {}
  for row in curves:  # the last evaluation counts
    scores = {k: v for k, v in row.items() if "eval_" in k} or scores
  path = run_page.write(folder, facts, flags, curves, scores, judged)
  logging.info("wrote %s: open it in a browser", path)


def text_windows(settings: LongText) -> models.Windows | None:
  """Makes the windows of --long_text=windows; None for --long_text=truncate."""
  if settings.long_text != "windows":
    return None
  checks.check_windows(settings)  # Predictor may change flags
  length, stride = settings.max_seq_length, settings.stride
  return models.Windows(length, stride, settings.window_pooling)


def set_export_policy(dtype: str, formats: Sequence[str]) -> None:
  """Sets the dtype policy; variables are float32 if a format is trainable."""
  set_dtype_policy(dtype, any(FORMATS[n].is_trainable for n in formats))
