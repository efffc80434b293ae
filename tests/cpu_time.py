"""CPU time of tests: the slowest are listed, and those that are too slow fail.

The time is what a test function and the processes that it starts use, not its
fixtures: those are shared. A test without the marker `slow` may take LIMIT
seconds. That is judged only where BERT_TEST_LIMIT is set, and
by the speed of the machine at that moment, so that neither a slow machine nor
other work beside makes a test fail.
"""

import os
import time

import pytest

from tests import programs

LIMIT = 3.0  # seconds, on a machine on which `_loop` takes LOOP
LOOP = 0.045
LISTED = 20
_times = {}


def _used() -> float:
  return programs.own_cpu_seconds() + programs.cpu_seconds


def _loop() -> float:
  """Seconds of CPU time for work that is always the same."""
  start = time.thread_time()
  sum(number % 7 for number in range(1_000_000))
  return time.thread_time() - start


def limit() -> float:
  """Seconds that a quick test may take here and now; half as much again."""
  slowness = max(_loop() for _ in range(3)) / LOOP
  return 1.5 * LIMIT * max(1.0, slowness)


def _noted(item, name):
  start = _used()
  try:
    return (yield)
  finally:
    item.user_properties.append((name, _used() - start))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item):
  """Notes how long its fixtures took."""
  return (yield from _noted(item, "setup"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
  """Notes how long a test took."""
  return (yield from _noted(item, "call"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
  """Fails what should have the marker `slow`."""
  report = yield
  if call.when != "call" or not os.environ.get("BERT_TEST_LIMIT"):
    return report
  seconds = dict(item.user_properties).get("call", 0.0)
  # The golden numbers in the repository are compared in every run.
  is_golden = "golden:" in item.nodeid
  is_quick = item.get_closest_marker("slow") is None and not is_golden
  if report.passed and is_quick and seconds > LIMIT and seconds > limit():
    report.outcome = "failed"
    report.longrepr = too_slow(seconds)
  return report


def too_slow(seconds: float) -> str:
  """Message for a test that lacks the marker and took too long."""
  return (
    f"it took {seconds:.1f} seconds of CPU time; without the marker `slow` a "
    f"test may take {LIMIT:.0f}: share its training, or mark it"
  )


def pytest_runtest_logreport(report):
  """Sums times, of fixtures too, by test."""
  if report.when == "call":
    _times[report.nodeid] = dict(report.user_properties)


def pytest_terminal_summary(terminalreporter):
  """Lists the slowest tests, if there are more than a few."""
  if len(_times) <= LISTED:
    return
  totals = {name: sum(times.values()) for name, times in _times.items()}
  slowest = sorted(totals, key=totals.get, reverse=True)[:LISTED]
  terminalreporter.section("slowest tests: seconds of CPU time, with fixtures")
  for name in slowest:
    seconds = _times[name].get("call", 0.0)
    terminalreporter.line(f"{seconds:6.1f} {totals[name]:6.1f}  {name}")
  terminalreporter.line(f"{sum(totals.values()) / 60:.1f} minutes of all tests")
