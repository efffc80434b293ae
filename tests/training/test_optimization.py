"""Worked examples of the schedule and of one update, by hand."""

import numpy as np
import pytest
import tensorflow as tf

from training import optimization
from training.optimization import AdamWeightDecay, LinearSchedule


@pytest.mark.parametrize(
  ("step", "rate"), [(0, 0.0), (1, 0.5), (2, 0.8), (5, 0.5), (10, 0), (12, 0)]
)
def test_schedule(step, rate):
  # The decay counts from step 0, so that the peak of 1 is never reached.
  assert float(LinearSchedule(1.0, 10, 2)(tf.constant(step))) == pytest.approx(
    rate
  )


def test_schedule_without_warmup_starts_at_its_peak():
  assert float(LinearSchedule(0.5, 4)(tf.constant(0, tf.int64))) == 0.5


@pytest.mark.parametrize(
  ("name", "decayed"),
  [
    ("bert/pooler/dense/kernel", True),
    ("bert/pooler/dense/bias", False),
    ("bert/embeddings/LayerNorm/gamma", False),
    ("cls/predictions/output_bias", False),
    ("output_weights", True),
  ],
)
def test_what_is_decayed(name, decayed):
  assert optimization.is_decayed(name) == decayed


def test_two_updates_by_hand():
  kernel, bias = tf.Variable([1.0, -2.0]), tf.Variable([3.0])
  adam = AdamWeightDecay([("kernel", kernel), ("bias", bias)], 0.1)
  adam.apply([tf.constant([1.0, 2.0]), tf.constant([4.0])], tf.constant(0.5))
  # m = 0.1 g, v = 0.001 g^2: the ratio is 0.1 / sqrt(0.001) = 3.16228
  ratio = 3.16228
  np.testing.assert_allclose(
    kernel, [1 - 0.5 * (ratio + 0.1), -2 - 0.5 * (ratio - 0.2)], rtol=1e-4
  )
  np.testing.assert_allclose(bias, [3 - 0.5 * ratio], rtol=1e-4)
  adam.apply([None, tf.constant([0.0])], tf.constant(0.5))
  np.testing.assert_allclose(adam.state["bias/adam_m"], [0.36], rtol=1e-5)
  np.testing.assert_allclose(adam.state["kernel/adam_m"], [0.1, 0.2], rtol=1e-5)


def test_repeated_rows_are_summed_in_the_update_but_not_in_the_norm():
  table = tf.Variable(tf.zeros([3, 1]))
  rows = tf.IndexedSlices(
    tf.constant([[3.0], [4.0]]), tf.constant([1, 1]), tf.constant([3, 1])
  )
  clipped, norm = optimization.clip([rows], 100.0)
  assert float(norm) == 5.0  # sqrt(3^2 + 4^2), not 7
  adam = AdamWeightDecay([("table", table)])
  adam.apply(clipped, tf.constant(0.0))
  np.testing.assert_allclose(adam.m[0], [[0.0], [0.7], [0.0]], rtol=1e-6)
