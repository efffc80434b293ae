"""The best checkpoint of a run by a metric, and when to stop looking for it."""

import json
import os
from collections.abc import Mapping
from types import SimpleNamespace

import tensorflow as tf
from absl import flags, logging

from training import run_record
from training.checkpoint import variables
from training.checkpoints import Checkpoints

FOLDER = "best"
_RECORD = "best.json"


def folder(output_dir: str) -> str:
  """Where a run, or a sweep, keeps its best checkpoint."""
  return os.path.join(output_dir, FOLDER)


def is_kept(FLAGS: flags.FlagValues | SimpleNamespace) -> bool:
  """Whether a run is to keep its best checkpoint; pre-training never does."""
  patience = getattr(FLAGS, "early_stopping_patience", 0)
  return getattr(FLAGS, "keep_best", False) or patience > 0


def choose(output_dir: str, kept: bool = False) -> str:
  """The folder whose newest checkpoint is what a run has trained.

  Args:
    output_dir: of the run, or a sweep's, which has a best checkpoint only.
    kept: whether the best is wanted; it is, too, where the last training was to
      keep it.

  Returns:
    The best checkpoint's folder, or `output_dir`.
  """
  for start in run_record.read(output_dir)[-1:]:
    kept = kept or is_kept(SimpleNamespace(**start["flags"]))
  found = folder(output_dir)
  is_wanted = kept or not tf.train.latest_checkpoint(output_dir)
  has_any = tf.train.latest_checkpoint(found)
  return found if is_wanted and has_any else output_dir


def read(output_dir: str) -> dict:
  """What is known of the best checkpoint.

  Args:
    output_dir: of the run.

  Returns:
    `metric`, its `value`, the `step` that had it, and `evaluated`, the step of
    the last evaluation; empty if there was none.
  """
  path = os.path.join(folder(output_dir), _RECORD)
  like = dict.fromkeys(("metric", "value", "step", "evaluated"))
  return run_record.read_json(path, like)


class Best:
  """Keeps the best model that a run has had so far.

  It is a checkpoint without slots in the folder `best`, with best.json beside
  it. What is known is read from there, so that a run that was killed goes on
  with it.

  Arguments:
    output_dir: of the run.
    metric: which of the results decides; more is better.
    patience: steps without a better result after which a run ends; 0 is never.
  """

  def __init__(self, output_dir: str, metric: str, patience: int = 0):
    self.metric = metric
    self.patience = patience
    self._checkpoints = Checkpoints(folder(output_dir), keep=1)
    self._known = read(output_dir)

  @property
  def evaluated(self) -> int:
    """Step of the last evaluation, -1 if there was none."""
    return self._known.get("evaluated", -1)

  @property
  def is_final(self) -> bool:
    """Whether patience has run out."""
    waited = self.evaluated - self._known.get("step", self.evaluated)
    return bool(self.patience) and waited >= self.patience

  def note(self, step: int, results: Mapping[str, float], model) -> None:
    """Keeps the model if its results are the best so far.

    Args:
      step: updates that it has had.
      results: of its evaluation.
      model: a Keras model.
    """
    value = float(results[self.metric])
    if not self._known or value > self._known["value"]:
      step_of_it = tf.constant(step, tf.int64)
      self._checkpoints.save(
        step, variables(model) | {"global_step": step_of_it}
      )
      self._known = {"metric": self.metric, "value": value, "step": step}
    self._known["evaluated"] = step
    self._write()
    logging.info(
      "best %s: %.4f at step %d",
      self.metric,
      self._known["value"],
      self._known["step"],
    )

  def _write(self):
    path = os.path.join(self._checkpoints.directory, _RECORD)
    with tf.io.gfile.GFile(f"{path}.unfinished", "w") as file:
      file.write(json.dumps(self._known, indent=1) + "\n")
    tf.io.gfile.rename(f"{path}.unfinished", path, overwrite=True)
