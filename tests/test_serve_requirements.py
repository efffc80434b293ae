"""requirements-serve.txt is all that an export of LiteRT files needs.

The tests make an environment that has only the packages in the file, and the
packages that these require. Links to installed packages save a download.
"""

import json
import os
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from predictor import Predictor
from tests import programs
from tests.serving.server import client
from tests.serving.server.stand_in import Client

FILE = programs.ROOT / "requirements-serve.txt"
TEXT = "ab c"


def _requirements(file):
  lines = file.read_text().splitlines()
  return [line for line in lines if line and not line.startswith("#")]


def test_each_requirement_of_the_server_is_also_in_requirements_txt():
  every = _requirements(programs.ROOT / "requirements.txt")
  assert set(_requirements(FILE)) < set(every)


@pytest.fixture(scope="module", name="environment")
def environment_fixture(tmp_path_factory):
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
  return {"PYTHONPATH": str(folder), "PATH": os.environ["PATH"]}


# -S leaves out the packages of this environment.
PYTHON = [sys.executable, "-S"]


def test_the_predictor_answers_without_tensorflow(environment, folders):
  folder = folders["tagging"]
  answer = subprocess.check_output(
    [*PYTHON, "predictor.py", f"--model={folder}", f"--tokens={TEXT}"],
    cwd=programs.ROOT,
    env=environment,
  )
  assert [json.loads(answer)] == Predictor(folder, "litert")([TEXT])


def test_the_server_answers_and_shows_its_page(environment, folders):
  folder = folders["tagging"]
  process, port = client.start(folder, python=PYTHON, env=environment)
  server = Client(port)
  _, answer = server.ask({"instances": [TEXT]}, client.PATH)
  assert answer["predictions"] == Predictor(folder, "litert")([TEXT])
  for path, text in (("/", b"<html"), ("/metrics", b"serving_")):
    assert text in server.request("GET", path)[2]
  process.terminate()
  process.stderr.read()
  assert process.wait(30) == 0
