"""How long a worker waits for requests to answer together, by a fake clock."""

import gc
import time
import weakref

import pytest

from serving.server import version as module
from serving.server.version import Workers

WAIT = module._WAIT


@pytest.fixture(name="clock")
def _clock(monkeypatch):
  now = [100.0]
  monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
  return now


@pytest.fixture(name="workers")
def _workers(clock):
  """Without a thread, so that the test is the worker."""
  workers = Workers(capacity=99, number=0, max_rows=8)
  workers.clock = clock
  yield workers
  workers.close()


def _answer(workers, *arriving, after=()):
  """Answers a call of these requests in time, while others arrive."""
  for texts in arriving:
    workers.submit(list, texts)
  workers.clock[0] += 2 * WAIT
  calls = iter([workers._take(), None])
  for texts in after:
    workers.submit(list, texts)
  workers._take = lambda: next(calls)
  workers._work()
  del workers._take


def test_the_first_request_does_not_wait(workers):
  workers.submit(list, ["a"])
  assert workers._seconds_left() == 0


def test_a_call_waits_from_its_first_request_on(workers, clock):
  _answer(workers, ["a"], ["b"], ["c"])
  workers.submit(list, ["a"])
  assert workers._seconds_left() == pytest.approx(WAIT)
  clock[0] += 0.75 * WAIT
  workers.submit(list, ["b"])
  assert workers._seconds_left() == pytest.approx(WAIT / 4)
  clock[0] += 0.5 * WAIT
  assert workers._seconds_left() < 0
  assert len(workers._take()) == 2


@pytest.mark.parametrize(
  ("arriving", "after", "expected"),
  [
    ([["a"]], [], 1),
    ([["a"], ["b"], ["c"]], [], 3),
    ([["a", "b", "c"]], [], 1),  # requests, not texts
    ([["a"]], [["b"], ["c"]], 3),  # those that wait ask again, too
    ([["a"], ["b"]], [["c"]], 3),
  ],
)
def test_as_many_requests_are_expected_as_there_were(
  workers, arriving, after, expected
):
  _answer(workers, *arriving, after=after)
  workers._waiting.clear()
  workers.queued = 0
  for number in range(1, expected + 1):
    workers.submit(list, ["a"])
    assert (workers._seconds_left() > 0) == (number < expected)


def test_fewer_are_expected_when_fewer_came(workers):
  _answer(workers, ["a"], ["b"], ["c"])
  _answer(workers, ["a"])
  workers.submit(list, ["a"])
  assert workers._seconds_left() == 0


def test_a_request_that_was_cancelled_is_not_expected_again(workers):
  workers.submit(list, ["a"]).cancel()
  _answer(workers, ["b"], ["c"])
  workers.submit(list, ["b"])
  assert workers._seconds_left() > 0
  workers.submit(list, ["c"])
  assert workers._seconds_left() == 0


def test_a_full_call_does_not_wait(workers):
  """It is full by its texts, however few requests they are of."""
  _answer(workers, *(["a"] for _ in range(6)))
  workers.submit(list, ["a"] * 7)
  assert workers._seconds_left() > 0
  workers.submit(list, ["b"])
  assert workers._seconds_left() == 0


def test_nothing_more_is_expected_of_closed_workers(workers):
  _answer(workers, ["a"], ["b"])
  future = workers.submit(list, ["a"])
  assert workers._seconds_left() > 0
  workers.close()
  assert workers._seconds_left() == 0
  workers._work()  # answers what is waiting, then ends
  assert future.result(0) == ["a"]


class _Text:
  """A text that shows when nothing refers to it."""


def test_an_answer_is_freed_before_the_next_request():
  """It may be large, and the next request may come tomorrow."""
  workers = Workers(capacity=9, number=1, max_rows=4)
  text = _Text()
  held = weakref.ref(text)
  workers.submit(list, [text]).result(10)
  del text
  end = time.monotonic() + 10
  while held() and time.monotonic() < end:
    time.sleep(0.01)
    gc.collect()
  assert held() is None
  workers.close()
