"""Processes of a training: roles in TF_CONFIG, interrupts, child processes."""

import json
import os
import signal
import subprocess
import sys

from absl import logging

from storage import UserError

_IS_CHILD = "BERT_IS_CHILD"  # environment variable that run_child sets
_INTERRUPTED = 128 + signal.SIGTERM


def is_chief() -> bool:
  """True in the chief, by default worker 0; ValueError for a bad TF_CONFIG."""
  cluster, task = _cluster_config()
  if "chief" in cluster:
    return task.get("type") == "chief"
  return task.get("type", "worker") == "worker" and not task.get("index", 0)


def has_others() -> bool:
  """True if several processes train together."""
  return sum(map(len, _cluster_config()[0].values())) > 1


def _cluster_config():
  """Returns `cluster` and `task` of TF_CONFIG."""
  text = os.environ.get("TF_CONFIG") or "{}"
  try:
    config = {"cluster": {}, "task": {}} | json.loads(text)
    cluster, task = config["cluster"], config["task"]
    if cluster:
      cluster[task["type"]][task.get("index", 0)]
  except (ValueError, TypeError, LookupError) as error:
    raise UserError(
      f"TF_CONFIG={text} must be JSON with `cluster`, which lists hosts by "
      "type, and `task`, the type and the index of one of these hosts"
    ) from error
  return cluster, task


class GracefulShutdown:
  """Context in which SIGTERM, SIGHUP and one Ctrl-C only set `requested`.

  A second Ctrl-C ends the process at once. SIGHUP, the signal of a closed
  terminal, stays ignored after `nohup`. A `child` process gets SIGTERM, too,
  and logs the interruption itself.
  """

  def __init__(self, child: subprocess.Popen | None = None):
    self.requested = False
    self._child = child

  def __enter__(self) -> "GracefulShutdown":
    numbers = [signal.SIGTERM, signal.SIGINT]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
      numbers.append(signal.SIGHUP)
    self._before = {n: signal.signal(n, self._handle) for n in numbers}
    return self

  def __exit__(self, *_) -> None:
    for number, handler in self._before.items():
      signal.signal(number, handler)

  def _handle(self, number, _):
    """Handles a signal, as soon as TensorFlow returns to Python."""
    self.requested = True
    if number == signal.SIGINT:
      signal.signal(signal.SIGINT, signal.SIG_DFL)
    if self._child:
      self._child.terminate()
    elif number == signal.SIGINT:
      logging.warning(
        "interrupted: a checkpoint will be saved after the current steps; "
        "Ctrl-C once more ends at once"
      )


def run_child(command: list[str]) -> int:
  """Runs a command and returns the status, or exits if interrupted."""
  with (
    subprocess.Popen(command, env=os.environ | {_IS_CHILD: "1"}) as child,
    GracefulShutdown(child) as interruption,
  ):
    status = child.wait()
  if interruption.requested or status == _INTERRUPTED:
    logging.info("interrupted: repeat the command to resume")
    end_interrupted()
  return status


def end_interrupted() -> None:
  """Exits with 0, or with 143 in a child process or with several workers.

  For the parent process, and for a supervisor of workers, 0 means complete.
  """
  sys.exit(_INTERRUPTED if _IS_CHILD in os.environ or has_others() else 0)
