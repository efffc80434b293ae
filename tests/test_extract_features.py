"""extract_features.py as a command: vectors, files and the log."""

import json
from functools import partial

import keras
import numpy as np
import pytest

from data import vocab
from modeling import models
from tests import programs, small_model
from training import checkpoint

WORDS = ("who", "was", "jim", "henson", "a", "puppet", "##eer", "?")
TOKENS = [*vocab.SPECIAL_TOKENS, *WORDS]
SIZES = {"hidden_size": 6, "num_hidden_layers": 3}
SIZES |= {"max_position_embeddings": 20, "initializer_range": 0.5}
_run = partial(programs.run, "extract_features")
# Lengths vary, so that batches reorder the lines.
TEXTS = [
  "Who was Jim Henson ? ||| Jim Henson was a puppeteer",
  "",
  "a a a a a a a a a",
  "Jim",
  "henson ||| a",
  "what was that",
  "a puppet was a puppeteer a puppet was a puppeteer a puppet was a puppeteer",
]


@pytest.fixture(scope="module")
def model():
  keras.utils.set_random_seed(3)
  return models.encoder(small_model.config(len(TOKENS), **SIZES))


@pytest.fixture(scope="module")
def given(model, tmp_path_factory):
  """Writes the model and TEXTS; returns flags of extract_features.py."""
  folder = tmp_path_factory.mktemp("model")
  files = small_model.write(folder, TOKENS, **SIZES)
  checkpoint.write(str(folder / "bert_model.ckpt"), checkpoint.variables(model))
  (folder / "input.txt").write_text("\n".join(TEXTS) + "\n")
  return files | {
    "input_file": folder / "input.txt",
    "init_checkpoint": folder / "bert_model.ckpt",
    "max_seq_length": 16,
  }


def _output(path, **flags):
  _run(output_file=path, **flags)
  if path.suffix == ".npz":
    return dict(np.load(path))
  return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture(scope="module")
def lines(given, tmp_path_factory):
  """Returns the records that extract_features.py writes for TEXTS."""
  path = tmp_path_factory.mktemp("lines") / "out.jsonl"
  return _output(path, **given, layers="-1,0", batch_size=2)


def test_a_line_of_output_has_the_vectors_of_the_model(lines, model):
  # [CLS] henson [SEP] a [SEP]
  inputs = {"input_ids": [[2, 8, 3, 9, 3]], "input_mask": [[1] * 5]}
  inputs["segment_ids"] = [[0, 0, 0, 1, 1]]
  inputs = {name: np.array(value, np.int32) for name, value in inputs.items()}
  layers = model(inputs)["encoder_layers"]
  assert list(lines[4]) == ["linex_index", "features"]
  tokens = [feature["token"] for feature in lines[4]["features"]]
  assert tokens == ["[CLS]", "henson", "[SEP]", "a", "[SEP]"]
  for position, feature in enumerate(lines[4]["features"]):
    assert list(feature) == ["token", "layers"]
    assert [layer["index"] for layer in feature["layers"]] == [-1, 0]
    for layer in feature["layers"]:
      expected = layers[layer["index"]][0, position]
      np.testing.assert_allclose(layer["values"], expected, atol=1e-5)


def test_lines_come_in_the_order_of_the_input(lines):
  assert [line["linex_index"] for line in lines] == list(range(len(TEXTS)))
  lengths = [len(line["features"]) for line in lines]
  # Numbers of word pieces with [CLS] and [SEP]; --max_seq_length is 16.
  assert lengths == [14, 2, 11, 3, 5, 5, 16]
  tokens = [feature["token"] for feature in lines[5]["features"]]
  assert tokens == ["[CLS]", "[UNK]", "was", "[UNK]", "[SEP]"]


def _arrays(line):
  layers = [token["layers"] for token in line["features"]]
  return np.array([[x["values"] for x in token] for token in layers])


def test_an_npz_file_has_the_same_vectors_as_json_lines(lines, given, tmp_path):
  flags = given | {"layers": "-1,0", "batch_size": 5, "format": "npz"}
  result = _output(tmp_path / "out.npz", **flags)
  assert result["layers"].tolist() == [-1, 0]
  ids = np.split(result["input_ids"], result["offsets"][1:-1])
  tokens = [[TOKENS[i] for i in row] for row in ids]
  expected = [[token["token"] for token in line["features"]] for line in lines]
  assert tokens == expected
  expected = np.concatenate([*map(_arrays, lines)])
  np.testing.assert_allclose(result["values"], expected, atol=1e-5)


def test_pooling_writes_one_vector_per_line(lines, given, tmp_path):
  pooled = given | {"layers": "-1,0"}
  means = _output(tmp_path / "out.npz", **pooled, pooling="mean", format="npz")
  expected = [_arrays(line).mean(axis=0) for line in lines]
  np.testing.assert_allclose(means["vectors"], expected, atol=1e-5)
  first = _output(tmp_path / "out.jsonl", **pooled, pooling="cls")
  for record, line in zip(first, lines, strict=True):
    assert list(record) == ["linex_index", "layers"]
    result = [layer["values"] for layer in record["layers"]]
    np.testing.assert_allclose(result, _arrays(line)[0], atol=1e-5)


def test_words_missing_in_the_vocabulary_are_reported(given, tmp_path):
  korean = tmp_path / "korean.txt"
  korean.write_text("한국어 ||| a\n", encoding="utf-8")
  log = _run(**given | {"input_file": korean, "output_file": tmp_path / "x"})
  assert '"index": -3' in (tmp_path / "x").read_text()  # the lowest layer
  assert "korean.txt: --do_lower_case=True damages 50 %" in log
  assert "korean.txt: 50 % of the words become [UNK]" in log


def test_window_pooling_takes_the_mean_or_maximum_of_windows(given, tmp_path):
  (tmp_path / "long.txt").write_text("a puppet was a puppeteer " * 3 + "jim\n")
  flags = given | {"layers": -1, "pooling": "mean", "format": "npz"}
  flags |= {"input_file": tmp_path / "long.txt", "long_text": "windows"}
  flags |= {"max_seq_length": 6, "max_text_length": 15}
  vectors = []
  for kind in ("mean", "max"):
    path = tmp_path / f"{kind}.npz"
    log = _run(**flags, window_pooling=kind, output_file=path)
    vectors.append(np.load(path)["vectors"])
  mean, largest = vectors
  assert (largest >= mean - 1e-6).all() and (largest > mean + 1e-3).any()
  assert "--max_text_length=15 is exceeded by 1 of 1 text" in log
