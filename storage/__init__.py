"""Files, TFRecords, worker processes; errors and progress lines for users."""

import ctypes
import logging as python_logging
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta

from absl import logging

_writes_flags = False  # see write_settings_as_flags


class UserError(ValueError):
  """A mistake of the user: one line with the culprit and the remedy.

  Programs log this line alone. Other errors, except OSErrors, are defects.
  """


def write_settings_as_flags() -> None:
  """Makes `setting` write `--seed`. Every program calls this function first."""
  global _writes_flags
  _writes_flags = True


def setting(name: str, value: object = None) -> str:
  """Spells a setting for a message: `--seed=3` in programs, else `seed=3`.

  Only programs, cli/, runs/ and tasks/ spell flags without this function.
  """
  text = name if value is None else f"{name}={value}"
  return f"--{text}" if _writes_flags else text


# --- Progress ---------------------------------------------------------------


class Progress:
  """Counts finished work; logs a line every few seconds: "read 3 of 5 MB"."""

  def __init__(
    self,
    task: str,
    total: float,
    unit: str,
    every: float = 5.0,  # seconds between lines
    log: Callable[[str], None] = logging.info,
  ):
    self.task, self.total, self.unit = task, total, unit
    self.every, self.log = every, log
    self.counts: Counter[str] = Counter()
    self._done: float = 0
    self._begin = time.monotonic()
    self._next = self._begin + every

  def add(self, done: float, **counts: int) -> None:
    """Adds to the work done and to the counts in the log line."""
    self._done += done
    for name, count in counts.items():
      self.counts[name] += count
    if time.monotonic() >= self._next:
      self.say()

  def follow(self, batches: Iterable[Mapping]) -> Iterator[Mapping]:
    """Yields batches (dicts of [B, ...]) and counts their rows."""
    for batch in batches:
      yield batch
      self.add(len(next(iter(batch.values()))))
    self.say()

  def say(self) -> None:
    now = time.monotonic()
    self._next = now + self.every
    rate = self._done / max(now - self._begin, 1e-6)
    # The last batch may have padding rows, which are not part of the total.
    done = min(self._done, self.total) if self.total else self._done
    text = f"{self.task} {round(done, 1):,} {self.unit}"
    if self.total:
      text = f"{self.task} {round(done, 1):,} of {round(self.total, 1):,} "
      text += f"{self.unit} ({done / self.total:.0%})"
    for name, count in self.counts.items():
      text += f", {count:,} {name.replace('_', ' ')}"
    text += f"; {round(rate, 1):,} {self.unit}/s"
    if done < self.total and rate > 0:
      text += f", {timedelta(seconds=round((self.total - done) / rate))} left"
    self.log(text)


def number_of(number: int, noun: str) -> str:
  """A number with its noun, as in "1 word" or "2,000 words"."""
  return f"{number:,} {noun}" + ("s" if number != 1 else "")


# --- Messages of TensorFlow -------------------------------------------------

# absl::SetMinLogLevel(LogSeverityAtLeast) in TensorFlow 2.20 and 2.21.
_SET_MIN_LOG_LEVEL = (
  "_ZN4absl12lts_2025012714SetMinLogLevelENS0_18LogSeverityAtLeastE",
  "_ZN4absl12lts_2025081414SetMinLogLevelENS0_18LogSeverityAtLeastE",
)
_stderr_lock = threading.Lock()


def silence_tensorflow() -> None:
  """Hides C++ logs and Python's INFO logs. Call before TensorFlow's import."""
  if os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3") == "3":
    python_logging.getLogger("tensorflow").setLevel(python_logging.WARNING)


def silence_xla() -> None:
  """Hides XLA's logs below ERROR. Call after TensorFlow's import."""
  if os.environ.get("TF_CPP_MIN_LOG_LEVEL") == "3":
    loaded = ctypes.CDLL(None)
    for name in _SET_MIN_LOG_LEVEL:
      if set_level := getattr(loaded, name, None):
        set_level(2)  # errors only


@contextmanager
def no_stderr() -> Iterator[None]:
  """Silences TensorFlow's C++ code on stderr if TF_CPP_MIN_LOG_LEVEL is 3."""
  if os.environ.get("TF_CPP_MIN_LOG_LEVEL") != "3":
    yield
    return
  # Without the lock a thread would restore another thread's devnull.
  with _stderr_lock, open(os.devnull, "w") as devnull:
    stderr = os.dup(2)
    os.dup2(devnull.fileno(), 2)
    try:
      yield
    finally:
      os.dup2(stderr, 2)
      os.close(stderr)
