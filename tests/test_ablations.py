"""Causal language models and what is built on them, as commands."""

import json

import numpy as np
import pytest

from data.vocab import SPECIAL_TOKENS
from predictor import Predictor
from tests import programs, small_model

WORDS = [*SPECIAL_TOKENS, *"abcde.", "ab"]
T = 12


def _pretrain(folder, objective, **flags):
  programs.run(
    "run_pretraining",
    bert_config_file=folder / "bert_config.json",
    input_file=folder / "records",
    output_dir=folder / objective,
    objective=objective,
    max_seq_length=T,
    max_predictions_per_seq=2,
    train_batch_size=4,
    num_train_steps=2,
    num_warmup_steps=1,
    do_train=True,
    **flags,
  )
  [start] = json.loads((folder / objective / "run.json").read_text())
  assert start["flags"]["attention"] == objective


@pytest.fixture(name="folder", scope="module")
def _folder(tmp_path_factory):
  """A folder with a model's files, records, and texts with labels."""
  folder = tmp_path_factory.mktemp("ablations")
  small_model.write(folder, WORDS)
  (folder / "text.txt").write_text("ab c d .\ne a b .\n\nc d e .\na b .\n" * 4)
  rows = ["text\tlabel", *["a b c .\tyes", "d e .\tno"] * 8]
  (folder / "train.tsv").write_text("\n".join(rows) + "\n")
  programs.run(
    "create_pretraining_data",
    input_file=folder / "text.txt",
    output_file=folder / "records",
    vocab_file=folder / "vocab.txt",
    max_seq_length=T,
    max_predictions_per_seq=2,
    dupe_factor=1,
  )
  return folder


def test_a_causal_model_is_trained_without_special_tokens(folder):
  vocab_file = folder / "vocab.txt"
  _pretrain(
    folder, "left_to_right", special_tokens=False, vocab_file=vocab_file
  )


@pytest.mark.slow
def test_two_networks_and_a_bilstm_are_trained_and_exported(folder, tmp_path):
  """Their folder and their export give the same answers."""
  for objective in ("left_to_right", "right_to_left"):
    _pretrain(folder, objective, do_eval=True)
  log = programs.run(
    "run_classifier",
    task_name="tsv",
    data_dir=folder,
    bert_config_file=folder / "bert_config.json",
    vocab_file=folder / "vocab.txt",
    init_checkpoint=f"{folder / 'left_to_right'},{folder / 'right_to_left'}",
    output_dir=tmp_path / "shallow",
    export_dir=tmp_path / "export",
    attention="shallow",
    max_seq_length=T,
    train_batch_size=4,
    num_train_epochs=1,
    **dict.fromkeys(("add_bilstm", "do_train", "do_export"), True),
  )
  assert "fresh: bert/left_to_right/bilstm/" in log
  answers = [
    Predictor(str(tmp_path / name))(text=["a b", ""])
    for name in ("shallow", "export")
  ]
  for first, second in zip(*answers, strict=True):
    np.testing.assert_allclose(
      first["probabilities"], second["probabilities"], atol=1e-6
    )
