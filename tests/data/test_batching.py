"""Batches drop the columns that are padding in every record."""

import numpy as np
import pytest
import tensorflow as tf

from data import batching


@pytest.mark.parametrize(
  ("longest", "expected"), [(1, 8), (8, 8), (9, 12), (12, 12), (0, 8)]
)
def test_a_length_is_rounded_up_to_a_multiple(longest, expected):
  mask = np.zeros((3, 12), np.int32)
  mask[1, :longest] = 1
  batch = {"input_ids": tf.constant(mask * 7), "input_mask": tf.constant(mask)}
  others = dict.fromkeys(["segment_ids", "label_ids"], tf.zeros((3, 12)))
  result = batching.trim_padding(batch | others)
  assert result["input_ids"].shape == (3, expected)
  np.testing.assert_array_equal(result["input_mask"], mask[:, :expected])
  assert result["label_ids"].shape == (3, 12)  # twelve labels, not tokens


def test_choices_are_cut_together_and_a_hole_in_the_mask_is_no_padding():
  for mask, shape in (
    ([[[1] * 9 + [0] * 11, [1] + [0] * 19]], (1, 2, 16)),  # [B, C, T]
    ([[1] + [0] * 7 + [1] + [0] * 11], (1, 16)),
  ):
    batch = {"input_mask": tf.constant(mask, tf.int32)}
    trimmed = batching.trim_padding(batch, ["input_mask"])
    assert trimmed["input_mask"].shape == shape
    trimmed = batching.trim_padding(batch, ["input_mask"], multiple=32)
    assert trimmed["input_mask"].shape == (*shape[:-1], 20)
