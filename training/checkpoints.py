"""The checkpoints of one training run, in its output folder.

The folder's text file `checkpoint` names the newest and those kept, as in the
original; training/checkpoint.py says what a single one is.
"""

import os
import random
from collections.abc import Mapping

import keras
import tensorflow as tf
from absl import logging

from training import checkpoint, cluster


class Checkpoints:
  """The checkpoints of one training run, in its output folder.

  Arguments:
    directory: the folder.
    keep: how many of the newest are kept; 0 for all.
  """

  def __init__(self, directory: str, keep: int = 5):
    self.directory = directory
    self.keep = keep
    self._whole = {}  # by the newest: the newest that can be read

  def latest(self) -> str | None:
    """Prefix of the newest checkpoint, or None.

    One that cannot be read, as a failing disk leaves it, is passed over with a
    warning.

    Raises:
      Damaged: there are checkpoints, and none of them can be read.
    """
    newest = tf.train.latest_checkpoint(self.directory)
    if newest is not None and newest not in self._whole:
      self._whole[newest] = self._newest_whole(newest)
    return self._whole.get(newest)

  def _newest_whole(self, newest):
    for prefix in dict.fromkeys([newest, *reversed(self.listed())]):
      try:
        checkpoint.Reader(prefix).verify()
      except checkpoint.Damaged as error:
        logging.warning("%s", error)
        continue
      if prefix != newest:
        logging.warning("going back to %s", prefix)
      return prefix
    raise checkpoint.Damaged(
      f"no checkpoint in {self.directory} can be read, the newest is {newest}: "
      "restore it from a copy, or remove them all to begin anew"
    )

  def listed(self) -> list[str]:
    """Prefixes of those kept, oldest first."""
    state = tf.train.get_checkpoint_state(self.directory)
    return list(state.all_model_checkpoint_paths) if state else []

  def fix_seed(self, wanted: int | None) -> int:
    """Makes the run repeatable: initial values, order of data, dropout.

    Args:
      wanted: the seed to use; None draws one. A run that resumes keeps its own.

    Returns:
      The seed, which Keras and TensorFlow now have, too.

    Raises:
      ValueError: several processes would each draw one of their own.
    """
    prefix = self.latest()
    if prefix is not None and "run/seed" in (
      reader := checkpoint.Reader(prefix)
    ):
      seed = int(reader["run/seed"])
    elif wanted is None and cluster.has_others():
      raise ValueError("several workers need a --seed, the same for all")
    else:
      seed = random.SystemRandom().getrandbits(31) if wanted is None else wanted
      logging.info("seed %d", seed)
    keras.utils.set_random_seed(seed)
    return seed

  def resume(self, train_step, init_checkpoint: str | None) -> None:
    """Sets a run to where its newest checkpoint left it, if there is one.

    Variables of the model must all be in it; what else is missing (slots of a
    stripped checkpoint, what the original did not store) stays as it is.

    Args:
      train_step: a fresh step.TrainStep.
      init_checkpoint: what to start the model from otherwise, or None.

    Raises:
      ValueError: the checkpoint is of another model.
    """
    prefix = self.latest()
    if prefix is None:
      if init_checkpoint:
        checkpoint.initialize(train_step.model, init_checkpoint)
      if train_step.average:
        train_step.average.restart()
      return
    state = train_step.state
    reader = checkpoint.Reader(prefix)
    _check_complete(reader, checkpoint.variables(train_step.model))
    missing = [name for name in state if name not in reader]
    if missing:
      logging.warning("%s has no %s", prefix, ", ".join(missing[:4]))
    reader.assign({name: v for name, v in state.items() if name in reader})
    if train_step.average and not train_step.average.state.keys() <= (
      reader.shapes.keys()
    ):
      train_step.average.restart()
    if "run/examples" in missing:  # written by the original
      train_step.examples.assign(train_step.step * train_step.batch_size)
    logging.info("going on from %s", prefix)

  def load(
    self, model, init_checkpoint: str | None, averaged: bool = False
  ) -> int:
    """Gives a model the variables of the newest checkpoint.

    Args:
      model: a Keras model.
      init_checkpoint: what to take if the folder has none.
      averaged: take the moving averages of variables that have one.

    Returns:
      The number of updates that the checkpoint has seen.

    Raises:
      ValueError: there is neither, or the checkpoint is of another model.
    """
    _wait_for_chief()
    path = self.latest() or init_checkpoint
    if not path:
      raise ValueError(
        f"no checkpoint in --output_dir={self.directory} and no "
        "--init_checkpoint: train first, or name one"
      )
    reader = checkpoint.read(path)
    known = checkpoint.variables(model)
    if self.latest():
      _check_complete(reader, known)
    fresh = checkpoint.initialize(model, path)
    if averaged:
      names = {checkpoint.average_name(k): v for k, v in known.items()}
      reader.assign({k: v for k, v in names.items() if k in reader})
    if fresh:
      logging.warning("not in %s, so untrained: %s", path, ", ".join(fresh))
    return int(reader["global_step"]) if "global_step" in reader else 0

  def save(self, step: int, values: Mapping[str, tf.Variable]) -> str:
    """Writes `model.ckpt-<step>`; it appears whole or not at all.

    Of several processes only the chief does.

    Args:
      step: number of updates done.
      values: what to store, by name.

    Returns:
      Its prefix.
    """
    prefix = os.path.join(self.directory, f"model.ckpt-{step}")
    if not cluster.is_chief():
      return prefix
    # A name that no reader looks for, until both files are complete. The
    # index comes last: without it there is no checkpoint.
    unfinished = os.path.join(self.directory, f"unfinished-model.ckpt-{step}")
    try:
      checkpoint.write(unfinished, values)
    except tf.errors.OpError as error:
      for path in tf.io.gfile.glob(f"{unfinished}*"):
        tf.io.gfile.remove(path)
      raise OSError(
        f"the checkpoint {prefix} cannot be written ({error.message}); the "
        f"last good one is {self.latest()}. With more room on the disk the "
        "same command goes on from there"
      ) from None
    for suffix in (".data-00000-of-00001", ".index"):
      tf.io.gfile.rename(unfinished + suffix, prefix + suffix, overwrite=True)
    self._register(prefix)
    self._whole[prefix] = prefix
    return prefix

  def _register(self, prefix):
    """Names it in the file `checkpoint` and drops what is too old."""
    kept = [path for path in self.listed() if path != prefix] + [prefix]
    kept, dropped = kept[-self.keep :], kept[: -self.keep]
    names = [os.path.basename(path) for path in kept]
    lines = [f'model_checkpoint_path: "{names[-1]}"\n']
    lines += [f'all_model_checkpoint_paths: "{name}"\n' for name in names]
    listing = os.path.join(self.directory, "checkpoint")
    with tf.io.gfile.GFile(f"{listing}.unfinished", "w") as file:
      file.write("".join(lines))
    tf.io.gfile.rename(f"{listing}.unfinished", listing, overwrite=True)
    for path in dropped:
      for file in tf.io.gfile.glob(path + ".*"):
        tf.io.gfile.remove(file)


def _wait_for_chief():
  """Until all processes are here: the chief has written what it will then."""
  if cluster.has_others():
    strategy = tf.distribute.get_strategy()
    here = strategy.run(lambda: tf.constant(1.0))
    strategy.reduce("SUM", here, axis=None)


def _check_complete(reader, wanted):
  missing = [name for name in wanted if name not in reader]
  if missing:
    raise ValueError(
      f"{reader.prefix} is of another model: it has no {missing[0]}. Choose "
      "another --output_dir, or the flags of the run that wrote it"
    )
