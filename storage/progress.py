"""Log lines about the progress of a long task."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import timedelta

from absl import logging


class Progress:
  """Counts work done and logs a line every few seconds: "read 3 of 5 MB"."""

  def __init__(
    self,
    task: str,
    total: float,
    unit: str,
    every: float = 5.0,
    log: Callable[[str], None] = logging.info,
  ):
    self.counts: Counter[str] = Counter()
    self._task, self._total, self._unit = task, total, unit
    self._every, self._log = every, log
    self._done: float = 0
    self._begin = time.monotonic()
    self._next = self._begin + every
    self._said: tuple | None = None

  def add(self, done: float, **counts: int) -> None:
    """Adds to the work done, and to the counts that the line lists."""
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
    """Logs the line, unless nothing was done since the last one."""
    if self._said == (state := (self._done, dict(self.counts))):
      return
    self._said = state
    now = time.monotonic()
    self._next = now + self._every
    rate = self._done / max(now - self._begin, 1e-6)
    # Rows that pad the last batch do not count.
    done = min(self._done, self._total) if self._total else self._done
    fraction = done / self._total if self._total else 1.0
    text = (
      f"{self._task} {_number(done)} of {_number(self._total)} "
      f"{self._unit} ({fraction:.0%})"
    )
    for name, count in self.counts.items():
      text += f", {count:,} {name.replace('_', ' ')}"
    text += f"; {_number(rate)} {self._unit}/s"
    if fraction < 1 and rate > 0:
      left = timedelta(seconds=round((self._total - done) / rate))
      text += f", {left} left"
    self._log(text)


def number_of(number: int, noun: str) -> str:
  """A number with its noun, as in "1 word" or "2,000 words"."""
  return f"{number:,} {noun}" + ("s" if number != 1 else "")


def _number(value: float) -> str:
  return f"{value:,.1f}" if isinstance(value, float) else f"{value:,}"
