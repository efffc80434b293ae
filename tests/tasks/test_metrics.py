"""Metrics: worked examples, undefined cases, and formulas."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks import metrics

PREDICTED = np.array([1, 1, 1, 0, 0, 0, 0, 1])
LABELS = np.array([1, 1, 0, 0, 0, 0, 1, 1])  # TP 3, FP 1, FN 1, TN 3


def test_two_classes_by_hand():
  assert metrics.accuracy(PREDICTED, LABELS) == 6 / 8
  assert metrics.f1(PREDICTED, LABELS) == 2 * 3 / (2 * 3 + 1 + 1)
  # (TP TN - FP FN) / sqrt((TP+FP)(TP+FN)(TN+FP)(TN+FN))
  mcc = metrics.matthews_correlation(PREDICTED, LABELS)
  assert mcc == pytest.approx((3 * 3 - 1 * 1) / 16)


def test_correlations_by_hand():
  x, y = np.array([1.0, 2, 3, 4]), np.array([1.0, 3, 2, 5])
  # Deviations -1.5 -.5 .5 1.5 and -1.75 .25 -.75 2.25.
  expected = 5.5 / np.sqrt(5 * 8.75)
  assert metrics.pearson(x, y) == pytest.approx(expected)
  # 1 - 6 sum d^2 / (n (n^2 - 1)) with d = 0 1 1 0
  assert metrics.spearman(x, y) == pytest.approx(1 - 6 * 2 / (4 * 15))


def test_equal_values_have_their_mean_rank():
  values = np.array([10.0, 30, 20, 30, 30])
  ranks = np.array([1, 4, 2, 4, 4])
  others = np.arange(5)
  expected = metrics.pearson(ranks, others)
  assert metrics.spearman(values, others) == pytest.approx(expected)


def test_undefined_is_zero():
  same, others = np.zeros(4, int), np.array([0, 1, 0, 1])
  assert metrics.f1(same, same) == 0
  assert metrics.matthews_correlation(same, others) == 0
  assert metrics.pearson(same, others) == 0
  assert metrics.spearman(same, others) == 0


def test_correct_predictions_score_one():
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
def test_classes_by_formula(pairs):
  predicted, labels = pairs.T
  correct = np.sum((predicted == 1) & (labels == 1))
  total = np.sum(predicted == 1) + np.sum(labels == 1)
  f1 = 2 * correct / total if total else 0
  assert metrics.f1(predicted, labels) == pytest.approx(f1, abs=1e-12)
  # Gorodkin 2004: correlation of one-hot classes.
  x, y = (np.eye(4)[v] - np.eye(4)[v].mean(0) for v in (predicted, labels))
  spread = np.sqrt(np.sum(x * x) * np.sum(y * y))
  mcc = np.sum(x * y) / spread if spread > 1e-9 else 0
  result = metrics.matthews_correlation(predicted, labels)
  assert result == pytest.approx(mcc, abs=1e-12)


@given(_series)
def test_correlations_by_formula(pairs):
  x, y = pairs.T
  if np.ptp(x) == 0 or np.ptp(y) == 0:
    return
  rank = [
    np.sum(v[:, None] > v, 1) + np.sum(v[:, None] == v, 1) / 2 for v in (x, y)
  ]
  expected = np.corrcoef(*rank)[0, 1]
  assert metrics.spearman(x, y) == pytest.approx(expected, abs=1e-9)
  if min(np.ptp(x), np.ptp(y)) > 1e-3:  # less vanishes beside 1e6
    expected = np.corrcoef(x, y)[0, 1]
    assert metrics.pearson(x, y) == pytest.approx(expected, abs=1e-6)
