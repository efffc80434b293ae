"""The best checkpoint of a run by a metric, and early stopping."""

import json
import os
from collections.abc import Mapping

import tensorflow as tf
from absl import logging

from storage import files
from training import run_entries
from training.checkpoint import variables
from training.checkpoints import Checkpoints

_RECORD = "best.json"


def folder(output_dir: str) -> str:
  """Folder of the best checkpoint of a run or a sweep."""
  return os.path.join(output_dir, "best")


def best_or_latest(output_dir: str, prefer_best: bool = False) -> str:
  """Folder of the checkpoint to use: the best one or the newest.

  The best one is used with `prefer_best`, if the last training saved it, and if
  there is no other, as after a sweep.
  """
  for entry in run_entries.read(output_dir)[-1:]:
    prefer_best = prefer_best or run_entries.keeps_best(entry["flags"])
  result = folder(output_dir)
  use_best = prefer_best or not tf.train.latest_checkpoint(output_dir)
  return (
    result if use_best and tf.train.latest_checkpoint(result) else output_dir
  )


def read(output_dir: str) -> dict:
  """Reads best.json of a run; empty if there is none.

  It has `metric`, its `value`, the `step` of the best checkpoint and
  `evaluated`, the step of the last evaluation.
  """
  path = os.path.join(folder(output_dir), _RECORD)
  keys = dict.fromkeys(("metric", "value", "step", "evaluated"))
  return run_entries.read_json(path, keys)


class BestCheckpoint:
  """Saves the best model of a run: a checkpoint without slots, and best.json.

  A higher `metric` is better. Training ends after `patience` steps without
  improvement; 0 is no limit. A run that is resumed continues from best.json.
  """

  def __init__(self, output_dir: str, metric: str, patience: int = 0):
    self.metric = metric
    self.patience = patience
    self._checkpoints = Checkpoints(folder(output_dir), keep=1)
    self._record = read(output_dir)

  @property
  def evaluated(self) -> int:
    """Step of the last evaluation, -1 if there was none."""
    return self._record.get("evaluated", -1)

  @property
  def is_final(self) -> bool:
    """True once the metric has not improved for `patience` steps."""
    waited = self.evaluated - self._record.get("step", self.evaluated)
    return bool(self.patience) and waited >= self.patience

  def update(self, step: int, results: Mapping[str, float], model) -> None:
    """Saves the Keras model of `step` if its results are the best so far."""
    value = float(results[self.metric])
    if not self._record or value > self._record["value"]:
      values = variables(model) | {"global_step": tf.constant(step, tf.int64)}
      self._checkpoints.save(step, values)
      self._record = {"metric": self.metric, "value": value, "step": step}
    self._record["evaluated"] = step
    self._write()
    logging.info(
      "best %s: %.4f at step %d",
      self.metric,
      self._record["value"],
      self._record["step"],
    )

  def _write(self):
    path = os.path.join(self._checkpoints.directory, _RECORD)
    files.write_text(path, json.dumps(self._record, indent=1) + "\n")
