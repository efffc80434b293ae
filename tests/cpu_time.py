"""Lists the slowest tests by CPU time, child processes included."""

import os
import time

import pytest

from tests import programs

LOOP = 0.045  # seconds, the usual time of `_loop`
LISTED = 20
_times = {}


def _used() -> float:
  return programs.own_cpu_seconds() + programs.cpu_seconds


def _loop() -> float:
  """Returns the seconds of CPU time that a fixed amount of work takes."""
  start = time.thread_time()
  sum(number % 7 for number in range(1_000_000))
  return time.thread_time() - start


def slowness() -> float:
  """Returns how much slower than usual this machine is now, at least 1."""
  return max(1.0, *(_loop() / LOOP for _ in range(3)))


def _noted(item, name):
  start = _used()
  try:
    return (yield)
  finally:
    item.user_properties.append((name, _used() - start))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item):
  return (yield from _noted(item, "setup"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
  return (yield from _noted(item, "call"))


def pytest_runtest_logreport(report):
  """Sums the times of each test, fixtures included."""
  if report.when == "call":
    _times[report.nodeid] = dict(report.user_properties)


def pytest_terminal_summary(terminalreporter):
  """Lists the slowest tests, if there are more than a few.

  Writes the times of all tests to the file that BERT_TEST_TIMES names.
  """
  totals = {
    name: times.get("setup", 0.0) + times.get("call", 0.0)
    for name, times in _times.items()
  }
  lines = {
    name: f"{_times[name].get('call', 0.0):6.1f} {totals[name]:6.1f}  {name}"
    for name in sorted(totals, key=totals.get, reverse=True)
  }
  if path := os.environ.get("BERT_TEST_TIMES"):
    with open(path, "w", encoding="utf-8") as file:
      file.write("".join(f"{line}\n" for line in lines.values()))
  if len(lines) > LISTED:
    terminalreporter.section(
      "slowest tests: seconds of CPU time, with fixtures"
    )
    for line in list(lines.values())[:LISTED]:
      terminalreporter.line(line)
    terminalreporter.line(f"{sum(totals.values()) / 60:.1f} minutes of all")
