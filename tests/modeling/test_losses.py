"""Objectives on numbers small enough to check by hand."""

import numpy as np

from modeling import losses


def test_regression_is_the_squared_error():
  outputs = {"logits": np.array([[1.0], [2.0], [5.0]], np.float32)}
  batch = {"label_ids": np.array([1.0, 4.0, 4.5], np.float32)}
  objective = losses.regression()
  found = objective.losses(outputs, batch)["example_loss"]
  np.testing.assert_allclose(found, [0.0, 4.0, 0.25])
  weights = objective.weights(batch)["example_loss"]
  np.testing.assert_array_equal(weights, [1, 1, 1])
  assert objective.names == ("example_loss",)
