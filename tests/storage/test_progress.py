"""What progress lines say."""

import pytest

from storage.progress import Progress


@pytest.mark.parametrize(
  ("total", "done", "expected"),
  [
    (30, (16, 14), "read 30 of 30 rows (100%)"),
    (30, (16, 16), "read 30 of 30 rows (100%)"),  # the last batch is filled up
    (30, (16,), "read 16 of 30 rows (53%)"),
    (2.5, (1.0, 2.0), "read 2.5 of 2.5 rows (100%)"),
    (0, (3,), "read 3 of 0 rows (100%)"),  # nothing is known of the total
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
