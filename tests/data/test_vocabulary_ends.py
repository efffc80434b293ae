"""Limits of vocabularies and words: blank lines, long words, few tokens."""

import pytest

from data import features, tokenization, vocab
from storage import tfrecord
from tasks.pretraining.settings import Settings, find_schema


@pytest.mark.parametrize("char", ["a", "é", "力", "\U0001f989"])
def test_the_longest_word_has_200_characters(tmp_path, char):
  """The limit counts characters, not bytes."""
  path = tmp_path / "vocab.txt"
  vocab.save(["[UNK]", char, f"##{char}"], path)
  pieces = tokenization.WordpieceTokenizer(vocab.load(path)).tokenize
  assert pieces(200 * char) == [char, *[f"##{char}"] * 199]
  assert pieces(201 * char) == ["[UNK]"]
  assert pieces(f"{char} {201 * char} {char}") == [char, "[UNK]", char]


def _records(path, ids):
  """Writes a file with one unmasked record."""
  schema = features.pretraining(len(ids))
  row = {**features.pad_inputs(ids, [0] * len(ids), len(ids))}
  tfrecord.save(str(path), schema, [row | {"next_sentence_labels": [0]}])
  return str(path)


def _find(file, vocab_file, objective="mlm"):
  more = {"max_predictions_per_seq": 2, "objective": objective}
  more |= {"bert_config_file": "", "output_dir": ""}
  return find_schema(
    Settings(max_seq_length=3, vocab_file=vocab_file, **more), [file], 9
  )


def test_only_masks_need_the_token_of_a_mask(tmp_path):
  """Training without masks needs neither [MASK] nor a vocabulary."""
  path = tmp_path / "vocab.txt"
  vocab.save(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a"], path)
  file = _records(tmp_path / "records", [2, 4, 3])

  assert "masked_lm_ids" not in _find(file, path, "left_to_right")
  assert "masked_lm_ids" not in _find(file, None, "left_to_right")
  with pytest.raises(ValueError, match=r"lacks \[MASK\]"):
    _find(file, path)
  with pytest.raises(ValueError, match="vocab_file is needed"):
    _find(file, None)


@pytest.mark.parametrize("ids", [[4, 2, 3], [2, 4, 4], [3, 4, 2]])
def test_records_of_another_vocabulary_are_noticed_by_either_end(tmp_path, ids):
  path = tmp_path / "vocab.txt"
  vocab.save([*vocab.SPECIAL_TOKENS], path)
  file = _records(tmp_path / "records", ids)
  with pytest.raises(ValueError, match="was made with another vocabulary"):
    _find(file, path)
