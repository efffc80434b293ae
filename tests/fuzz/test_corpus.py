"""Every reader with what it has stumbled over before, and a bit more."""

from random import Random

import pytest

from tests.fuzz import mutation, run, targets

INPUTS = 60  # of each target; `python -m tests.fuzz.run` does many more


@pytest.mark.parametrize("name", targets.TARGETS)
def test_a_file_is_read_or_refused(name, tmp_path):
  read = targets.TARGETS[name].read
  path = targets.prepare(name, str(tmp_path))
  seeds = targets.seeds(name)
  outcomes = [run.attempt(read, path, content) for content in seeds]
  assert "read" in outcomes
  rng = Random(name)
  for _ in range(INPUTS):
    run.attempt(read, path, mutation.mutated(seeds, rng))
