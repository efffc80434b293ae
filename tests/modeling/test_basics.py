"""The parts of layers, each against what it says."""

import numpy as np
import pytest
import tensorflow as tf

from modeling import basics


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_heads_come_before_tokens_and_go_back(dtype):
  values = np.random.default_rng(0).normal(size=(2, 5, 3, 4))
  values[0, 0, 0] = np.nan, np.inf, -np.inf, -0.0
  x = tf.cast(values, dtype)
  with tf.GradientTape() as tape:
    tape.watch(x)
    swapped = basics.swap_heads(x)
  by_heads = tf.transpose(x, (0, 2, 1, 3))
  assert swapped.dtype == dtype
  for found, known in (
    (swapped, by_heads),
    (basics.swap_heads(swapped), x),
    (tape.gradient(swapped, x, by_heads), x),
  ):
    # Of narrow types, numpy takes NaN for unequal.
    found, known = (tf.cast(one, tf.float32) for one in (found, known))
    np.testing.assert_array_equal(found, known)
