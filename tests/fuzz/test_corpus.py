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
from tests.fuzz import targets

INPUTS = int(os.environ.get("BERT_FUZZ_INPUTS", "60"))  # for each target
SECONDS = 10  # to read an input
# Single bytes and longer strings that parsers often mishandle.
_BYTES = b"\0\r\n\t\"'\\, {}[]:-\x80\xc3"
_LONGER = rb"1e999 NaN null true \ud800 -DOCSTART- [CLS] ## ..".split()
_LONGER += [b"9" * 30, b"\r\n", b"\xef\xbb\xbf", b"\xff\xfe", b"\xff" * 8]
_LONGER += [b"||| ", b"Mr. ", "\u2028\u0130\ufffd\U0001f989e\u0301中".encode()]
_PIECES = [*(bytes([value]) for value in _BYTES), *_LONGER]


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


def _mutated(contents, rng):
  """Returns one of the contents after a few random changes."""
  content = rng.choice(contents)
  for _ in range(rng.choice((1, 1, 2, 3, 8))):
    start = rng.randint(0, len(content))
    end = start + rng.choice((1, 2, 8, 64, 1024))
    head, part, tail = content[:start], content[start:end], content[end:]
    other = rng.choice(contents)
    times = rng.choice((2, 2, 3, 10, 100)) if rng.random() < 0.99 else 10_000
    flipped = [byte ^ 1 << rng.randrange(8) for byte in part[:1]]
    change = rng.choice("flip insert delete repeat splice cut random".split())
    content = {
      "flip": head + bytes(flipped) + part[1:] + tail,
      "insert": head + rng.choice(_PIECES) + part + tail,
      "delete": head + tail,
      "repeat": head + part * (times if change == "repeat" else 1) + tail,
      "splice": head + other[rng.randint(0, len(other)) :],
      "cut": head,
      "random": head + rng.randbytes(len(part)) + tail,
    }[change]
  return content


@pytest.mark.slow
@pytest.mark.parametrize("name", targets.TARGETS)
def test_a_randomly_changed_file_is_read_or_refused(name, tmp_path):
  path = targets.prepare(name, str(tmp_path))
  read, seeds = targets.TARGETS[name].read, targets.seeds(name)
  rng = Random(name)
  for _ in range(INPUTS):
    _is_read(read, path, _mutated(seeds, rng))
