"""Processes of a training: roles in TF_CONFIG, interrupts, child processes."""

import json
import os
import signal
import subprocess
import sys
import threading
import time

from absl import logging

from storage import UserError, files

_IS_CHILD = "BERT_IS_CHILD"  # environment variable that run_child sets
_INTERRUPTED = 128 + signal.SIGTERM
# Seconds within which SIGINT to a process and to its group count as one Ctrl-C.
_SAME_INTERRUPT = 0.2


def is_chief() -> bool:
  """True in the chief, by default worker 0; ValueError for a bad TF_CONFIG."""
  cluster, task = _cluster_config()
  if "chief" in cluster:
    return task.get("type") == "chief"
  return task.get("type", "worker") == "worker" and not task.get("index", 0)


def has_others() -> bool:
  """True if several processes train together."""
  return sum(map(len, _cluster_config()[0].values())) > 1


def has_ended(process_id: int) -> bool:
  """True if an earlier process, which had the ID `process_id`, has ended.

  With several workers, returns False: the process may be on another host.
  """
  return not has_others() and files.has_ended(process_id)


def _cluster_config():
  """Returns `cluster` and `task` of TF_CONFIG."""
  text = os.environ.get("TF_CONFIG") or "{}"
  try:
    config = {"cluster": {}, "task": {}} | json.loads(text)
    cluster, task = config["cluster"], config["task"]
    is_valid = isinstance(cluster, dict) and isinstance(task, dict)
    if cluster:
      is_valid = task.get("index", 0) in range(len(cluster[task["type"]]))
      is_valid &= all(isinstance(hosts, list) for hosts in cluster.values())
  except ValueError as error:
    raise UserError(f"TF_CONFIG={text} is not JSON: {error}") from None
  except (TypeError, AttributeError, KeyError):
    is_valid = False
  if not is_valid:
    raise UserError(
      f"TF_CONFIG={text} needs `cluster`, which lists hosts by type, and "
      "`task`, the type and the index of one of these hosts"
    )
  return cluster, task


class GracefulShutdown:
  """Context in which SIGTERM, SIGHUP and one Ctrl-C only set `requested`.

  A second Ctrl-C ends the process at once, with status 130. SIGHUP, the signal
  of a terminal that closes, stays ignored after `nohup`. A thread reads the
  signals, so that Ctrl-C works while TensorFlow computes. A `child` process
  gets SIGTERM, too, and logs the interruption itself.
  """

  def __init__(self, child: subprocess.Popen | None = None):
    self.requested = False
    self._child = child
    self._before: dict | None = None

  def __enter__(self) -> "GracefulShutdown":
    if threading.current_thread() is threading.main_thread():
      numbers = [signal.SIGTERM, signal.SIGINT]
      if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
      self._before = {n: signal.signal(n, self._handle) for n in numbers}
      signals, self._write = os.pipe()
      os.set_blocking(self._write, False)
      self._fd_before = signal.set_wakeup_fd(self._write)
      arguments = signals, self._child is None
      threading.Thread(target=_watch, args=arguments, daemon=True).start()
    return self

  def __exit__(self, *_) -> None:
    if self._before is None:
      return
    for number, handler in self._before.items():
      signal.signal(number, handler)
    signal.set_wakeup_fd(self._fd_before)
    os.close(self._write)  # ends the thread

  def _handle(self, *_):
    self.requested = True
    if self._child:
      self._child.terminate()


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


def _watch(signals, is_logged):
  """Reads signal numbers, a byte each, until the pipe is closed."""
  first = None
  with os.fdopen(signals, "rb", buffering=0) as file:
    while number := file.read(1):
      if number[0] != signal.SIGINT:
        continue
      now = time.monotonic()
      if first is None:
        first = now
        if is_logged:
          logging.warning(
            "interrupted: a checkpoint will be saved after the current steps; "
            "Ctrl-C once more ends at once"
          )
      elif now - first >= _SAME_INTERRUPT:
        logging.error("interrupted again: ended without a checkpoint")
        os._exit(130)
