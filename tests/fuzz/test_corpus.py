"""Every reader gets the inputs on which it once failed, and changed inputs."""

from random import Random

import pytest

from tests.fuzz import mutation, run, targets

INPUTS = 60  # per target; `python -m tests.fuzz.run` does many more


@pytest.mark.parametrize("name", targets.TARGETS)
def test_inputs_that_once_failed_are_read_or_refused(name, tmp_path):
  read = targets.TARGETS[name].read
  path = targets.prepare(name, str(tmp_path))
  seeds = targets.seeds(name)
  assert "read" in [run.attempt(read, path, content) for content in seeds]


@pytest.mark.slow
@pytest.mark.parametrize("name", targets.TARGETS)
def test_a_randomly_changed_file_is_read_or_refused(name, tmp_path):
  read = targets.TARGETS[name].read
  path = targets.prepare(name, str(tmp_path))
  rng = Random(name)
  for _ in range(INPUTS):
    run.attempt(read, path, mutation.mutated(targets.seeds(name), rng))
