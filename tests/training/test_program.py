"""How programs end: a mistake of the user's is a line, a defect a traceback."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def _run(body, **environment):
  script = "\n".join(
    [
      "import sys",
      f"sys.path.insert(0, {str(ROOT)!r})",
      "from training import program",
      "def main(_):",
      f"  {body}",
      "program.run(main)",
    ]
  )
  return subprocess.run(
    [sys.executable, "-c", script],
    capture_output=True,
    text=True,
    check=False,
    env={"PATH": "/usr/bin"} | environment,
  )


def test_our_own_errors_are_one_line():
  body = "from data import files; files.expand('none*')"
  done = _run(body)
  assert done.returncode == 1
  assert "ERROR: no file matches none*" in done.stderr
  assert "Traceback" not in done.stderr


def test_on_request_the_traceback_is_shown():
  body = "from data import files; files.expand('none*')"
  assert "Traceback" in _run(body, BERT_TRACEBACK="1").stderr


@pytest.mark.parametrize("body", ["int('x')", "import json; json.loads('x')"])
def test_defects_keep_their_traceback(body):
  done = _run(body)
  assert done.returncode == 1
  assert "Traceback" in done.stderr


def test_log_lines_have_the_time_and_the_text():
  done = _run("from absl import logging; logging.info('three %d', 3)")
  assert done.stderr.strip()[8:] == " three 3"
  assert done.returncode == 0
