"""Deferred SIGTERM and Ctrl-C: a run saves a checkpoint before it ends."""

import os
import signal
import subprocess
import threading

from absl import logging


class GracefulShutdown:
  """Context in which SIGTERM and the first Ctrl-C only set `requested`.

  A second Ctrl-C ends the process at once, with status 130, also while
  TensorFlow computes: a thread reads the signals, since Python's handlers wait
  until C++ returns.

  A `child` process is terminated, too; it logs the interruption itself.
  """

  def __init__(self, child: subprocess.Popen | None = None):
    self.requested = False
    self._child = child
    self._before = None

  def __enter__(self) -> "GracefulShutdown":
    if threading.current_thread() is threading.main_thread():
      self._before = {
        number: signal.signal(number, self._handle)
        for number in (signal.SIGTERM, signal.SIGINT)
      }
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


def _watch(signals, is_logged):
  """Reads signal numbers, a byte each, until the pipe is closed."""
  interrupts = 0
  with os.fdopen(signals, "rb", buffering=0) as file:
    while number := file.read(1):
      if number[0] != signal.SIGINT:
        continue
      interrupts += 1
      if interrupts > 1:
        logging.error("interrupted again: ended without a checkpoint")
        os._exit(130)
      if is_logged:
        logging.warning(
          "interrupted: a checkpoint will be saved after the current steps; "
          "Ctrl-C once more ends at once"
        )
