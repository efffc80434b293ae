import numpy as np
import pytest
import tensorflow as tf

from data import batching, features
from data.tokenization import FullTokenizer
from data.write_records import log_lengths


def test_the_length_of_a_row_counts_the_tokens_before_truncation(tmp_path):
  path = tmp_path / "vocab.txt"
  path.write_text("[CLS]\n[SEP]\n[UNK]\na\nb\n")
  encoder = features.RowEncoder(FullTokenizer(path), 6)
  lengths = []
  for texts, ids in (
    (("a b", None), [0, 3, 4, 1]),
    (("a b a b a", None), [0, 3, 4, 3, 4, 1]),
    (("a a a a", "b b b"), [0, 3, 3, 1, 4, 1]),
    (("a", ""), [0, 3, 1]),
    (("a", "", True), [0, 3, 1, 1]),
  ):
    lengths.append(encoder.encode(*texts).length)
    for _ in range(2):  # the cache keeps the tokens before truncation
      assert encoder.encode(*texts).ids == ids
  assert lengths == [4, 7, 10, 3, 4]


def test_a_row_encoder_needs_the_token_unk(tmp_path):
  path = tmp_path / "vocab.txt"
  path.write_text("[CLS]\n[SEP]\n[UNK]\n")
  features.RowEncoder(FullTokenizer(path), 3)
  path.write_text("[CLS]\n[SEP]\n")
  with pytest.raises(ValueError, match=r"lacks \[UNK\]"):
    features.RowEncoder(FullTokenizer(path), 3)


# --- Batches without the columns that are padding in every record ------------


@pytest.mark.parametrize(
  ("longest", "expected"), [(1, 8), (8, 8), (9, 12), (12, 12), (0, 8)]
)
def test_a_trimmed_length_is_a_multiple_of_8_or_the_maximum(longest, expected):
  mask = np.zeros((3, 12), np.int32)
  mask[1, :longest] = 1
  batch = {"input_ids": tf.constant(mask * 7), "input_mask": tf.constant(mask)}
  others = dict.fromkeys(["segment_ids", "label_ids"], tf.zeros((3, 12)))
  result = batching.trim_padding(batch | others)
  assert result["input_ids"].shape == (3, expected)
  np.testing.assert_array_equal(result["input_mask"], mask[:, :expected])
  assert result["label_ids"].shape == (3, 12)  # 12 labels, which are no padding


def test_trimming_gives_choices_one_length_and_keeps_a_gap_in_the_mask():
  for mask, shape in (
    ([[[1] * 9 + [0] * 11, [1] + [0] * 19]], (1, 2, 16)),  # [B, C, T]
    ([[1] + [0] * 7 + [1] + [0] * 11], (1, 16)),
  ):
    batch = {"input_mask": tf.constant(mask, tf.int32)}
    trimmed = batching.trim_padding(batch, ["input_mask"])
    assert trimmed["input_mask"].shape == shape


# --- Lengths of texts in the log ---------------------------------------------


def test_the_log_counts_long_texts_and_suggests_a_length(log):
  log_lengths("train.tsv", {30: 90, 100: 9, 300: 1}, 64)
  [record] = log.records
  assert record.levelname == "WARNING"
  assert record.getMessage() == (
    "train.tsv: max_seq_length=64 is exceeded by 10 of 100 texts (10.0 %): "
    "their ends are cut off; the longest has 300 tokens; max_seq_length=128 "
    "cuts 1.0 %"
  )


def test_few_long_texts_are_logged_as_info_and_short_texts_are_not_logged(log):
  log_lengths("x", {60: 999, 100: 1}, 64, flag="max_text_length")
  assert "max_text_length=64 is exceeded by 1 of 1,000 texts" in log.text
  assert "cuts" not in log.text  # 99 % of the texts fit
  log_lengths("x", {30: 19, 900: 1}, 64)  # five percent are many
  assert "max_seq_length=512 cuts 5.0 %" in log.text
  assert [record.levelname for record in log.records] == ["INFO", "WARNING"]
  log.clear()
  log_lengths("x", {30: 99, 64: 1}, 64)
  assert not log.records
