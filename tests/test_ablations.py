"""The paper's ablations as commands: what is trained one way stays that way."""

import json

import numpy as np
import pytest

from data.vocab import SPECIAL_TOKENS
from predictor import Predictor
from tests import programs, small_model

WORDS = [*SPECIAL_TOKENS, *"abcde.", "ab"]
T = 12


@pytest.fixture(name="folder", scope="module")
def _folder(tmp_path_factory):
  """A folder with records, texts with labels, and a language model."""
  folder = tmp_path_factory.mktemp("ablations")
  small_model.write(folder, WORDS)
  (folder / "text.txt").write_text("ab c d .\ne a b .\n\nc d e .\na b .\n" * 4)
  rows = ["text\tlabel", *["a b c .\tyes", "d e .\tno"] * 8]
  for split in ("train", "dev"):
    (folder / f"{split}.tsv").write_text("\n".join(rows) + "\n")
  programs.run(
    "create_pretraining_data",
    input_file=folder / "text.txt",
    output_file=folder / "records",
    vocab_file=folder / "vocab.txt",
    max_seq_length=T,
    max_predictions_per_seq=2,
    dupe_factor=1,
  )
  programs.run(
    "run_pretraining",
    **_pretraining(folder),
    output_dir=folder / "left_to_right",
    objective="left_to_right",
    special_tokens=False,
    vocab_file=folder / "vocab.txt",
  )
  return folder


def _pretraining(folder):
  return {
    "bert_config_file": folder / "bert_config.json",
    "input_file": folder / "records",
    "max_seq_length": T,
    "max_predictions_per_seq": 2,
    "train_batch_size": 4,
    "num_train_steps": 2,
    "num_warmup_steps": 1,
    "do_train": True,
  }


def _pretrain_right_to_left(folder):
  if not (folder / "right_to_left").exists():
    programs.run(
      "run_pretraining",
      **_pretraining(folder),
      output_dir=folder / "right_to_left",
      objective="right_to_left",
      do_eval=True,
    )


def _fine_tuning(folder):
  return {
    "task_name": "tsv",
    "data_dir": folder,
    "bert_config_file": folder / "bert_config.json",
    "vocab_file": folder / "vocab.txt",
    "init_checkpoint": folder / "left_to_right",
    "max_seq_length": T,
    "train_batch_size": 8,
    "num_train_epochs": 1,
    "do_train": True,
  }


@pytest.fixture(name="tuned", scope="module")
def _tuned(folder):
  """The folder of a left-to-right classifier."""
  programs.run(
    "run_classifier",
    **_fine_tuning(folder),
    output_dir=folder / "tuned",
    attention="left_to_right",
    do_eval=True,
  )
  return folder / "tuned"


def test_run_json_knows_the_direction(folder):
  [start] = json.loads((folder / "left_to_right" / "run.json").read_text())
  assert start["flags"]["attention"] == "left_to_right"


@pytest.mark.slow
def test_run_json_knows_the_other_direction(folder):
  _pretrain_right_to_left(folder)
  [start] = json.loads((folder / "right_to_left" / "run.json").read_text())
  assert start["flags"]["attention"] == "right_to_left"


@pytest.mark.slow
def test_predictions_have_the_direction_of_training(tuned):
  """What is asked of the folder alone is the left-to-right model."""
  [here] = Predictor(str(tuned))(text=["a b"])
  [other] = Predictor(str(tuned), attention="bidirectional")(text=["a b"])
  assert np.abs(
    np.subtract(here["probabilities"], other["probabilities"])
  ).max()


@pytest.mark.slow
def test_two_networks_and_a_bilstm_are_trained_and_asked(folder, tmp_path):
  """Their folder alone, and their export, say the same."""
  _pretrain_right_to_left(folder)
  both = f"{folder / 'left_to_right'},{folder / 'right_to_left'}"
  changes = {
    "init_checkpoint": both,
    "attention": "shallow",
    "add_bilstm": True,
    "do_export": True,
  }
  log = programs.run(
    "run_classifier",
    **_fine_tuning(folder) | changes,
    output_dir=tmp_path / "shallow",
    export_dir=tmp_path / "export",
  )
  assert "fresh: bert/left_to_right/bilstm/" in log
  answers = [
    Predictor(str(tmp_path / name))(text=["a b", ""])
    for name in ("shallow", "export")
  ]
  for one, other in zip(*answers, strict=True):
    np.testing.assert_allclose(
      one["probabilities"], other["probabilities"], atol=1e-6
    )
  swapped = ",".join(reversed(both.split(",")))
  changes |= {"init_checkpoint": swapped, "output_dir": tmp_path / "swapped"}
  cases = {
    "was trained with --attention=right_to_left, the network here has "
    "left_to_right": _fine_tuning(folder) | changes | {"do_export": False}
  }
  _refused("run_classifier", cases, tmp_path)


def test_another_direction_is_refused(folder, tmp_path):
  cases = {
    "was trained with --attention=left_to_right, the network here has "
    "bidirectional: give --attention=left_to_right": _fine_tuning(folder)
    | {"output_dir": tmp_path / "a"},
    "left_to_right is of run_pretraining.py: name another": _fine_tuning(folder)
    | {"output_dir": folder / "left_to_right"},
  }
  _refused("run_classifier", cases, tmp_path)


def test_flags_that_contradict_each_other_are_named(folder, tmp_path):
  given = _pretraining(folder) | {"output_dir": tmp_path / "b"}
  cases = {
    "--attention=bidirectional contradicts --objective=left_to_right": given
    | {"objective": "left_to_right", "attention": "bidirectional"},
    "--objective=mlm needs special tokens": given
    | {"objective": "mlm", "special_tokens": False},
    "--nospecial_tokens needs --vocab_file": given
    | {"objective": "right_to_left", "special_tokens": False},
  }
  _refused("run_pretraining", cases, tmp_path)


def _refused(program, cases, tmp_path):
  """Each case ends with its message and without a traceback."""
  results = programs.run_each(program, list(cases.values()))
  for message, (status, log) in zip(cases, results, strict=True):
    programs.check_error(status, log, message)
