import numpy as np
import tensorflow as tf

from modeling import fused_ops, losses


def test_the_regression_loss_is_the_squared_error():
  outputs = {"logits": np.array([[1.0], [2.0], [5.0]], np.float32)}
  batch = {"label_ids": np.array([1.0, 4.0, 4.5], np.float32)}
  objective = losses.regression()
  result = objective.losses(outputs, batch)["example_loss"]
  np.testing.assert_allclose(result, [0.0, 4.0, 0.25])
  weights = objective.weights(batch)["example_loss"]
  np.testing.assert_array_equal(weights, [1, 1, 1])


def test_class_weights_weight_examples_in_the_mean_loss():
  batch = {"label_ids": np.array([1, 0, 1])}
  objective = losses.classification((1.0, 2.5))
  weights = objective.weights(batch)["example_loss"]
  np.testing.assert_array_equal(weights, [2.5, 1.0, 2.5])
  outputs = {"logits": np.zeros((3, 2), np.float32)}
  result = objective.losses(outputs, batch)["example_loss"]
  np.testing.assert_allclose(result, np.log([2, 2, 2]), rtol=1e-6)


def test_only_the_masked_lm_loss_has_the_epsilon_of_the_original():
  for terms in (["masked_lm", "next_sentence"], ["masked_lm"]):
    objective = losses.pretraining(len(terms) == 2)
    assert list(objective.terms) == [f"{term}_loss" for term in terms]
    assert objective.epsilon == {"masked_lm_loss": 1e-5}
  assert not losses.classification().epsilon


TAG_LOGITS = np.log(
  np.array([[[2, 1, 1], [1, 8, 1], [5, 1, 1]], [[1, 2, 7], [1, 1, 2], [9] * 3]])
).astype(np.float32)
TAG_IDS = np.array([[0, 1, -1], [1, -1, -1]])


def test_tagging_ignores_tokens_without_a_tag():
  outputs, batch = {"logits": TAG_LOGITS}, {"label_ids": TAG_IDS}
  objective = losses.tagging()
  assert objective.names == ["word_loss", "accuracy"]
  result = objective.losses(outputs, batch)["word_loss"]
  expected = [[np.log(2), np.log(10 / 8), 0], [np.log(5), 0, 0]]
  np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-7)
  weights = objective.weights(batch)["word_loss"]
  np.testing.assert_array_equal(weights, [[1, 1, 0], [1, 0, 0]])
  right, counts = objective.metrics(outputs, batch)["accuracy"]
  np.testing.assert_array_equal(counts, weights)
  assert np.sum(right * counts) / np.sum(counts) == np.float32(2 / 3)


def test_cross_entropy_ignores_labels_out_of_range():
  logits = [[0.0, 0, 0], [1, 2, 3], [3, 4, 5], [0, 500, -300]]
  loss = fused_ops.cross_entropy(
    tf.constant(logits), tf.constant([1, -1, 3, 2])
  )
  np.testing.assert_allclose(loss, [np.log(3), 0, 0, 800], rtol=1e-6)


def test_the_loss_of_several_labels_is_their_mean_binary_cross_entropy():
  logits = np.log(np.array([[3.0, 1.0], [1 / 4, 9.0]], np.float32))
  batch = {"label_ids": np.array([[1, 0], [1, 1]])}
  losses_of_labels = -np.log([[3 / 4, 1 / 2], [1 / 5, 9 / 10]])
  for weights in ((), (2.0, 3.0)):
    objective = losses.multi_label(weights)
    result = objective.losses({"logits": logits}, batch)["example_loss"]
    factors = [[2, 1], [2, 3]] if weights else 1
    expected = np.mean(losses_of_labels * factors, axis=1)
    np.testing.assert_allclose(result, expected, rtol=1e-5)


def test_the_distance_to_a_teacher_is_the_kl_divergence():
  a, b = np.log([[1.0, 3.0]]), np.log([[1.0, 1.0]])  # 1/4 and 3/4, and 1/2
  expected = 0.5 * np.log(0.5 / 0.25) + 0.5 * np.log(0.5 / 0.75)
  np.testing.assert_array_equal(losses.divergence(a, a, 3.0), [0.0])
  c, d = np.log([[3.0, 1.0]]), np.log([[1.0, 1.0]])  # probabilities 3/4 and 1/2
  for t in (1.0, 2.0):  # temperatures
    result = losses.divergence(t * a, t * b, t)
    np.testing.assert_allclose(result, [t**2 * expected])
    result = losses.binary_divergence(t * c, t * d, t)
    # The mean of two labels; the probabilities of the second are equal.
    np.testing.assert_allclose(result, [t**2 * expected / 2], 1e-6)


def _teacher(batch):
  return {"logits": batch["teacher"]}


def test_distillation_does_not_train_the_teacher():
  logits = tf.constant([[0.3, -1.0], [2.0, 0.5]])
  teacher = tf.constant([[1.0, -2.0], [0.0, 0.5]])
  batch = {"label_ids": tf.constant([1, 0]), "teacher": teacher}
  plain = losses.classification()
  objective = losses.distilled(plain, _teacher, 1.0, 2.0)
  assert objective.names == plain.names
  with tf.GradientTape() as tape:
    tape.watch([logits, teacher])
    result = objective.losses({"logits": logits}, batch)["example_loss"]
  gradient, of_teacher = tape.gradient(result, [logits, teacher])
  assert of_teacher is None
  # The squared temperature makes up for small gradients.
  p, q = tf.nn.softmax(teacher / 2), tf.nn.softmax(logits / 2)
  np.testing.assert_allclose(gradient, 2 * (q - p), atol=1e-6)


def test_a_teacher_for_regression_adds_a_squared_error():
  batch = {"label_ids": np.array([1.0]), "teacher": np.array([[3.0]])}
  objective = losses.distilled(losses.regression(), _teacher, 0.5, 2.0)
  result = objective.losses({"logits": np.array([[2.0]])}, batch)
  np.testing.assert_allclose(result["example_loss"], [0.5 * 1 + 0.5 * 1])
