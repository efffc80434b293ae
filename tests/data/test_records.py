"""Padding that all records of a batch have is cut off."""

import numpy as np
import pytest
import tensorflow as tf

from data import records


@pytest.mark.parametrize(
  ("longest", "multiple", "expected"),
  [(1, 8, 8), (8, 8, 8), (9, 8, 12), (12, 8, 12), (5, 2, 6), (0, 4, 4)],
)
def test_is_cut_to_a_multiple(longest, multiple, expected):
  mask = np.zeros((3, 12), np.int32)
  mask[1, :longest] = 1
  batch = {
    "input_ids": tf.constant(mask * 7),
    "input_mask": tf.constant(mask),
    "segment_ids": tf.zeros((3, 12)),
    "label_ids": tf.zeros((3, 12)),  # of twelve labels, not tokens
  }
  result = records.trim_padding(batch, multiple=multiple)
  assert result["input_ids"].shape == (3, expected)
  np.testing.assert_array_equal(result["input_mask"], mask[:, :expected])
  assert result["label_ids"].shape == (3, 12)


def _trim(mask):
  return records.trim_padding({"input_mask": mask}, ["input_mask"], 1)


def test_choices_are_cut_together():
  mask = tf.constant([[[1, 1, 0, 0], [1, 0, 0, 0]]])  # [B, C, T]
  result = _trim(mask)
  assert result["input_mask"].shape == (1, 2, 2)


def test_a_hole_in_the_mask_is_no_padding():
  mask = tf.constant([[1, 0, 0, 1, 0, 0]])
  assert _trim(mask)["input_mask"].shape == (1, 4)
