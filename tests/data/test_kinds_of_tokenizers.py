"""The name of a vocabulary file chooses the kind of tokenizer."""

import pytest

from data import tokenization
from data.features import RowEncoder
from data.tokenization import FullTokenizer
from tests import characters


@pytest.fixture(name="path")
def _path(tmp_path, monkeypatch):
  """Returns the path of a vocabulary of a new kind."""
  kind = characters.Characters
  monkeypatch.setitem(tokenization.KINDS, characters.ENDING, kind)
  path = tmp_path / f"vocab{characters.ENDING}"
  path.write_text("ab")
  return path


def test_the_ending_of_a_file_says_its_kind(path, tmp_path):
  assert tokenization.open_tokenizer(path).tokenize("aB c") == [
    "\u2581a",
    "b",
    "<unk>",
  ]
  for name in ("vocab.txt", "vocab"):
    (tmp_path / name).write_text("[UNK]\na\n")
    kind = tokenization.open_tokenizer(tmp_path / name)
    assert type(kind) is FullTokenizer


@pytest.mark.parametrize("lower_case", [True, False])
def test_a_vocabulary_is_saved_in_a_folder_of_its_own(
  path, tmp_path, lower_case
):
  (tmp_path / "export").mkdir()
  tokenizer = tokenization.open_tokenizer(path, lower_case)
  tokenizer.save(str(tmp_path / "export"))
  saved = tokenization.open_saved(str(tmp_path / "export"), lower_case)
  assert type(saved) is characters.Characters
  assert saved.vocab == tokenizer.vocab
  assert saved.ids("aB") == tokenizer.ids("aB")


def test_rows_have_the_special_tokens_of_their_tokenizer(path):
  encoder = RowEncoder(tokenization.open_tokenizer(path), 8)
  row = encoder.encode("ab", "b")
  assert row.ids == [0, 5, 8, 2, 6, 2]
  assert encoder.inputs(row.ids, row.segments)["input_ids"][6:] == [1, 1]
