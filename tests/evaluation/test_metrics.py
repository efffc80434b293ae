"""Metrics: worked examples, bounds, and the same numbers as others have."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation import metrics

PREDICTED = np.array([1, 1, 1, 0, 0, 0, 0, 1])
LABELS = np.array([1, 1, 0, 0, 0, 0, 1, 1])  # TP 3, FP 1, FN 1, TN 3


def test_two_classes_by_hand():
  assert metrics.accuracy(PREDICTED, LABELS) == 6 / 8
  assert metrics.f1(PREDICTED, LABELS) == 2 * 3 / (2 * 3 + 1 + 1)
  # (TP TN - FP FN) / sqrt((TP+FP)(TP+FN)(TN+FP)(TN+FN))
  mcc = metrics.matthews_correlation(PREDICTED, LABELS)
  assert mcc == pytest.approx((3 * 3 - 1 * 1) / 16)


def test_confusion_has_a_row_for_each_label():
  counts = metrics.confusion(np.array([0, 2, 2, 1]), np.array([0, 1, 1, 1]), 3)
  np.testing.assert_array_equal(counts, [[1, 0, 0], [0, 1, 2], [0, 0, 0]])


def test_correlations_by_hand():
  x, y = np.array([1.0, 2, 3, 4]), np.array([1.0, 3, 2, 5])
  # Deviations -1.5 -.5 .5 1.5 and -1.75 .25 -.75 2.25.
  wanted = 5.5 / np.sqrt(5 * 8.75)
  assert metrics.pearson(x, y) == pytest.approx(wanted)
  # 1 - 6 sum d^2 / (n (n^2 - 1)) with d = 0 1 1 0
  assert metrics.spearman(x, y) == pytest.approx(1 - 6 * 2 / (4 * 15))


def test_equal_values_share_their_mean_rank():
  values = np.array([10.0, 30, 20, 30, 30])
  np.testing.assert_array_equal(metrics.ranks(values), [1, 4, 2, 4, 4])


def test_what_is_not_defined_is_zero():
  same, others = np.zeros(4, int), np.array([0, 1, 0, 1])
  assert metrics.f1(same, same) == 0
  assert metrics.matthews_correlation(same, others) == 0
  assert metrics.pearson(same, others) == 0
  assert metrics.spearman(same, others) == 0


def test_all_right_is_one():
  labels = np.array([0, 1, 2, 1])
  for name, metric in metrics.METRICS.items():
    assert metric(labels, labels) == pytest.approx(1), name


def test_many_examples_do_not_overflow():
  labels = np.arange(400_000) % 3
  assert metrics.matthews_correlation(labels, labels) == pytest.approx(1)


def test_nothing_to_measure():
  with pytest.raises(ValueError, match=r"expected a series of values, got \(0"):
    metrics.accuracy(np.array([]), np.array([]))


_pairs = st.lists(
  st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=40
).map(np.array)
_numbers = st.one_of(
  st.integers(0, 5).map(float), st.floats(-1e6, 1e6, width=32)
)
_series = st.lists(st.tuples(_numbers, _numbers), min_size=2, max_size=40).map(
  np.array
)


@given(_pairs)
def test_metrics_are_within_their_bounds(pairs):
  predicted, labels = pairs.T
  assert 0 <= metrics.accuracy(predicted, labels) <= 1
  assert 0 <= metrics.f1(predicted, labels) <= 1
  assert (
    -1.000001 <= metrics.matthews_correlation(predicted, labels) <= 1.000001
  )


@given(_pairs)
def test_classes_as_scikit_learn(pairs):
  sklearn = pytest.importorskip("sklearn.metrics")
  predicted, labels = pairs.T
  with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # about a single class
    wanted = sklearn.matthews_corrcoef(labels, predicted)
    f1 = sklearn.f1_score(labels == 1, predicted == 1, zero_division=0.0)
  mcc = metrics.matthews_correlation(predicted, labels)
  assert mcc == pytest.approx(wanted, abs=1e-12)
  assert metrics.f1(predicted, labels) == pytest.approx(f1, abs=1e-12)


@given(_series)
def test_correlations_as_scipy(pairs):
  stats = pytest.importorskip("scipy.stats")
  x, y = pairs.T
  if np.ptp(x) == 0 or np.ptp(y) == 0:
    return
  np.testing.assert_array_equal(metrics.ranks(x), stats.rankdata(x))
  ours = metrics.spearman(x, y)
  assert ours == pytest.approx(stats.spearmanr(x, y)[0], abs=1e-9)
  if min(np.ptp(x), np.ptp(y)) > 1e-3:  # else scipy warns of what it lost
    ours = metrics.pearson(x, y)
    assert ours == pytest.approx(stats.pearsonr(x, y)[0], abs=1e-6)
