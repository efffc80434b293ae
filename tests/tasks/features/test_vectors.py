"""A classifier of stored vectors, with more or less regularization."""

import numpy as np

from tasks.features import vectors


def test_regularization_makes_a_classifier_less_sure():
  stored = np.array([[0.0, 1], [1, 0], [2, 1], [3, 0]])
  labels = ["no", "no", "yes", "yes"]
  queries = np.array([[-1.0, 0], [4, 0]])
  sure = []
  for regularization in (0.01, 1, 100):
    rows = vectors.classify(stored, labels, queries, regularization)
    assert [row["label"] for row in rows] == ["no", "yes"]
    sure.append(min(row["probabilities"][row["label"]] for row in rows))
  assert sure[0] > 0.95 > sure[1] > 0.7 > sure[2] > 0.5
