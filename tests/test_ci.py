"""The scripts in .ci."""

import os
import re
import shutil
import subprocess

import pytest

from tests.programs import ROOT

# A script that makes the data, and a script that records a call of make.
UNPACK = 'mkdir "$1/datasets" && cp ../shared/datasets.tar.xz "$1/datasets"'
SHOW = """echo "$1 ${BERT_DATASETS:-none} $(ls "${BERT_DATASETS:-/nowhere}")" \
  >> "$LOG"
"""


def _write(path, text):
  path.parent.mkdir(exist_ok=True, parents=True)
  path.write_text(f"#!/bin/bash\n{text}\n")
  path.chmod(0o700)


@pytest.fixture(name="run")
def _run(tmp_path):
  """Returns a function that runs .ci/run with a fake `make` and fake data.

  The function returns the finished process, and a line for each call of make.
  """
  checkout, temporary = tmp_path / "checkout", tmp_path / "temporary"
  (checkout / ".ci").mkdir(parents=True)
  shutil.copy(ROOT / ".ci/run", checkout / ".ci/run")
  temporary.mkdir()
  environment = os.environ | {"LOG": f"{tmp_path}/log", "TMPDIR": temporary}
  environment["PATH"] = f"{tmp_path}/bin:{os.environ['PATH']}"
  environment.pop("BERT_DATASETS", None)

  def run(unpack, status):
    _write(tmp_path / "shared/tools/unpack_datasets", unpack)
    last = f'[ "$1" = lint ] || exit {status}'
    _write(tmp_path / "bin/make", f"{SHOW}\n{last}")
    command = ["bash", checkout / ".ci/run"]
    options = {"env": environment, "capture_output": True, "text": True}
    done = subprocess.run(command, check=False, **options)
    assert not list(temporary.iterdir())
    return done, (tmp_path / "log").read_text().split("\n")

  return run


@pytest.mark.parametrize(
  ("unpack", "is_unpacked", "status"),
  [(UNPACK, True, 0), (f"{UNPACK}; exit 1", False, 3)],
  ids=["unpacked", "broken archive"],
)
def test_ci_gives_the_tests_unpacked_data_and_returns_their_status(
  run, tmp_path, unpack, is_unpacked, status
):
  (tmp_path / "shared").mkdir()
  (tmp_path / "shared/datasets.tar.xz").touch()
  done, calls = run(unpack, status)
  assert done.returncode == status
  data = str(tmp_path / "temporary") if is_unpacked else "none"
  for call, target in zip(calls, ("lint", "test-all"), strict=False):
    name, folder, *content = call.split()
    assert (name, content) == (target, ["datasets.tar.xz"] * is_unpacked)
    assert folder.startswith(data)
  message = "cannot be unpacked: tests on real data are skipped"
  assert (message in done.stderr) != is_unpacked


def test_all_tests_of_make_test_processors_exist():
  """pytest runs no test at all if one of the given tests is missing."""
  script = (ROOT / ".ci/processors").read_text()
  tests = re.findall(r"^  (tests/\S+?)(?:::(\w+))?$", script, re.MULTILINE)
  assert len(tests) == script.count(" tests/") > 5
  for path, name in tests:
    assert f"def {name}" in (ROOT / path).read_text(), (path, name)
