"""build_vocab.py --extend gives a model the words of a new domain."""

import json
import os

import keras
import numpy as np
import pytest

from data import vocab
from data.tokenization import FullTokenizer
from modeling import models
from tests import programs, small_model
from training import checkpoint

WORDS = (
  "the of . , car ##ci ##no ##ma ##s cyst ##ic fi ##bro ##sis 1 ##2".split()
)
TOKENS = [*vocab.SPECIAL_TOKENS, "[unused0]", "[unused1]", *WORDS]
SIZES = {"num_hidden_layers": 2, "max_position_embeddings": 20}
CONFIG = small_model.config(len(TOKENS), **SIZES)
WORD_EMBEDDINGS = "bert/embeddings/word_embeddings"
TEXT = "The carcinoma of carcinoma carcinomas.\nCystic fibrosis, 12 12 12 12.\n"
TEXT = f"{TEXT * 3}cystic fibrosis\n"


@pytest.fixture(scope="module", name="given")
def _given(tmp_path_factory):
  """Writes a model with an optimizer's slots; returns flags of build_vocab."""
  folder = tmp_path_factory.mktemp("model")
  keras.utils.set_random_seed(3)
  values = checkpoint.variables(models.pretrainer(CONFIG))
  slots = {f"{name}/adam_m": value for name, value in values.items()}
  checkpoint.write(str(folder / "bert_model.ckpt"), values | slots)
  files = small_model.write(folder, TOKENS, **SIZES)
  (folder / "text.txt").write_text(TEXT)
  files["extend"] = files.pop("vocab_file")
  files |= {"input_file": folder / "text.txt", "init_checkpoint": folder}
  return files | {"new_words": 3, "append_words": True}


@pytest.fixture(scope="module", name="extended")
def _extended(given, tmp_path_factory):
  """Runs build_vocab.py --extend; returns the new folder and the log."""
  folder = tmp_path_factory.mktemp("new") / "medical"
  log = programs.run("build_vocab", **given, output_file=folder / "vocab.txt")
  return folder, log


def test_the_words_that_save_the_most_pieces_become_tokens(extended):
  folder, log = extended
  tokens = list(vocab.load(folder / "vocab.txt"))
  # The new tokens occur 6, 4 and 4 times, and save 3, 2 and 1 pieces each time.
  # "carcinomas" occurs 3 times. It would save 4 pieces each time, but only 1 if
  # "carcinoma" is a token.
  assert tokens[5:7] == ["carcinoma", "fibrosis"]
  assert tokens[7:] == [*WORDS, "cystic"]
  assert (
    "(carcinoma, fibrosis, cystic, ...): 2 replace [unused] tokens, 1" in log
  )
  names = {"vocab.txt", "bert_config.json", "bert_model.ckpt.index"}
  assert names < set(os.listdir(folder))
  assert os.listdir(folder.parent) == ["medical"]
  text = "The cystic carcinomas"
  pieces = FullTokenizer(folder / "vocab.txt").tokenize(text)
  assert pieces == ["the", "cystic", "carcinoma", "##s"]


def test_embeddings_of_new_tokens_are_the_means_of_their_pieces(
  given, extended
):
  folder, _ = extended
  old = checkpoint.open_reader(str(given["init_checkpoint"]))
  new = checkpoint.open_reader(str(folder))
  ids = vocab.load(given["extend"])
  pieces = [ids["cyst"], ids["##ic"]]
  per_token = WORD_EMBEDDINGS, "cls/predictions/output_bias"
  assert {*new.shapes} == {name for name in old.shapes if "adam" not in name}
  for name in new.shapes:
    before, after = old[name], new[name]
    if name in per_token:
      np.testing.assert_array_equal(after[-1], before[pieces].mean(0))
      # The first 7 are special tokens, and tokens that the new words replace.
      before, after = before[7:], after[7:-1]
    np.testing.assert_array_equal(before, after, name)
  config = json.loads((folder / "bert_config.json").read_text())
  assert config == json.loads(given["bert_config_file"].read_text()) | {
    "vocab_size": len(TOKENS) + 1
  }


def test_a_checkpoint_with_nan_is_not_extended(given, tmp_path):
  values = checkpoint.variables(models.pretrainer(CONFIG))
  values[WORD_EMBEDDINGS] = np.full_like(values[WORD_EMBEDDINGS], np.nan)
  checkpoint.write(str(tmp_path / "bert_model.ckpt"), values)
  flags = given | {"init_checkpoint": tmp_path}
  flags |= {"output_file": tmp_path / "x" / "vocab.txt"}
  message = f"1 of {len(values)} variables have NaN"
  programs.fails("build_vocab", message, **flags)
  assert not (tmp_path / "x").exists()
