"""The code of docs/keras.md runs, and bert.py does what the page promises."""

import bert_packages

import importlib
import json
import os
import re
import shutil
import sys

import keras
import numpy as np
import pytest

import bert
from conversion import original
from data import vocab
from modeling import models
from predictor import Predictor
from storage import UserError
from tests import programs, shared, small_model
from training import checkpoint

BLOCKS = re.findall(
  r"```python\n(.*?)```", (programs.ROOT / "docs/keras.md").read_text(), re.S
)
WORDS = ["a", "film", "that", "is", "good", "bad", "very", "not", "."]
TOKENS = [*vocab.SPECIAL_TOKENS, *WORDS]


@pytest.fixture(scope="module", name="folder")
def _folder(tmp_path_factory):
  """Writes an encoder of two layers, with the files of a release."""
  folder = tmp_path_factory.mktemp("keras") / "bert"
  folder.mkdir()
  small_model.write(folder, TOKENS, num_hidden_layers=2)
  keras.utils.set_random_seed(1)
  config = small_model.config(len(TOKENS), num_hidden_layers=2)
  values = checkpoint.variables(models.encoder(config))
  checkpoint.write(str(folder / "model.ckpt-11"), values)
  return folder


@pytest.fixture(scope="module", name="values")
def _values(folder):
  """Runs all blocks of docs/keras.md; returns the Python variables by name."""
  values = {}
  with pytest.MonkeyPatch.context() as patch:
    patch.chdir(folder.parent)
    for block in BLOCKS:
      exec(compile(block, "docs/keras.md", "exec"), values)
  return values


def test_the_vectors_in_docs_keras_md_are_means_of_token_vectors(values):
  model, encode = values["model"], values["encode"]
  outputs = model(encode(["A film.", "It rained."]))["sequence_output"]
  for vector, row in zip(values["vectors"], outputs, strict=True):
    # Both texts have five tokens: "it" and "rained" are unknown.
    np.testing.assert_allclose(vector, np.mean(row[:5], 0), atol=1e-5)
  # docs/keras.md asks for the second-to-last layer.
  tokens = model(encode(["A film."]))["encoder_layers"][-2]
  result = np.array(values["answer"]["token_vectors"])[:, 0]
  np.testing.assert_allclose(result, tokens[0], atol=1e-5)
  assert values["answer"]["tokens"] == ["[CLS]", "a", "film", ".", "[SEP]"]


def test_a_checkpoint_written_by_keras_code_can_be_restored(values, folder):
  path = folder.parent / "film" / "model.ckpt-1"  # the page writes this file
  model = models.classifier(values["model"].get_layer("bert").config, 2)
  checkpoint.restore_strict(model, str(path))
  batch = values["encode"](["a good film", "not very"])
  expected = values["classifier"](batch)["logits"]
  np.testing.assert_allclose(model(batch)["logits"], expected, atol=1e-5)


def test_a_head_with_more_labels_gets_initial_values(values, folder, caplog):
  trained = folder.parent / "film"
  for name in ("bert_config.json", "vocab.txt"):
    shutil.copy(folder / name, trained)
  assert bert.load(trained, models.classifier, num_labels=2)
  assert "the head is fresh" not in caplog.text
  model, _ = bert.load(trained, models.classifier, num_labels=3)
  assert model.output["logits"].shape == (None, 3)
  assert "the head is fresh, not restored from" in caplog.text


def test_rows_have_the_tokens_of_texts_and_pairs(folder):
  encode = bert.TextEncoder(folder / "vocab.txt", max_seq_length=7)
  batch = encode(["A film", "good"], ["is very very very good", ""])
  pairs = [
    ["[CLS]", "a", "film", "[SEP]", "is", "very", "[SEP]"],
    ["[CLS]", "good", "[SEP]", "[PAD]", "[PAD]", "[PAD]", "[PAD]"],
  ]
  assert [[TOKENS[i] for i in row] for row in batch["input_ids"]] == pairs
  assert batch["segment_ids"].tolist() == [[0] * 4 + [1] * 3, [0] * 7]
  assert batch["input_mask"].sum(axis=1).tolist() == [7, 3]
  assert encode([])["input_ids"].shape == (0, 2)  # Keras needs a length > 0
  alone = encode(["a", "film"])
  assert alone["input_ids"].shape == (2, 3)
  for pairs in (None, ["", ""]):
    for name, values in encode(["a", "film"], pairs).items():
      np.testing.assert_array_equal(values, alone[name])


def test_embed_returns_an_array_and_normalizes_on_request(values, folder):
  model, encode = values["model"], values["encode"]
  texts = ["a film", "is very good", "not"]
  embed = Predictor(folder).embed
  vectors = embed(iter(texts))
  assert vectors.shape == (3, 16)
  assert vectors.dtype == np.float32
  for vector, text in zip(vectors, texts, strict=True):
    [tokens] = model(encode([text]))["sequence_output"]
    np.testing.assert_allclose(vector, np.mean(tokens, 0), atol=1e-5)
  normalized = embed(texts, normalize=True)
  norms = np.linalg.norm(vectors, axis=1, keepdims=True)
  np.testing.assert_allclose(normalized, vectors / norms, rtol=1e-5)
  assert np.abs(norms - 1).min() > 0.01  # `vectors` are not normalized
  with pytest.raises(UserError, match=r"of several layers.* as in layers=-1"):
    Predictor(folder, layers="-1,-2").embed(texts)


@pytest.mark.parametrize("name", bert_packages.PACKAGES.split())
def test_an_error_names_a_file_hiding_a_package(tmp_path, monkeypatch, name):
  (tmp_path / f"{name}.py").touch()
  monkeypatch.syspath_prepend(tmp_path)
  monkeypatch.delitem(sys.modules, name, raising=False)
  message = f"{tmp_path}/{name}.py hides {programs.ROOT}/{name}: rename it"
  with pytest.raises(ImportError, match=re.escape(message)):
    importlib.reload(bert_packages)


LEVEL = "; import os; print(os.environ['TF_CPP_MIN_LOG_LEVEL'])"


@pytest.mark.parametrize("name", ["predictor", shared.slow("bert")])
def test_importing_bert_or_the_predictor_silences_tensorflow(name):
  environment = {**os.environ}
  environment.pop("TF_CPP_MIN_LOG_LEVEL", None)
  done = programs.python(["-c", f"import {name}{LEVEL}"], env=environment)
  assert (done.stdout, done.stderr) == ("3\n", "")


def test_load_builds_the_network_that_run_json_describes(folder, tmp_path):
  shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
  flags = {"attention": "left_to_right", "add_bilstm": True}
  (tmp_path / "run.json").write_text(json.dumps([{"flags": flags}]))
  config = bert.load(tmp_path)[0].get_layer("bert").config
  assert (config.attention, config.add_bilstm) == ("left_to_right", True)


def test_a_configuration_unlike_the_trainings_is_refused(folder, tmp_path):
  shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
  config = json.loads((folder / "bert_config.json").read_text())
  entry = {"flags": {}, "config": config | {"hidden_act": "relu"}}
  (tmp_path / "run.json").write_text(json.dumps([entry]))
  for read in (bert.load, original.read):
    with pytest.raises(UserError, match=r"has hidden_act relu, but .* gelu: "):
      read(str(tmp_path))
  fewer = json.dumps(config | {"num_hidden_layers": 1})
  (tmp_path / "bert_config.json").write_text(fewer)
  with pytest.raises(UserError, match=r"num_hidden_layers 2 and .* 1 and "):
    bert.load(str(tmp_path))


def test_do_lower_case_comes_from_the_argument_or_run_json(folder, tmp_path):
  shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
  for trained, given, expected in (
    (False, None, False),
    (True, False, False),
    (False, True, True),
  ):
    flags = {"do_lower_case": trained, "vocab_file": "vocab.txt"}
    (tmp_path / "run.json").write_text(json.dumps([{"flags": flags}]))
    _, encode = bert.load(tmp_path, do_lower_case=given)
    assert encode.tokenizer.tokenize("A") == ["a" if expected else "[UNK]"]


def test_max_seq_length_comes_from_the_argument_or_the_model(folder):
  for given, length in ((None, 16), (4, 4)):
    _, encode = bert.load(folder, max_seq_length=given)
    assert encode(["a " * 20])["input_ids"].shape == (1, length)


def test_errors_name_the_mistake_and_the_remedy(folder, tmp_path):
  encode = bert.TextEncoder(folder / "vocab.txt")
  for message, *texts in (
    ("texts is 'a film': give a list of texts", "a film"),
    (r"pairs\[0\] is 7: give a text", ["a"], [7]),
    ("2 texts, but 1 pairs", ["a", "film"], ["is"]),
    ("2 texts, but 0 pairs", ["a", "film"], []),
  ):
    with pytest.raises(UserError, match=message):
      encode(*texts)
  with pytest.raises(FileNotFoundError, match="no checkpoint in the folder"):
    bert.load(tmp_path)
  for length, reason in ((99, "exceeds"), (2, "is less than 3")):
    with pytest.raises(ValueError, match=f"max_seq_length {length} {reason}"):
      bert.load(folder, max_seq_length=length)
