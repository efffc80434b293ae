"""Threads that answer the requests of a model, over a bounded queue."""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple

_WAIT = 0.005
# A list of examples to a list of their answers, in order.
Function = Callable[[Sequence[Any]], Sequence[Any]]


class QueueFull(Exception):
  """More examples are waiting than the queue may hold."""


class Closed(Exception):
  """The workers take no more requests."""


class _Request(NamedTuple):
  function: Function
  examples: Sequence[Any]
  future: Future
  arrival: float  # time.monotonic()


class Workers:
  """A number of threads; the oldest request is answered first.

  A worker that becomes free takes the requests of one function that wait, up to
  `max_rows` examples, in one call. If that is more than one, it waits up to
  _WAIT seconds for as many requests as there were last time, as clients that
  were just answered ask again; a single client never waits. At most
  `capacity` examples wait; `queued` is their number. `on_call` gets the number
  of examples of each call.
  """

  def __init__(
    self,
    capacity: int,
    number: int,
    max_rows: int = 1,
    on_call: Callable[[int], None] = lambda size: None,
  ):
    self.queued = 0
    self._capacity, self._max_rows, self._on_call = capacity, max_rows, on_call
    self._waiting: deque[_Request] = deque()
    self._changed = threading.Condition()
    self._is_closed, self._expected = False, 1
    for _ in range(number):
      threading.Thread(target=self._work, daemon=True).start()

  def submit(self, function: Function, examples: Sequence[Any]) -> Future:
    """Queues a request: future of its answers. Raises QueueFull or Closed."""
    request = _Request(function, examples, Future(), time.monotonic())
    with self._changed:
      if self._is_closed:
        raise Closed
      if self.queued + len(examples) > self._capacity:
        raise QueueFull
      self._waiting.append(request)
      self.queued += len(examples)
      self._changed.notify()
    return request.future

  def close(self) -> None:
    """Answers what is waiting, then ends the threads."""
    with self._changed:
      self._is_closed = True
      self._changed.notify_all()

  def _work(self):
    while (requests := self._take()) is not None:
      requests = [
        r for r in requests if r.future.set_running_or_notify_cancel()
      ]
      if requests:
        self._on_call(sum(len(request.examples) for request in requests))
        _answer(requests)
      with self._changed:
        self._expected = len(requests) + len(self._waiting)
      del requests  # not held while waiting

  def _seconds_left(self) -> float:
    """Time to wait for more requests."""
    if self._max_rows == 1 or self._is_closed:
      return 0.0
    is_full = self.queued >= self._max_rows
    if is_full or len(self._waiting) >= self._expected:
      return 0.0
    return self._waiting[0].arrival + _WAIT - time.monotonic()

  def _take(self) -> list[_Request] | None:
    """Waits for requests that run together; None after `close`."""
    with self._changed:
      while not self._waiting or self._seconds_left() > 0:
        if self._is_closed and not self._waiting:
          return None
        self._changed.wait(self._seconds_left() if self._waiting else None)
      requests, size, rest = [], 0, deque()
      for request in self._waiting:
        is_same = not requests or request.function == requests[0].function
        fits = not requests or size + len(request.examples) <= self._max_rows
        if is_same and fits:
          requests.append(request)
          size += len(request.examples)
        else:
          rest.append(request)
      self._waiting = rest
      self.queued -= size
      return requests


def _answer(requests: list[_Request]) -> None:
  examples = [example for r in requests for example in r.examples]
  try:
    answers = iter(requests[0].function(examples))
  except Exception as error:
    if len(requests) == 1:
      requests[0].future.set_exception(error)
    for request in requests if len(requests) > 1 else ():
      _answer([request])  # only the culprit gets the error
    return
  for request in requests:
    request.future.set_result([next(answers) for _ in request.examples])
