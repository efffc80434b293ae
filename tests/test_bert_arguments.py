"""Arguments of bert.load come before what the folder says."""

import pytest

import bert
from data import vocab
from runs.model_files import ModelFiles
from tests import small_model

TOKENS = [*vocab.SPECIAL_TOKENS, "a", "A", "b"]


@pytest.fixture(name="load")
def _load(tmp_path, monkeypatch):
  """Returns bert.load of a folder with a given letter case, without a model."""
  names = small_model.write(tmp_path, TOKENS, max_position_embeddings=9)
  config = small_model.config(len(TOKENS), max_position_embeddings=9)
  monkeypatch.setattr(bert.run_folder, "initialize", lambda model, path: None)

  def load(is_lower_cased, *given, **settings):
    paths = str(tmp_path / "x"), *map(str, names.values())
    files = ModelFiles(*paths, is_lower_cased, config)
    monkeypatch.setattr(bert, "find_model", lambda folder: files)
    return bert.load(tmp_path, *given, **settings)

  return load


def _make(config, **settings):
  return config, settings


@pytest.mark.parametrize("given", [None, True, False])
@pytest.mark.parametrize("of_folder", [True, False])
def test_the_case_of_an_argument_counts_first(load, of_folder, given):
  _, encode = load(of_folder, _make, do_lower_case=given)
  is_lower_cased = of_folder if given is None else given
  ids = encode(["A"])["input_ids"][0].tolist()
  assert TOKENS[ids[1]] == ("a" if is_lower_cased else "A")


@pytest.mark.parametrize(("given", "length"), [(None, 9), (4, 4), (9, 9)])
def test_the_length_of_an_argument_counts_first(load, given, length):
  (config, settings), encode = load(True, _make, given, num_labels=0)
  assert (config.max_position_embeddings, settings) == (9, {"num_labels": 0})
  assert encode(["a " * 20])["input_ids"].shape == (1, length)
  assert encode(["a", "a"])["input_ids"].shape == (2, 3)


def test_second_texts_may_be_blank_or_none(load):
  _, encode = load(True, _make)
  alone = encode(["a", "b"])
  for pairs in (None, ["", ""], [" ", "\t"]):
    for name, values in encode(["a", "b"], pairs).items():
      assert values.tolist() == alone[name].tolist()
  assert encode([], [])["input_ids"].shape == (0, 0)
  rows = encode(["a", "b"], ["", "b"])
  assert rows["segment_ids"].tolist() == [[0] * 5, [0, 0, 0, 1, 1]]
  with pytest.raises(ValueError, match="1 texts, but 0 pairs"):
    encode(["a"], [])
