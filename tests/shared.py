"""Helpers that many tests share, such as output folders of finished runs.

If pytest runs in several processes, one process makes a folder for all.
"""

import fcntl
import json
import os
import re
import socket
import textwrap

import numpy as np
import pytest

from tests import programs
from training import checkpoint

DATASETS = os.environ.get("BERT_DATASETS", "")
on_datasets = pytest.mark.skipif(
  not DATASETS, reason="BERT_DATASETS names no folder"
)


def once(tmp_path_factory, name, make):
  """Makes a folder once in a test run; returns its path and `make(folder)`."""
  base = tmp_path_factory.getbasetemp()
  if "PYTEST_XDIST_WORKER" in os.environ:
    base = base.parent
  folder, made = base / name, base / f"{name}.json"
  with open(base / f"{name}.lock", "w") as lock:
    fcntl.flock(lock, fcntl.LOCK_EX)
    if not made.exists():
      folder.mkdir()
      made.write_text(json.dumps(make(folder)))
  return folder, json.loads(made.read_text())


def trained(tmp_path_factory, program, name=None, **flags):
  """Runs a program once in a test run; returns output folder and log."""

  def train(folder):
    return programs.run(program, **flags, output_dir=folder)

  return once(tmp_path_factory, name or program, train)


def touch_checkpoint(folder, name):
  """Makes an empty checkpoint, the newest of its folder; returns its prefix."""
  folder.mkdir(parents=True, exist_ok=True)
  (folder / f"{name}.index").touch()
  (folder / "checkpoint").write_text(f'model_checkpoint_path: "{name}"\n')
  return f"{folder}/{name}"


def block(document, name):
  """Returns the text between two marks of a documentation page."""
  text = (programs.ROOT / "docs" / document).read_text()
  pattern = rf"<!-- {name}: begin -->\n(.*?)<!-- {name}: end -->"
  [match] = re.findall(pattern, text, re.S)
  return textwrap.dedent(match)


def free_port():
  with socket.create_server(("127.0.0.1", 0)) as listening:
    return listening.getsockname()[1]


def write_squad(path, *questions, context):
  """Writes a SQuAD file of one paragraph; returns the path."""
  paragraph = {"context": context, "qas": questions}
  path.write_text(json.dumps({"data": [{"paragraphs": [paragraph]}]}))
  return str(path)


def slow(value):
  """Returns a parameter that only the slow tier tests."""
  return pytest.param(value, marks=pytest.mark.slow)


def assert_same_checkpoint(result, expected, ignored=(), atol=0.0):
  """Compares the variables of two checkpoints, or of two folders.

  Variables whose names end with one of `ignored` may differ.
  """
  result = checkpoint.open_reader(str(result))
  expected = checkpoint.open_reader(str(expected))
  assert result.shapes == expected.shapes
  for name in expected.shapes:
    if not name.endswith(ignored):
      np.testing.assert_allclose(
        result[name], expected[name], rtol=0, atol=atol, err_msg=name
      )
