"""Worker queues: limits, joined requests, cancellation, separate results."""

import gc
import threading
import weakref
from types import SimpleNamespace

import pytest

from serving.server.version import Closed, QueueFull, Workers
from tests.serving.server.stand_in import wait_until


class _Echo:
  """A function that records calls and waits for permission to continue."""

  def __init__(self):
    self.gate, self.started = threading.Event(), threading.Event()
    self.calls = []

  def __call__(self, examples):
    self.calls.append(list(examples))
    self.started.set()
    assert self.gate.wait(10)
    if "bad" in examples:
      raise ValueError("bad")
    return [example.upper() for example in examples]


@pytest.fixture(name="workers")
def _workers():
  workers = Workers(capacity=8, max_rows=4, number=1)
  yield workers
  workers.close()


@pytest.fixture(name="busy")
def _busy(workers):
  """Workers whose first call is running."""
  echo = _Echo()
  first = workers.submit(echo, ["first"])
  assert echo.started.wait(10)
  yield echo
  echo.gate.set()
  assert first.result(10) == ["FIRST"]


def test_requests_that_wait_are_answered_in_one_call(workers, busy):
  futures = [workers.submit(busy, texts) for texts in (["a"], ["b", "c"])]
  busy.gate.set()
  assert [f.result(10) for f in futures] == [["A"], ["B", "C"]]
  assert busy.calls == [["first"], ["a", "b", "c"]]


def test_a_call_has_the_oldest_request_and_others_that_fit_max_rows(
  workers, busy
):
  sizes = (3, 2, 1, 2)
  futures = [workers.submit(busy, [f"{n}"] * n) for n in sizes]
  busy.gate.set()
  assert [f.result(10) for f in futures] == [[f"{n}"] * n for n in sizes]
  assert [len(call) for call in busy.calls] == [1, 4, 4]
  assert busy.calls[1] == ["3", "3", "3", "1"]


def test_a_request_may_have_more_than_max_rows(workers, busy):
  future = workers.submit(busy, ["a"] * 7)
  busy.gate.set()
  assert future.result(10) == ["A"] * 7


def test_only_requests_of_one_function_are_joined(workers, busy):
  other = _Echo()
  other.gate.set()
  futures = [workers.submit(f, ["a"]) for f in (busy, other, busy)]
  busy.gate.set()
  assert [f.result(10) for f in futures] == [["A"]] * 3
  assert (busy.calls[1:], other.calls) == ([["a", "a"]], [["a"]])


def test_workers_without_batches_take_a_request_each():
  workers = Workers(capacity=8, max_rows=1, number=2)
  barrier = threading.Barrier(2)

  def meet(examples):
    barrier.wait(10)  # both calls run at the same time
    return examples

  futures = [workers.submit(meet, [text]) for text in "ab"]
  assert [f.result(10) for f in futures] == [["a"], ["b"]]
  workers.close()


def test_the_queue_is_bounded(workers, busy):
  futures = [workers.submit(busy, ["a", "b"]) for _ in range(4)]
  assert workers.queued == 8
  with pytest.raises(QueueFull):
    workers.submit(busy, ["c"])
  busy.gate.set()
  assert [f.result(10) for f in futures] == [["A", "B"]] * 4
  assert workers.queued == 0


def test_a_bad_request_does_not_spoil_the_others(workers, busy):
  good, bad, fine = (workers.submit(busy, [t]) for t in ("good", "bad", "fine"))
  busy.gate.set()
  assert (good.result(10), fine.result(10)) == (["GOOD"], ["FINE"])
  with pytest.raises(ValueError, match="bad"):
    bad.result(10)


def test_a_cancelled_request_does_not_run(workers, busy):
  cancelled = workers.submit(busy, ["cancelled"])
  other = workers.submit(busy, ["other"])
  assert cancelled.cancel()
  busy.gate.set()
  assert other.result(10) == ["OTHER"]
  assert busy.calls == [["first"], ["other"]]


def test_close_answers_the_waiting_requests(workers, busy):
  future = workers.submit(busy, ["a"])
  workers.close()
  with pytest.raises(Closed):
    workers.submit(busy, ["b"])
  busy.gate.set()
  assert future.result(10) == ["A"]


def test_the_size_of_each_batch_is_observed():
  sizes = []
  counter = SimpleNamespace(observe=sizes.append)
  workers = Workers(capacity=8, number=1, sizes=counter)
  workers.submit(list, ["a", "b"]).result(10)
  workers.close()
  assert sizes == [2]


class _Text:
  """A text that supports weak references."""


def test_an_answer_is_freed_before_the_next_request():
  workers = Workers(capacity=9, number=1, max_rows=4)
  text = _Text()
  held = weakref.ref(text)
  workers.submit(list, [text]).result(10)
  del text

  def is_freed():
    gc.collect()
    return held() is None

  wait_until(is_freed)
  workers.close()


def test_threads_end_when_workers_are_closed():
  before = {*threading.enumerate()}
  workers = Workers(capacity=8, number=3)
  started = {*threading.enumerate()} - before
  assert len(started) == 3
  workers.close()
  for thread in started:
    thread.join(10)
  assert not any(thread.is_alive() for thread in started)
