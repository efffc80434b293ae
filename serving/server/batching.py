"""Batches of several requests; inputs and outputs are arrays by name."""

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from typing import NamedTuple

import numpy as np

Arrays = dict[str, np.ndarray]
# Bytes of text that take as long as a call of a model takes without them.
_CALL_BYTES = 300


class QueueFull(Exception):
  """More texts are waiting than the queue may hold."""


class Closed(Exception):
  """The batcher takes no more requests."""


class Function(NamedTuple):
  """A function of batches."""

  run: Callable[[Arrays], Arrays]  # inputs -> outputs
  can_join: bool = False  # several requests may share a batch
  count: str | None = None  # output: how much of each row is not padding
  # Outputs [B, N, ...] whose N is the largest count of the batch.
  padded: frozenset[str] = frozenset()


class _Task(NamedTuple):
  """Rows of one request; those of equal keys may share a batch."""

  key: Hashable
  function: Function
  inputs: Arrays
  size: int  # texts
  length: int  # bytes of the longest text, to which the others are padded
  arrival: float  # time.monotonic()
  future: Future


class Batcher:
  """Runs functions on batches of requests, in a thread of its own.

  A batch starts when `max_size` texts wait, or as many requests as the previous
  batch had and left waiting together, but at most `timeout` seconds after its
  first request came. So a single client never waits. At most `capacity` texts
  wait; `queued` is their number. `on_batch` gets the number of texts of each
  batch.
  """

  def __init__(
    self,
    max_size: int,
    timeout: float,
    capacity: int,
    on_batch: Callable[[int], None] = lambda size: None,
  ):
    self.capacity, self.queued = capacity, 0
    self._max_size, self._timeout, self._on_batch = max_size, timeout, on_batch
    self._waiting: deque[_Task] = deque()
    self._changed = threading.Condition()
    self._is_closed = False
    self._expected = 1  # requests
    threading.Thread(target=self._work, daemon=True).start()

  def submit(self, function: Function, inputs: Arrays) -> Future:
    """Queues a request: future of its outputs. Raises QueueFull or Closed."""
    shapes = tuple((name, v.shape[1:]) for name, v in sorted(inputs.items()))
    key = (id(function), shapes) if function.can_join else object()
    size, length, now = num_texts(inputs), _length(inputs), time.monotonic()
    task = _Task(key, function, inputs, size, length, now, Future())
    with self._changed:
      if self._is_closed:
        raise Closed
      if self.queued + size > self.capacity:
        raise QueueFull
      self._waiting.append(task)
      self.queued += size
      self._changed.notify()
    return task.future

  def close(self) -> None:
    """Runs what is waiting, then ends the thread."""
    with self._changed:
      self._is_closed = True
      self._changed.notify()

  def _work(self):
    while tasks := self._next_batch():
      self._on_batch(sum(task.size for task in tasks))
      _answer(tasks)
      with self._changed:
        self._expected = len(tasks) + len(self._waiting)
      del tasks  # not held while waiting

  def _next_batch(self) -> list[_Task] | None:
    """Waits for a batch; None after `close`."""
    with self._changed:
      while self._waiting or not self._is_closed:
        tasks = self._candidates()
        if seconds := self._seconds_left(tasks):
          self._changed.wait(seconds)
        elif tasks := self._take(similar(tasks)):
          return tasks
    return None

  def _seconds_left(self, tasks):
    """Time to wait for requests that may join these tasks; 0: do not wait."""
    if not tasks:
      return threading.TIMEOUT_MAX
    if (
      self._is_closed
      or len(tasks) >= self._expected
      or len(tasks) < len(self._waiting)
      or sum(task.size for task in tasks) >= self._max_size
    ):
      return 0
    return max(tasks[0].arrival + self._timeout - time.monotonic(), 0)

  def _candidates(self):
    """The task that came first, and others that may share its batch."""
    tasks, size = [], 0
    for task in self._waiting:
      if task.key == self._waiting[0].key:
        size += task.size
        if tasks and size > self._max_size:
          break
        tasks.append(task)
    return tasks

  def _take(self, tasks):
    """Takes tasks from the queue; returns those that were not cancelled."""
    taken = {id(task) for task in tasks}
    self._waiting = deque(t for t in self._waiting if id(t) not in taken)
    self.queued -= sum(task.size for task in tasks)
    return [t for t in tasks if t.future.set_running_or_notify_cancel()]


def num_texts(inputs: Arrays) -> int:
  """Number of texts, or of rows of token ids."""
  return max(
    math.prod(v.shape if v.dtype == object or v.ndim == 1 else v.shape[:-1])
    for v in inputs.values()
  )


def _length(inputs):
  texts = [v.ravel() for v in inputs.values() if v.dtype == object]
  return sum(max(map(len, column), default=0) for column in texts)


def similar(tasks: Sequence[_Task]) -> list[_Task]:
  """Tasks to run with the first one, of similar length.

  Of all divisions of the tasks into batches, the one with the least work,
  padding included, has them as a batch.
  """
  order = sorted(tasks, key=lambda task: task.length)
  best = [(0, 0)]  # least work for the first n, and where its last batch begins
  for stop, longest in enumerate(order, 1):
    options, size = [], 0
    for start in range(stop - 1, -1, -1):
      size += order[start].size
      work = best[start][0] + _CALL_BYTES + size * longest.length
      options.append((work, start))
    best.append(min(options))
  stop = len(order)
  while True:
    start = best[stop][1]
    if any(task is tasks[0] for task in order[start:stop]):
      return order[start:stop]
    stop = start


def _answer(tasks: list[_Task]) -> None:
  function = tasks[0].function
  try:
    if len(tasks) == 1:
      parts = [function.run(tasks[0].inputs)]
    else:
      names = tasks[0].inputs
      inputs = {k: np.concatenate([t.inputs[k] for t in tasks]) for k in names}
      rows = [len(next(iter(task.inputs.values()))) for task in tasks]
      parts = split(function, function.run(inputs), rows)
  except Exception as error:
    if len(tasks) == 1:
      tasks[0].future.set_exception(error)
    else:
      for task in tasks:  # only the culprit gets the error
        _answer([task])
    return
  for task, part in zip(tasks, parts, strict=True):
    task.future.set_result(part)


def split(
  function: Function, outputs: Arrays, rows: Sequence[int]
) -> list[Arrays]:
  """Divides outputs, [B, ...], among the requests of a batch.

  `rows` has the number of rows of each request. Raises ValueError if these are
  not all rows of an output: which row is whose is unknown then.
  """
  if any(len(value) != sum(rows) for value in outputs.values()):
    raise ValueError("outputs have another number of rows than inputs")
  parts, start = [], 0
  for number in rows:
    part = {name: v[start : start + number] for name, v in outputs.items()}
    if function.count:
      longest = part[function.count].max(initial=0)
      part |= {name: part[name][:, :longest] for name in function.padded}
    parts.append(part)
    start += number
  return parts
