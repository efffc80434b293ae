"""requirements-serve.txt is all that an export of LiteRT files needs.

The environment has only packages that the file names, and what these need in
turn, as links to the installed ones: a test that downloads nothing.
"""

import json
import os
import re
import subprocess
import sys
import urllib.request
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from predictor import Predictor
from serving import export
from tests import programs
from tests.serving import tasks

FILE = programs.ROOT / "requirements-serve.txt"
TEXT = "ab c"


def _requirements(file):
  lines = file.read_text().splitlines()
  return [line for line in lines if line and not line.startswith("#")]


def test_versions_are_as_in_requirements():
  every = _requirements(programs.ROOT / "requirements.txt")
  assert set(_requirements(FILE)) < set(every)


@pytest.fixture(scope="module", name="packages")
def packages_fixture(tmp_path_factory):
  """Makes a folder of links to the packages that the file asks for."""
  folder = tmp_path_factory.mktemp("packages")
  names, seen = _requirements(FILE), set()
  while names:
    requirement = Requirement(names.pop())
    marker = requirement.marker
    if requirement.name in seen or (
      marker and not marker.evaluate({"extra": ""})
    ):
      continue
    seen.add(requirement.name)
    installed = distribution(requirement.name)
    names += installed.requires or []
    for top in {file.parts[0] for file in installed.files} - {".."}:
      path = Path(installed.locate_file(top))
      if path.exists() and not (folder / top).exists():
        os.symlink(path, folder / top)
  assert not {"tensorflow", "keras", "scipy", "h5py"} & seen
  return folder


@pytest.fixture(scope="module", name="folder")
def folder_fixture(tmp_path_factory):
  folder = tmp_path_factory.mktemp("export") / "1"
  export.save(str(folder), tasks.make("tagging"), ["tflite"])
  return folder


def _start(packages, *arguments, **options):
  # -S leaves out the packages of this environment.
  return subprocess.Popen(
    [sys.executable, "-S", *arguments],
    cwd=programs.ROOT,
    env={"PYTHONPATH": str(packages), "PATH": os.environ["PATH"]},
    text=True,
    **options,
  )


def test_the_predictor_answers_without_tensorflow(packages, folder):
  flags = ["predictor.py", f"--model={folder}", f"--tokens={TEXT}"]
  process = _start(packages, *flags, stdout=subprocess.PIPE)
  answer, _ = process.communicate(timeout=60)
  assert json.loads(answer) == Predictor(folder)([TEXT])[0]


def test_the_server_answers_and_shows_its_page(packages, folder):
  flags = ["serve.py", f"--model=toy={folder}", "--port=0"]
  process = _start(packages, *flags, stderr=subprocess.PIPE)
  port = 0
  for line in process.stderr:
    if match := re.search(r"http://127.0.0.1:(\d+)", line):
      port = int(match[1])
    if "AVAILABLE" in line:
      break
  assert port, "the server ended"
  url = f"http://127.0.0.1:{port}"
  document = json.dumps({"instances": [TEXT]}).encode()
  with urllib.request.urlopen(
    f"{url}/v1/models/toy:predict", document
  ) as reply:
    assert json.load(reply)["predictions"] == Predictor(folder)([TEXT])
  for path, text in (("/", "<html"), ("/metrics", "serving_")):
    with urllib.request.urlopen(url + path) as reply:
      assert text in reply.read().decode()
  process.terminate()
  process.stderr.read()
  assert process.wait(30) == 0
