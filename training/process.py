"""Process of a run: its role among workers, signals to it, and its log."""

import atexit
import contextlib
import ctypes
import gc
import json
import logging as python_logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator

from absl import logging

from storage import UserError

# absl::SetMinLogLevel(LogSeverityAtLeast) in the library of TensorFlow 2.20.
_SET_MIN_LOG_LEVEL = (
  "_ZN4absl12lts_2025012714SetMinLogLevelENS0_18LogSeverityAtLeastE"
)
_ERROR = 2
_stderr_lock = threading.Lock()
# Optional for Keras: data frames, wrappers of estimators, pictures.
_UNUSED = ("cv2", "matplotlib", "pandas", "sklearn")
_IS_CHILD = "BERT_IS_CHILD"  # environment variable of processes of run_child
_INTERRUPTED = 128 + signal.SIGTERM
# Seconds in which SIGINT, sent to a process and then to its group, counts once.
_SAME_INTERRUPT = 0.2


def is_chief() -> bool:
  """True in the chief or the only worker, by TF_CONFIG, else ValueError."""
  config = _cluster_config()
  task = config.get("task", {})
  if "chief" in config.get("cluster", {}):
    return task.get("type") == "chief"
  return task.get("type", "worker") == "worker" and not task.get("index", 0)


def has_others() -> bool:
  """True if several processes train together."""
  return sum(map(len, _cluster_config().get("cluster", {}).values())) > 1


def _cluster_config():
  text = os.environ.get("TF_CONFIG") or "{}"
  try:
    return json.loads(text)
  except ValueError as error:
    raise UserError(f"TF_CONFIG={text} is no JSON: {error}") from None


class GracefulShutdown:
  """Context in which SIGTERM and the first Ctrl-C only set `requested`.

  A second Ctrl-C ends the process at once, with status 130. A thread reads the
  signals, so that this works while TensorFlow computes. A `child` process is
  terminated, too; it logs the interruption itself.
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


def run_child(command: list[str]) -> int:
  """Runs a command, which gets SIGTERM, too; returns its status, or ends."""
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
  """Ends with status 0; in a run_child with 143, as 0 would be complete."""
  sys.exit(_INTERRUPTED if _IS_CHILD in os.environ else 0)


def rerun(name: str, flags: Iterable[str]) -> None:
  """Runs this command again with more flags; ChildProcessError with `name`."""
  logging.info("%s begins", name)
  if status := run_child([sys.executable, *sys.argv, *flags]):
    raise ChildProcessError(
      f"{name} ended with status {status}, for the reason above; the same "
      "command resumes from there"
    )


def _watch(signals, is_logged):
  """Reads signal numbers, a byte each, until the pipe is closed."""
  first = None
  with os.fdopen(signals, "rb", buffering=0) as file:
    while number := file.read(1):
      if number[0] != signal.SIGINT:
        continue
      now = time.monotonic()
      if first is not None and now - first < _SAME_INTERRUPT:
        continue
      if first is not None:
        logging.error("interrupted again: ended without a checkpoint")
        os._exit(130)
      first = now
      if is_logged:
        logging.warning(
          "interrupted: a checkpoint will be saved after the current steps; "
          "Ctrl-C once more ends at once"
        )


class _Hidden:
  """Import hook that hides _UNUSED from Keras and TensorFlow."""

  @staticmethod
  def find_spec(name, path=None, target=None):
    del path, target
    if name not in _UNUSED:
      return
    frame = sys._getframe(1)
    while frame and frame.f_globals["__name__"].startswith("importlib."):
      frame = frame.f_back
    importer = frame.f_globals["__name__"] if frame else ""
    if importer.startswith(("keras.", "tensorflow.")):
      raise ModuleNotFoundError(f"{name} is hidden from {importer}", name=name)


def shorten_imports() -> None:
  """Keeps Keras from importing libraries that no program here needs.

  They take more than a third of the time of importing TensorFlow. Others, also
  this project, can import them. Python's garbage collection becomes rarer, as
  it takes a tenth of the time to a first training step, and is left out at the
  end of the process, where it takes a second.
  """
  gc.set_threshold(100_000, 50, 100)
  atexit.register(gc.freeze)
  if _Hidden not in sys.meta_path:
    sys.meta_path.insert(0, _Hidden)


def silence_tensorflow() -> None:
  """Suppresses logs of TensorFlow's C++; call it before the import."""
  os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")


def silence_xla() -> None:
  """Suppresses logs of XLA; call it after the import of TensorFlow.

  They go through absl's log in C++, for which TF_CPP_MIN_LOG_LEVEL has no
  effect and TensorFlow has no Python function.
  """
  if os.environ.get("TF_CPP_MIN_LOG_LEVEL") != "3":
    return
  folder = os.path.dirname(sys.modules["tensorflow"].__file__)
  path = os.path.join(folder, "libtensorflow_framework.so.2")
  if os.path.exists(path):  # not on other systems than Linux
    library = ctypes.CDLL(path)  # loaded already
    getattr(library, _SET_MIN_LOG_LEVEL, lambda level: None)(_ERROR)


@contextlib.contextmanager
def no_information() -> Iterator[None]:
  """Context without TensorFlow's line for each name that it saves."""
  before = python_logging.root.manager.disable
  python_logging.disable(python_logging.INFO)
  try:
    yield
  finally:
    python_logging.disable(before)


@contextlib.contextmanager
def no_stderr() -> Iterator[None]:
  """Context in which standard error is /dev/null, for LiteRT's converter."""
  if os.environ.get("TF_CPP_MIN_LOG_LEVEL") != "3":
    yield
    return
  with _stderr_lock:  # else a thread would restore what another has set
    stderr, devnull = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, 2)
    try:
      yield
    finally:
      os.dup2(stderr, 2)
      os.close(stderr)
      os.close(devnull)
