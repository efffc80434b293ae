"""Metrics agree with calculations by hand, and undefined metrics are zero."""

import numpy as np
import pytest

from tasks import metrics

PREDICTED = np.array([1, 1, 1, 0, 0, 0, 0, 1])
LABELS = np.array([1, 1, 0, 0, 0, 0, 1, 1])  # TP 3, FP 1, FN 1, TN 3


@pytest.mark.parametrize(
  ("predictions", "labels", "is_warned"),
  [
    ([1, 1, 1], [0, 1, 1], True),
    ([[0, 0], [0, 0]], [[1, 0], [0, 0]], True),
    ([1, 1, 1], [1, 1, 1], False),  # the labels are equal, too
    ([1, 1, 0], [0, 1, 1], False),
    ([[1, 0], [0, 0]], [[0, 0], [1, 0]], False),
  ],
)
def test_equal_predictions_for_all_examples_cause_a_warning(
  caplog, predictions, labels, is_warned
):
  arrays = map(np.array, (predictions, labels))
  metrics.classification_report(["a", "b"], *arrays)
  assert ("predicts the same for each text" in caplog.text) == is_warned


def test_scores_of_two_classes_agree_with_a_calculation_by_hand():
  assert metrics.score("accuracy", PREDICTED, LABELS) == 6 / 8
  assert metrics.score("f1", PREDICTED, LABELS) == 2 * 3 / (2 * 3 + 1 + 1)
  # (TP TN - FP FN) / sqrt((TP+FP)(TP+FN)(TN+FP)(TN+FN))
  mcc = metrics.score("matthews_correlation", PREDICTED, LABELS)
  assert mcc == pytest.approx((3 * 3 - 1 * 1) / 16)


def test_correlations_agree_with_a_calculation_by_hand():
  x, y = np.array([[1, 2, 3, 4], [1, 3, 2, 5]], np.float32)
  # Deviations -1.5 -.5 .5 1.5 and -1.75 .25 -.75 2.25.
  result = metrics.score("pearson", x, y)
  assert result == pytest.approx(5.5 / np.sqrt(5 * 8.75), rel=1e-12)
  # 1 - 6 sum d^2 / (n (n^2 - 1)) with d = 0 1 1 0
  assert metrics.score("spearman", x, y) == pytest.approx(1 - 6 * 2 / (4 * 15))


def test_an_undefined_metric_is_zero():
  constant, varied = np.zeros(4, int), np.array([0, 1, 0, 1])
  assert metrics.score("f1", constant, constant) == 0
  for name in ("matthews_correlation", "pearson", "spearman"):
    assert metrics.score(name, constant, varied) == 0
    assert metrics.score(name, varied, constant) == 0


def test_f1_of_multi_label_data_agrees_with_a_calculation_by_hand():
  predictions = np.array([[1, 0], [1, 1], [0, 0], [1, 0]])
  labels = np.array([[1, 0], [0, 1], [1, 1], [0, 0]])
  # F1 = 2 TP / (predicted + true), for all labels together or for each label.
  micro = metrics.score("micro_f1", predictions, labels)
  assert micro == pytest.approx(2 * 2 / (4 + 4))
  macro = metrics.score("macro_f1", predictions, labels)
  assert macro == pytest.approx((2 * 1 / (3 + 2) + 2 * 1 / (1 + 2)) / 2)
