"""The installed package works, even if a user has a module named data."""

import json
import os
import subprocess
import sys
import tomllib

import pytest

from tests import programs, small_model
from tests.serving import stand_in

USER = """
import data
import json
from bert_tf2 import Predictor, load

model, encode = load("model")
[answer] = Predictor("export/1")(["ab c"])
print(json.dumps({
  "mine": data.MINE,
  "shape": [*model(encode(["a b"]))["pooled_output"].shape],
  "labels": answer["labels"],
}))
"""


def test_each_program_has_a_console_command():
  text = (programs.ROOT / "pyproject.toml").read_text()
  scripts = tomllib.loads(text)["project"]["scripts"]
  names = {
    path.stem
    for path in programs.ROOT.glob("*.py")
    if "import cli.start_up" in path.read_text()  # modules lack this line
  }
  assert scripts == {
    f"bert-{name.replace('_', '-')}": f"bert_tf2.commands:{name}"
    for name in names
  }


@pytest.fixture(scope="module", name="user")
def user_fixture(tmp_path_factory):
  """Makes a user's folder, with the built package in `site` and a data.py."""
  folder = tmp_path_factory.mktemp("user")
  paths = f"--build-base={folder} --build-lib={folder}/site"
  done = programs.python(["setup.py", "-q", "build", *paths.split()])
  assert done.returncode == 0, done.stderr
  (folder / "data.py").write_text("MINE = 1\n")
  small_model.write(folder, stand_in.WORDS)
  rows = ["text\tlabel", *["ab c\tyes", "c ab\tno"] * 4]
  for name in ("train", "dev"):
    (folder / f"{name}.tsv").write_text("\n".join(rows) + "\n")
  return folder


def _start(folder, *arguments):
  return subprocess.Popen(
    [sys.executable, *arguments],
    cwd=folder,
    env={"PYTHONPATH": "site", "PATH": os.environ["PATH"]},
    stdout=subprocess.PIPE,
    stderr=subprocess.PIPE,
    text=True,
  )


def _run(folder, *arguments):
  process = _start(folder, *arguments)
  out, log = process.communicate()
  assert process.returncode == 0, log
  return out


def _command(name):
  return f"from bert_tf2.commands import {name} as main; main()"


PIPELINE = """
import os
import sys
from unittest.mock import MagicMock

# Beam may not be installed.
for name in ("", ".metrics", ".options", ".options.pipeline_options"):
  sys.modules["apache_beam" + name] = MagicMock(DoFn=object)
from bert_tf2.data.pretraining import beam

beam._run(lambda pipeline: None, [])
print(os.environ["PYTHONPATH"])
"""


def test_worker_processes_of_beam_import_a_data_module_of_the_user(user):
  assert _run(user, "-c", PIPELINE) == "site\n"


TRAIN = """
  --task_name=tsv --data_dir=. --bert_config_file=bert_config.json
  --vocab_file=vocab.txt --max_seq_length=8 --do_train --num_train_epochs=1
  --train_batch_size=4 --output_dir=model --do_export --export_dir=export/1
  --export_format=tflite
"""


@pytest.mark.slow
def test_the_package_works_with_a_data_module_of_the_user(user):
  assert "run_classifier" in _run(
    user, "-c", _command("run_classifier"), "--help"
  )
  _run(user, "-c", _command("run_classifier"), *TRAIN.split())
  (user / "script.py").write_text(USER)
  answer = json.loads(_run(user, "script.py"))
  assert answer == {"mine": 1, "shape": [1, 16], "labels": ["no", "yes"]}
  server = _start(
    user, "-c", _command("serve"), "--model=toy=export", "--port=0"
  )
  for line in server.stderr:
    if "AVAILABLE" in line:
      break
  server.terminate()
  server.communicate()
  assert server.returncode == 0
