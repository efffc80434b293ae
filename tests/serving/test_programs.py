"""Exports by programs from a checkpoint alone."""

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import keras
import pytest

from data import vocab
from modeling import models
from predictor import Predictor
from tests import programs
from tests.serving import stand_in
from tests.serving.tasks import CONFIG, T
from tests.tasks.test_answers import check_row
from training import checkpoint

TEXTS = ["ab c. ||| de", "", "abcde " * 7, "A [MASK] b [MASK]"]
INPUTS = {
  "swag": {"sent1": ["ab c"], "sent2": ["a"], "choices": [["b", "c d", "."]]},
  "pretraining": {"text": TEXTS},
}


@pytest.fixture(name="made", scope="module")
def _made(tmp_path_factory):
  """Folder of checkpoints, configuration and vocabulary; models by name."""
  keras.utils.set_random_seed(2)
  made = {
    "swag": models.multiple_choice(CONFIG),
    "pretraining": models.pretrainer(CONFIG),
  }
  folder = tmp_path_factory.mktemp("made")
  for name, model in made.items():
    path = folder / name / "some.ckpt"
    checkpoint.write(str(path), checkpoint.variables(model))
  CONFIG.to_json(str(folder / "bert_config.json"))
  vocab.save(stand_in.WORDS, folder / "vocab.txt")
  return folder, made


def _export(folder, name, **flags):
  defaults = {
    "bert_config_file": folder / "bert_config.json",
    "vocab_file": folder / "vocab.txt",
    "init_checkpoint": folder / name / "some.ckpt",
    "max_seq_length": T,
    "do_export": True,
    "export_dir": folder / name / "export",
  }
  return programs.run(f"run_{name}", **defaults | flags)


# A program that loads an export imports nothing of this repository.
ASK = """
import json, sys
import tensorflow as tf

answers = {}
for path, inputs in json.load(sys.stdin).items():
  model = tf.saved_model.load(path).signatures["serving_default"]
  inputs = {name: tf.constant(values) for name, values in inputs.items()}
  answers[path] = {k: v.numpy().tolist() for k, v in model(**inputs).items()}
print(json.dumps(answers, default=bytes.decode))
"""


@pytest.fixture(name="answers", scope="module")
def _answers(made):
  """Answers of the exports, by name."""
  folder, _ = made
  runs = {
    "swag": {"output_dir": folder / "swag"},
    "pretraining": {"output_dir": folder / "pretraining", "export_top_k": 2},
  }
  with ThreadPoolExecutor(max_workers=2) as pool:
    done = [
      pool.submit(_export, folder, name, **flags)
      for name, flags in runs.items()
    ]
  assert all("exported to" in run.result() for run in done)
  done = subprocess.run(
    [sys.executable, "-c", ASK],
    input=json.dumps({f"{folder}/{k}/export": v for k, v in INPUTS.items()}),
    capture_output=True,
    text=True,
    check=True,
    cwd=folder,
  )
  return dict(zip(INPUTS, json.loads(done.stdout).values(), strict=True))


@pytest.mark.slow
def test_a_process_without_this_project_gets_the_answers_of_predictor(
  answers, made
):
  folder, _ = made
  for name, inputs in INPUTS.items():
    predict = Predictor(folder / name / "export")
    for row, expected in enumerate(predict(**inputs)):
      result = {key: value[row] for key, value in answers[name].items()}
      assert result.keys() == expected.keys()
      for key in expected:
        check_row(result, expected, key)
