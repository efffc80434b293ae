"""Every reader gets the inputs on which it once failed, and changed inputs.

BERT_FUZZ_INPUTS=9000 tries more changed inputs with each reader. A failed test
names the folder of its input. If you copy the input to tests/fuzz/corpus/NAME,
every run of the tests reads it.
"""

import os
import signal
from pathlib import Path
from random import Random

import pytest

from cli import program
from tests.fuzz import mutation, targets

INPUTS = int(os.environ.get("BERT_FUZZ_INPUTS", "60"))  # for each target
SECONDS = 10  # to read an input


@pytest.fixture(autouse=True)
def _alarm():
  before = signal.signal(signal.SIGALRM, lambda *_: pytest.fail("too slow"))
  yield
  signal.signal(signal.SIGALRM, before)


def _is_read(read, path, content):
  """Lets a target read a file; False if it refuses the file with a message."""
  Path(path).write_bytes(content)
  signal.alarm(SECONDS)
  try:
    read(path)
  except Exception as error:
    if not program.message_of(error):
      raise
    return False
  finally:
    signal.alarm(0)
  return True


@pytest.mark.parametrize("name", targets.TARGETS)
def test_inputs_that_once_failed_are_read_or_refused(name, tmp_path):
  path = targets.prepare(name, str(tmp_path))
  read, seeds = targets.TARGETS[name].read, targets.seeds(name)
  # The valid example must be read.
  assert True in [_is_read(read, path, content) for content in seeds]


@pytest.mark.slow
@pytest.mark.parametrize("name", targets.TARGETS)
def test_a_randomly_changed_file_is_read_or_refused(name, tmp_path):
  path = targets.prepare(name, str(tmp_path))
  read, seeds = targets.TARGETS[name].read, targets.seeds(name)
  rng = Random(name)
  for _ in range(INPUTS):
    _is_read(read, path, mutation.mutated(seeds, rng))
