"""Padding that all records of a batch have is cut off."""

import numpy as np
import pytest
import tensorflow as tf

from data import batching


@pytest.mark.parametrize(
  ("longest", "expected"), [(1, 8), (8, 8), (9, 12), (12, 12), (0, 8)]
)
def test_is_cut_to_a_multiple(longest, expected):
  mask = np.zeros((3, 12), np.int32)
  mask[1, :longest] = 1
  batch = {
    "input_ids": tf.constant(mask * 7),
    "input_mask": tf.constant(mask),
    "segment_ids": tf.zeros((3, 12)),
    "label_ids": tf.zeros((3, 12)),  # of twelve labels, not tokens
  }
  result = batching.trim_padding(batch)
  assert result["input_ids"].shape == (3, expected)
  np.testing.assert_array_equal(result["input_mask"], mask[:, :expected])
  assert result["label_ids"].shape == (3, 12)


def _trim(mask):
  mask = tf.constant(mask, tf.int32)
  return batching.trim_padding({"input_mask": mask}, ["input_mask"])


def test_choices_are_cut_together():
  mask = [[[1] * 9 + [0] * 11, [1] + [0] * 19]]  # [B, C, T]
  assert _trim(mask)["input_mask"].shape == (1, 2, 16)


def test_a_hole_in_the_mask_is_no_padding():
  mask = [[1] + [0] * 7 + [1] + [0] * 11]
  assert _trim(mask)["input_mask"].shape == (1, 16)
