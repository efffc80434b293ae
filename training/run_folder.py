"""Checkpoints in the output folder of a run, and the best checkpoint.

The text file `checkpoint` names the newest checkpoint, then all kept ones, as
in the original. The folder `best` holds the best checkpoint by a metric.
"""

import itertools
import json
import math
import os
import random
import zlib
from collections.abc import Iterable, Mapping

import keras
import numpy as np
import tensorflow as tf
from absl import logging

from storage import UserError, files, processes, setting
from training import checkpoint, checkpoint_files


class Checkpoints:
  """The `keep` newest checkpoints in an output folder; 0 keeps all."""

  def __init__(self, directory: str, keep: int = 5):
    self.directory = directory
    self.keep = keep
    self._readable: dict[str, str] = {}  # newest prefix -> newest readable

  def newest_readable(self) -> str | None:
    """Prefix of the newest readable checkpoint; None without checkpoints.

    Reads all values. Raises CorruptCheckpoint if no checkpoint can be read.
    """
    prefixes = checkpoint_files.all_checkpoints(self.directory)
    if not prefixes:
      return None
    newest = prefixes[-1]
    if newest in self._readable:
      return self._readable[newest]
    for prefix in reversed(prefixes):
      try:
        checkpoint.Reader(prefix).verify()
      except checkpoint.CorruptCheckpoint as error:
        logging.warning("%s", error)
        continue
      self._readable[newest] = prefix
      return prefix
    raise checkpoint.CorruptCheckpoint(
      f"no checkpoint in {self.directory} can be read, the newest is {newest}: "
      "restore it from a backup, or remove all of them to start again"
    )

  def restore_or_set_seed(self, seed: int | None) -> int:
    """Seeds Keras and TensorFlow by the saved seed or `seed`; returns the seed.

    If both are missing, draws a seed, or raises ValueError for several workers.
    """
    prefix = self.newest_readable()
    reader = checkpoint.Reader(prefix) if prefix else None
    if reader and "run/seed" in reader.shapes:
      given, seed = seed, int(reader["run/seed"])
      if given not in (None, seed):
        logging.warning("%s has no effect on a resume", setting("seed", given))
    elif seed is None:
      if processes.has_others():
        raise UserError(f"several workers need the same {setting('seed')}")
      seed = random.SystemRandom().getrandbits(31)
    logging.info("seed %d", seed)
    keras.utils.set_random_seed(seed)
    return seed

  def resume(
    self, train_step, init_checkpoint: str | None, new_head: bool = False
  ) -> None:
    """Restores the newest readable checkpoint, or begins at init_checkpoint.

    Raises ValueError if this checkpoint lacks a variable of the model.
    Other missing values, such as slots, stay as they are.
    """
    prefix = self.newest_readable()
    if prefix is None:
      if init_checkpoint:
        checkpoint.initialize(train_step.model, init_checkpoint, new_head)
      if train_step.average:
        train_step.average.restart()
      return
    state = train_step.state
    reader = checkpoint.Reader(prefix)
    missing = [name for name in state if name not in reader.shapes]
    for name in checkpoint.variables(train_step.model):
      if name in missing:
        raise UserError(
          f"{prefix} is of another model: it has no {name}. Choose another "
          f"{setting('output_dir')}, or the settings of its run"
        )
    if missing:
      logging.warning("%s has no %s", prefix, ", ".join(missing[:4]))
    reader.assign({k: v for k, v in state.items() if k not in missing})
    average = train_step.average
    if average and not average.state.keys() <= reader.shapes.keys():
      average.restart()
    if "run/examples" in missing:  # written by the original
      train_step.examples.assign(train_step.step * train_step.batch_size)
    logging.info("resuming from %s", prefix)

  def load(self, model, init_checkpoint: str | None) -> int:
    """Restores a model from the newest checkpoint or init_checkpoint.

    Like `restore_trained`. Raises ValueError if no checkpoint fits the model.
    """
    wait_for_chief()
    path = self.newest_readable() or init_checkpoint
    if not path:
      raise UserError(
        f"no checkpoint in {setting('output_dir', self.directory)} and no "
        f"{setting('init_checkpoint')}: train first, or name one"
      )
    return restore_trained(model, path)

  def save(self, step: int, values: Mapping[str, tf.Variable]) -> str:
    """Writes `model.ckpt-<step>` if this is the chief; returns the prefix."""
    prefix = os.path.join(self.directory, f"model.ckpt-{step}")
    if not processes.is_chief():
      return prefix
    checkpoint.write(prefix, values)
    # Adds the prefix to the file `checkpoint`, and deletes old checkpoints.
    prefixes = checkpoint_files.all_checkpoints(self.directory)
    prefixes = [path for path in prefixes if path != prefix] + [prefix]
    saved = prefixes[-self.keep :]
    names = [os.path.basename(path) for path in saved]
    lines = [f'model_checkpoint_path: "{names[-1]}"\n']
    lines += [f'all_model_checkpoint_paths: "{name}"\n' for name in names]
    files.write_text(os.path.join(self.directory, "checkpoint"), "".join(lines))
    for path in prefixes:
      if path not in saved:
        for file in checkpoint.files_of(path):
          files.remove(file)
    self._readable[prefix] = prefix
    return prefix


def restore_trained(model, path: str) -> int:
  """Restores a model from a checkpoint; returns the number of its updates.

  Restores the moving averages of variables that have one. Raises ValueError if
  the checkpoint lacks a variable.
  """
  if fresh := checkpoint.restore(model, path):
    raise UserError(
      f"{path} has no {fresh[0]}, so it is another model, or not trained: "
      f"name the {setting('output_dir')} of a training with these settings"
    )
  reader, targets = checkpoint.open_reader(path), checkpoint.variables(model)
  averages = {k + checkpoint.AVERAGE: v for k, v in targets.items()}
  reader.assign({k: v for k, v in averages.items() if k in reader.shapes})
  return int(reader["global_step"]) if "global_step" in reader.shapes else 0


def wait_for_chief() -> None:
  """Waits until all workers call this, so that the chief's files are there.

  Call this function in a strategy's scope.
  """
  if processes.has_others():
    strategy = tf.distribute.get_strategy()
    sum_over_replicas(strategy, tf.constant(1.0)).numpy()


def check_workers(values: Mapping[str, object]) -> None:
  """Raises ValueError if workers have different values of one name.

  Call this function in a strategy's scope. Sums of 12 bits are exact.
  """
  strategy = tf.distribute.get_strategy()
  marks = [zlib.crc32(repr(v).encode()) % 2**12 for v in values.values()]
  own = np.array(marks, np.float32)
  sums = sum_over_replicas(strategy, tf.constant(own)).numpy()
  is_other = sums != own * strategy.num_replicas_in_sync
  if different := [*itertools.compress(values, is_other)]:
    raise UserError(
      f"the workers differ in {', '.join(different)}: start all with the same "
      f"command and the same {setting('output_dir')}, on a disk that they share"
    )


def check_loaded(values: Iterable) -> None:
  """Raises ValueError if workers have loaded different values of variables."""
  if processes.has_others():
    tensors = map(tf.convert_to_tensor, values)
    marks = [zlib.crc32(tensor.numpy().tobytes()) for tensor in tensors]
    check_workers({"the checkpoint": marks})


@tf.function(autograph=False)
def sum_over_replicas(strategy, values: tf.Tensor) -> tf.Tensor:
  """Sums values over the strategy's replicas, which are on all workers."""
  return strategy.reduce("SUM", strategy.run(lambda: values), axis=None)


class BestCheckpoint:
  """Saves the best model of a run: a checkpoint without slots, and best.json.

  A higher `metric` is better, and NaN is worst. Training ends after `patience`
  steps without improvement; 0 is no limit. A resumed run reads best.json. If
  `mark`, a fingerprint of the dev set, has changed, the record `is_outdated`:
  the first model to update it should be the old best one.
  """

  def __init__(
    self, output_dir: str, metric: str, patience: int = 0, mark: str = ""
  ):
    self.metric = metric
    self.patience = patience
    folder = os.path.join(output_dir, checkpoint_files.BEST)
    self._checkpoints = Checkpoints(folder, keep=1)
    self._record = checkpoint_files.read_best(output_dir)
    self._mark = mark
    self.is_outdated = self._record.get("dev", mark) != mark
    if self.is_outdated:
      text = "%s was chosen by other dev examples: evaluating it first"
      logging.warning(text, folder)
      self._record["value"] = -math.inf
      self._write()  # a task may read it while it evaluates

  @property
  def evaluated(self) -> int:
    """Step of the last evaluation, 0 if there was none."""
    return self._record.get("evaluated", 0)

  @property
  def is_final(self) -> bool:
    """True once the metric has not improved for `patience` steps."""
    waited = self.evaluated - self._record.get("step", self.evaluated)
    return bool(self.patience) and waited >= self.patience

  def update(self, step: int, results: Mapping[str, float], model) -> None:
    """Saves the Keras model of `step` if `results` are the best so far."""
    value = float(results[self.metric])
    value = -math.inf if math.isnan(value) else value
    if not self._record or value > self._record["value"]:
      values = checkpoint.variables(model)
      values["global_step"] = tf.constant(step, tf.int64)
      self._checkpoints.save(step, values)
      self._record = {"metric": self.metric, "value": value, "step": step}
    self._record |= {"evaluated": step, "dev": self._mark}
    self._write()
    logging.info("best %(metric)s: %(value).4f at step %(step)d", self._record)

  def _write(self):
    if processes.is_chief():
      folder = self._checkpoints.directory
      path = os.path.join(folder, checkpoint_files.BEST_RECORD)
      files.write_text(path, json.dumps(self._record, indent=1) + "\n")
