"""The text of progress lines."""

import pytest

from storage import Progress


@pytest.mark.parametrize(
  ("total", "done", "expected"),
  [
    (30, (16, 14), "read 30 of 30 rows (100%)"),
    (30, (16, 16), "read 30 of 30 rows (100%)"),  # the last batch is filled up
    (30, (16,), "read 16 of 30 rows (53%)"),
    (2.5, (1.0, 2.0), "read 2.5 of 2.5 rows (100%)"),
    (0, (3,), "read 3 rows; "),  # the total is unknown
  ],
)
def test_no_more_is_done_than_there_is(total, done, expected):
  lines = []
  progress = Progress("read", total, "rows", log=lines.append)
  for batch in progress.follow([{"x": [0] * int(n)} for n in done]):
    assert batch
  [line] = lines
  assert line.startswith(expected)
  assert (" left" in line) == (sum(done) < total)


def test_a_line_is_logged_every_few_seconds(monkeypatch):
  now = [100.0]
  lines = []
  monkeypatch.setattr("time.monotonic", lambda: now[0])
  progress = Progress("read", 40, "rows", every=5.0, log=lines.append)
  for now[0] in (104.9, 105.0, 109.0, 110.0):
    progress.add(5, bad_rows=1, words=600)
  assert lines == [
    "read 10 of 40 rows (25%), 2 bad rows, 1,200 words; 2.0 rows/s, 0:00:15 "
    "left",
    "read 20 of 40 rows (50%), 4 bad rows, 2,400 words; 2.0 rows/s, 0:00:10 "
    "left",
  ]
  progress.say()
  assert len(lines) == 2  # nothing was done since
