"""Models are restored from folders with run.json and without run.json."""

import json

import pytest

from data import vocab
from runs.trained_model import find_model
from tasks import open as opened
from tests import small_model

LOWER = [*vocab.SPECIAL_TOKENS, "a", "film"]
CASED = [*vocab.SPECIAL_TOKENS, "A", "Film", "is"]


def _write(folder, tokens):
  folder.mkdir()
  small_model.write(folder, tokens, max_position_embeddings=7)
  for suffix in ("index", "data-00000-of-00001"):
    (folder / f"x.{suffix}").touch()


def _record(folder, *entries):
  (folder / "run.json").write_text(json.dumps(entries))


@pytest.fixture(name="restored")
def _restored(monkeypatch):
  """Returns `restore`, with a session.restore that returns its arguments."""
  monkeypatch.setattr("runs.session.restore", lambda *given: given)
  return opened.restore


def test_files_in_a_folder_are_preferred_to_files_that_run_json_names(tmp_path):
  out, run = tmp_path / "out", tmp_path / "run"
  _write(out, LOWER)
  _write(run, LOWER)
  flags = {"bert_config_file": "bert_config.json", "vocab_file": "vocab.txt"}
  flags |= {"do_lower_case": False}
  _record(out, {"program": "run_ner", "flags": flags, "directory": str(run)})
  prefix, names = str(out / "x"), ("bert_config.json", "vocab.txt")
  for folder in (out, run):
    paths = (str(folder / name) for name in names)
    assert find_model(str(out))[:4] == (prefix, *paths, False)
    for name in names:
      (folder / name).unlink()


@pytest.mark.parametrize("tokens", [LOWER, CASED])
def test_the_vocabulary_decides_do_lower_case_if_the_run_had_no_vocab_file(
  tmp_path, tokens
):
  out = tmp_path / "out"
  _write(out, tokens)
  flags = {"vocab_file": None, "do_lower_case": None}
  _record(out, {"program": "run_pretraining", "flags": flags})
  assert find_model(str(out)).do_lower_case == (tokens is LOWER)
  (out / "run.json").unlink()
  assert find_model(str(out)).do_lower_case == (tokens is LOWER)


def test_the_vector_of_a_text_is_by_default_the_mean_of_the_last_layer(
  tmp_path, restored
):
  _write(tmp_path / "out", LOWER)
  folder = str(tmp_path / "out")
  _, path, entry, build, changes = restored(folder, layers="-2")
  assert (path, changes["layers"]) == (folder, "-2")
  assert build.keywords == {"of_tokens": False}
  assert changes["init_checkpoint"] == f"{folder}/x"
  flags = entry["flags"]
  assert (flags["layers"], flags["pooling"]) == ("-1", "mean")
  assert (flags["max_seq_length"], flags["do_lower_case"]) == (7, True)


def test_the_last_entry_of_run_json_decides_how_a_folder_is_restored(
  tmp_path, restored
):
  first = {"program": "run_squad", "flags": {"max_seq_length": 8}}
  last = {"program": "run_ner", "flags": {"max_seq_length": 9}}
  _record(tmp_path, first, last)
  _, _, entry, build, changes = restored(str(tmp_path), lstm_units=3)
  assert (entry["program"], entry["flags"]) == ("run_ner", last["flags"])
  assert build.__module__ == "tasks.ner.task"
  assert changes == {"lstm_units": 3}
