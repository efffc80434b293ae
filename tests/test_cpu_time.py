"""Tests that take too long are listed, by the speed of the machine."""

from types import SimpleNamespace

import pytest

from tests import cpu_time


@pytest.mark.parametrize(
  ("marker", "name", "seconds", "is_listed"),
  [
    (None, "test_b", 1e6, True),
    (None, "test_b", 2.9, False),
    (None, "test_b[golden:c]", 1e6, False),
    ("slow", "test_b", 1e6, False),
  ],
)
def test_what_is_too_slow_is_listed(
  monkeypatch, marker, name, seconds, is_listed
):
  clock = iter([0.0, seconds])
  item = SimpleNamespace(
    nodeid=name,
    user_properties=[("setup", 1e6)],
    get_closest_marker=lambda name: marker,
  )
  hook = cpu_time.pytest_runtest_call(item)
  with monkeypatch.context() as patch:
    patch.setattr(cpu_time, "_used", lambda: next(clock))
    next(hook)
    with pytest.raises(StopIteration):
      hook.send(None)
  times = {name: dict(item.user_properties)}
  assert cpu_time.too_slow(times) == [name] * is_listed


def test_a_slow_machine_has_more_time(monkeypatch):
  monkeypatch.setattr(cpu_time, "_loop", lambda: 3 * cpu_time.LOOP)
  assert cpu_time.limit() == pytest.approx(4.5 * cpu_time.LIMIT)
