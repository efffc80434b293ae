"""A test that is too slow fails, unless it says so or nobody asks."""

from types import SimpleNamespace

import pytest

from tests import cpu_time, programs


@pytest.mark.parametrize(
  ("seconds", "marker", "asked", "outcome"),
  [
    (1e6, None, "1", "failed"),
    (1e6, "slow", "1", "passed"),
    (1e6, None, "", "passed"),
    (2.9, None, "1", "passed"),
  ],
)
def test_what_is_too_slow_fails(monkeypatch, seconds, marker, asked, outcome):
  monkeypatch.setenv("BERT_TEST_LIMIT", asked)
  item = SimpleNamespace(
    nodeid="tests/test_a.py::test_b",
    user_properties=[("setup", 1e6), ("call", seconds)],
    get_closest_marker=lambda name: marker,
  )
  report = SimpleNamespace(passed=True, outcome="passed", longrepr=None)
  hook = cpu_time.pytest_runtest_makereport(item, SimpleNamespace(when="call"))
  next(hook)
  with pytest.raises(StopIteration) as ended:
    hook.send(report)
  assert ended.value.value.outcome == outcome
  assert ("mark it" in (report.longrepr or "")) == (outcome == "failed")


def test_a_slow_machine_has_more_time(monkeypatch):
  monkeypatch.setattr(cpu_time, "_loop", lambda: 3 * cpu_time.LOOP)
  assert cpu_time.limit() == pytest.approx(4.5 * cpu_time.LIMIT)


def test_programs_count():
  before = programs.cpu_seconds
  programs.call("split_sentences")
  assert programs.cpu_seconds > before
