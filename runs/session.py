"""Training, checkpoints, export and devices of one run."""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Generic, TypeVar

import keras
import tensorflow as tf
from absl import logging

from cli import start_up
from data.records import TrainingRecords
from modeling import models, tracing
from modeling.config import BertConfig
from modeling.losses import Objective
from modeling.tracing import DropoutSeeds
from runs import checks, contradictions, record, sweep_table
from runs.settings import Devices, Training
from runs.task_settings import FineTuning, LongText
from serving import export as exports
from serving.export import ServedModel
from serving.formats import FORMATS
from storage import UserError, record_scan
from training import (
  checkpoint,
  checkpoint_files,
  loop,
  optimization,
  processes,
  report,
  run_folder,
  run_json,
)
from training.run_folder import Checkpoints
from training.step import (
  LossScale,
  TrainStep,
  set_dtype_policy,
)

T_co = TypeVar("T_co", bound=Training, covariant=True)


class Run(Generic[T_co]):
  """One start of a training program.

  Sets the dtype policy and the random seed before you build models. `config`
  describes the encoder; `seed` determines initial values, data order and
  dropout.
  """

  def __init__(self, settings: T_co, config: BertConfig):
    self.strategy = make_strategy(settings)
    set_dtype_policy(settings.dtype)
    one_hot = config.use_one_hot_embeddings or settings.on_tpu
    self.config = replace(config, use_one_hot_embeddings=one_hot)
    # bert_config.json may set the attention, too: run.json records the result.
    self.settings = settings.replace(attention=self.config.attention)
    self.checkpoints = Checkpoints(
      settings.output_dir, settings.keep_checkpoint_max
    )
    self.seed = self.checkpoints.restore_or_set_seed(settings.seed)
    self._training: loop.Training

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
    """Trains a model in the strategy's scope; yields the steps to evaluate.

    Resumes from the newest checkpoint, or starts from --init_checkpoint.

    Args:
      model: a model with initial values.
      objective: losses to minimize.
      source: records to train on.
      num_train_steps: step at which the learning rate reaches 0.
      num_warmup_steps: steps in which the learning rate rises.
      new_head: keep the head's initial values; ignore --init_checkpoint there.
      stop_at: step to stop at; 0 for `num_train_steps`.
      unit: name of an example in the log.
      evaluated: last step that an earlier start has evaluated.
      evaluate_last: yield the last step, too, whatever --eval_steps says.
    """
    settings = self.settings
    packs = source.packing is not None
    if packs:
      model = models.packed(model)
    schedule = optimization.WarmupLinearDecay(
      settings.learning_rate, num_train_steps, num_warmup_steps
    )
    train_step = self._train_step(model, objective, schedule, packs)
    if own := self.checkpoints.newest_readable():
      record.warn_if_changed(settings, own)
    if processes.has_others() and processes.is_chief():
      # The chief scans files without an index once. The other workers wait.
      record_scan.load_index(source.files, source.index_file)
    run_folder.wait_for_chief()
    self.checkpoints.resume(train_step, settings.init_checkpoint, new_head)
    skip = int(train_step.examples.numpy())
    self._training = loop.Training(
      train_step,
      lambda context: self._batches(source, skip, context),
      self.checkpoints,
      self._plan(stop_at or num_train_steps, evaluate_last),
      lambda: self._report(objective, source, unit),
      evaluated=evaluated,
      source=source,
    )
    compiled = needs_static_shapes(settings, packs)
    with tracing.mode(recompute=settings.recompute_layers, compiled=compiled):
      yield from self._training
    if processes.is_chief():
      self.checkpoints.log_all()

  def end_training(self) -> None:
    """Ends `train` at the step just yielded, and saves a checkpoint."""
    self._training.end()

  def _batches(self, source, skip, context):
    return source.train_batches(
      self.settings.train_batch_size,
      self.seed,
      self.settings.group_by_length,
      skip=skip,
      context=context,
    )

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

  def _report(self, objective, source, unit):
    """Makes the run's report; the chief adds an entry to run.json."""
    settings = self.settings
    names = ("loss", *objective.metric_names)
    result = report.Report(
      settings.output_dir, settings.train_batch_size, unit, names
    )
    if processes.is_chief():
      flags = settings.to_dict()
      flags |= checks.vocabulary_flags(settings, self.config.vocab_size)
      entry = run_json.make(settings.program, flags, self.seed, source.files)
      run_json.append(settings.output_dir, entry)
      record.save_command(settings, self.seed)
      result.add_text("run", json.dumps(entry, indent=1))
    return result

  def _train_step(self, model, objective, schedule, packs):
    settings = self.settings
    trained = checkpoint.trainable_variables(model)
    logging.info(
      "%s parameters, %s of them trained",
      f"{model.count_params():,}",
      f"{sum(v.shape.num_elements() for v in trained.values()):,}",
    )
    make = optimization.OPTIMIZERS[settings.optimizer]
    multipliers = optimization.layerwise_lr_multipliers(
      trained, settings.layerwise_learning_rate_decay
    )
    average = None
    if settings.ema_decay:
      average = optimization.ExponentialMovingAverage(
        trained, settings.ema_decay
      )
    return TrainStep(
      model,
      objective,
      make(trained, beta_2=settings.adam_beta_2, lr_multipliers=multipliers),
      schedule,
      batch_size=settings.train_batch_size,
      seed=self.seed,
      dropout_seeds=DropoutSeeds,
      max_grad_norm=settings.max_grad_norm,
      accumulation_steps=settings.gradient_accumulation_steps,
      loss_scale=LossScale() if settings.dtype == "float16" else None,
      average=average,
      # XLA cannot compile some layers, such as cuDNN's LSTM.
      jit_compile=compiles_step(settings, packs)
      and (settings.jit_compile or all(x.supports_jit for x in model.layers)),
    )

  def load(self, model: keras.Model) -> int:
    """Restores a model; see `load`."""
    if not checkpoint_files.choose_checkpoint(self.settings.output_dir):
      record.save_command(self.settings, self.seed)  # a run without training
    return load(self.settings, model, self.checkpoints)

  def export(self, build: Callable[[T_co], ServedModel]) -> None:
    """Exports what `build` makes, on the chief; other workers wait."""
    settings = self.settings
    if processes.is_chief():
      set_export_policy(settings.dtype, settings.export_format)
      served = build(settings)
      self.load(served.model)
      folder = settings.needed("export_dir")
      exports.save(folder, served, settings.export_format)
    with self.strategy.scope():
      run_folder.wait_for_chief()


def load(
  settings: Training, model: keras.Model, checkpoints: Checkpoints
) -> int:
  """Restores a model to evaluate, predict or export; returns its step.

  Loads the first that exists: 1. the best checkpoint, if this run or the last
  training has --keep_best; 2. the newest of `checkpoints`;
  3. --init_checkpoint. An ensemble loads the best checkpoints of a sweep's best
  trials. Raises ValueError without a checkpoint, or for another model.
  """
  if isinstance(model, models.Ensemble):
    folders = sweep_table.best_trials(settings.output_dir, len(model.members))
    names = ", ".join(map(os.path.basename, folders))
    logging.info("an ensemble of %d models: %s", len(folders), names)
    steps = [
      Checkpoints(run_folder.best_folder(folder)).load(member, None)
      for member, folder in zip(model.members, folders, strict=True)
    ]
    return steps[0]
  keeps_best = isinstance(settings, FineTuning) and settings.keeps_best
  prefix = checkpoint_files.choose_checkpoint(settings.output_dir, keeps_best)
  best = run_folder.best_folder(settings.output_dir)
  if prefix and os.path.dirname(prefix) == best:
    checkpoints = Checkpoints(best)
  return checkpoints.load(model, settings.init_checkpoint)


def text_windows(settings: LongText) -> models.Windows | None:
  """Windows of texts with --long_text=windows, otherwise None."""
  if settings.long_text != "windows":
    return None
  return models.Windows(
    settings.max_seq_length, settings.stride, settings.window_pooling
  )


def set_export_policy(dtype: str, formats: Sequence[str]) -> None:
  """Sets the policy of --dtype; trainable formats keep variables in float32."""
  set_dtype_policy(dtype, any(FORMATS[n].is_trainable for n in formats))


# --- Devices ----------------------------------------------------------------


def make_strategy(settings: Devices) -> tf.distribute.Strategy:
  """Makes the strategy of --distribution_strategy and the TPU flags.

  Default: mirrored with several GPUs, otherwise one device. Call this function
  before TensorFlow uses a device: workers connect first, and logical CPU
  devices are fixed then. Raises ValueError for contradictions or a missing TPU.
  """
  contradictions.check_devices(settings)
  start_up.silence_xla()
  tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0],
    [tf.config.LogicalDeviceConfiguration()] * settings.num_cpu_devices,
  )
  name = "tpu" if settings.use_tpu else settings.distribution_strategy
  if name is None:
    gpus = tf.config.list_logical_devices("GPU")
    name = "mirrored" if len(gpus) > 1 else "one_device"
  strategy = _strategy(name, settings)
  replicas = strategy.num_replicas_in_sync
  types = sorted({d.device_type for d in tf.config.list_logical_devices()})
  host = ", ".join(types)
  logging.info(
    "strategy %s: %d replica(s); this host has %s", name, replicas, host
  )
  return strategy


def compiles_step(settings: Training, packs: bool | None) -> bool:
  """Value of --jit_compile; by default True on a GPU for batches of one shape.

  With `packs`, rows of several examples differ in length.
  """
  if settings.jit_compile is not None:
    return settings.jit_compile
  varies = settings.group_by_length or packs
  return not varies and bool(tf.config.get_visible_devices("GPU"))


def needs_static_shapes(settings: Training, packs: bool | None = False) -> bool:
  """True if batches must have one length, because XLA compiles each length."""
  return settings.on_tpu or compiles_step(settings, packs)


def _strategy(name: str, settings: Devices):
  if name == "one_device":
    return tf.distribute.get_strategy()
  if name == "mirrored":
    devices = tf.config.list_logical_devices("GPU")
    devices = devices or tf.config.list_logical_devices("CPU")
    return tf.distribute.MirroredStrategy([device.name for device in devices])
  if name == "multi_worker_mirrored":
    if "TF_CONFIG" not in os.environ:
      raise UserError(
        "--distribution_strategy=multi_worker_mirrored needs the environment "
        "variable TF_CONFIG, with all workers and the index of this one"
      )
    # No timeout: each collective would leave a thread that sleeps that long.
    # A missing heartbeat reveals a lost worker.
    return tf.distribute.MultiWorkerMirroredStrategy()
  return _tpu(settings)


def _tpu(settings: Devices):
  name = "tpu_name" if settings.tpu_name or not settings.master else "master"
  try:
    resolver = tf.distribute.cluster_resolver.TPUClusterResolver(
      tpu=settings[name] or "local",
      zone=settings.tpu_zone,
      project=settings.gcp_project,
    )
    if resolver.master():
      tf.config.experimental_connect_to_cluster(resolver)
    tf.tpu.experimental.initialize_tpu_system(resolver)
  except (ValueError, OSError, tf.errors.OpError) as error:
    raise UserError(
      f"no TPU can be reached with --{name}={settings[name]}: {error}"
    ) from None
  return tf.distribute.TPUStrategy(resolver)
