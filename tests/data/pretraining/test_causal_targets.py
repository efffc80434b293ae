"""Inputs and targets of causal language models from records."""

import numpy as np
import pytest
import tensorflow as tf

from data.pretraining.causal_targets import CausalTargets

CLS, SEP, MASK = 1, 2, 9
# [CLS] 3 4 [SEP] 5 6 [SEP], and [CLS] 7 [SEP] 8 [SEP]; 4, 5 and 8 are masked.
MASKED = {
  "input_ids": tf.constant(
    [[1, 3, 9, 2, 9, 6, 2, 0], [1, 7, 2, 9, 2, 0, 0, 0]]
  ),
  "input_mask": tf.constant(
    [[1, 1, 1, 1, 1, 1, 1, 0], [1, 1, 1, 1, 1, 0, 0, 0]]
  ),
  "segment_ids": tf.constant(
    [[0, 0, 0, 0, 1, 1, 1, 0], [0, 0, 0, 1, 1, 0, 0, 0]]
  ),
  "masked_lm_positions": tf.constant([[2, 4], [3, 0]]),
  "masked_lm_ids": tf.constant([[4, 5], [8, 0]]),
  "masked_lm_weights": tf.constant([[1.0, 1.0], [1.0, 0.0]]),
}
WORDS = np.array([[1, 3, 4, 2, 5, 6, 2, 0], [1, 7, 2, 8, 2, 0, 0, 0]])
PAIRS = np.array([[1, 1, 1, 1, 1, 1, 0], [1, 1, 1, 1, 0, 0, 0]])


def test_left_to_right_restores_words_and_predicts_the_next():
  result = CausalTargets()(MASKED)
  np.testing.assert_array_equal(result["input_ids"], WORDS)
  np.testing.assert_array_equal(result["masked_lm_positions"], [range(7)] * 2)
  np.testing.assert_array_equal(result["masked_lm_ids"], WORDS[:, 1:])
  np.testing.assert_array_equal(result["masked_lm_weights"], PAIRS)


def test_right_to_left_predicts_the_one_before():
  result = CausalTargets("right_to_left")(MASKED)
  np.testing.assert_array_equal(result["input_ids"], WORDS)
  np.testing.assert_array_equal(
    result["masked_lm_positions"], [range(1, 8)] * 2
  )
  np.testing.assert_array_equal(result["masked_lm_ids"], WORDS[:, :-1])
  np.testing.assert_array_equal(result["masked_lm_weights"], PAIRS)


def test_records_that_were_never_masked_read_the_same():
  unmasked = {
    "input_ids": tf.constant(WORDS, tf.int32),
    "input_mask": MASKED["input_mask"],
    "segment_ids": MASKED["segment_ids"],
  }
  expected, result = CausalTargets()(MASKED), CausalTargets()(unmasked)
  assert expected.keys() == result.keys()
  for name, values in expected.items():
    np.testing.assert_array_equal(result[name], values, name)


@pytest.mark.parametrize("direction", ["left_to_right", "right_to_left"])
def test_special_tokens_can_be_left_out(direction):
  result = CausalTargets(direction, dropped_ids=(CLS, SEP))(MASKED)
  words = np.array([[3, 4, 5, 6, 0, 0, 0, 0], [7, 8, 0, 0, 0, 0, 0, 0]])
  np.testing.assert_array_equal(result["input_ids"], words)
  np.testing.assert_array_equal(result["input_mask"], words > 0)
  assert not np.any(result["segment_ids"])
  forward = direction == "left_to_right"
  np.testing.assert_array_equal(
    result["masked_lm_ids"], words[:, 1:] if forward else words[:, :-1]
  )
  np.testing.assert_array_equal(result["masked_lm_weights"], words[:, 1:] > 0)


def test_special_tokens_are_those_of_the_vocabulary(tmp_path):
  path = tmp_path / "vocab.txt"
  path.write_text("[PAD]\n[CLS]\n[SEP]\na\n")
  plain = CausalTargets.without_special_tokens("left_to_right", str(path))
  expected = CausalTargets("left_to_right", dropped_ids=(CLS, SEP))(MASKED)
  np.testing.assert_array_equal(
    plain(MASKED)["input_ids"], expected["input_ids"]
  )
  path.write_text("[PAD]\n[CLS]\na\n")
  with pytest.raises(ValueError, match=r"lacks .*\[SEP\]"):
    CausalTargets.without_special_tokens("left_to_right", str(path))
