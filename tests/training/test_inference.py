"""Evaluation and prediction on one replica and on two."""

from dataclasses import replace

import keras
import numpy as np
import pytest
import tensorflow as tf

from modeling import losses
from tests.training import toy
from training import inference


def test_evaluation_is_a_mean_over_items():
  step = toy.train_step()
  examples = toy.examples(10)
  one_batch = tf.data.Dataset.from_tensors(examples)
  parts = tf.data.Dataset.from_tensor_slices(examples).batch(4)
  single = inference.evaluate(step.model, losses.pretraining(), one_batch)
  three = inference.evaluate(step.model, losses.pretraining(), parts)
  assert set(single) == {
    "loss",
    "masked_lm_loss",
    "masked_lm_accuracy",
    "next_sentence_loss",
    "next_sentence_accuracy",
  }
  for name in set(single) - {"loss"}:
    assert three[name] == pytest.approx(single[name], rel=1e-5)
  # The original's loss: all batches have the same weight.
  assert single["loss"] == pytest.approx(
    single["masked_lm_loss"] + single["next_sentence_loss"], rel=1e-4
  )
  first = inference.evaluate(
    step.model, losses.pretraining(), parts, max_steps=1
  )
  rest = inference.evaluate(step.model, losses.pretraining(), parts.skip(1))
  assert three["loss"] == pytest.approx(
    (first["loss"] + 2 * rest["loss"]) / 3, rel=1e-5
  )


def test_a_model_is_traced_once_for_all_its_evaluations():
  traced, objective = [], losses.pretraining()

  def count(outputs, batch):
    traced.append(outputs)
    return objective.losses(outputs, batch)

  counted = replace(objective, losses=count)
  model = toy.train_step().model
  for _ in range(2):
    inference.evaluate(model, counted, toy.batches(2))
  assert len(traced) == 1


@pytest.mark.parametrize(
  "batch_size",
  [3, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 4, 10))],
)
def test_two_replicas_find_what_one_does(batch_size):
  """Also if a batch cannot be divided evenly, or a replica gets no row."""
  weights = toy.train_step().model.get_weights()
  data = tf.data.Dataset.from_tensor_slices(toy.examples(10))
  data = data.batch(batch_size)
  plain = toy.train_step(weights=weights).model
  results = inference.evaluate(plain, losses.pretraining(), data)
  outputs = inference.predict(plain, data)
  with toy.two_replicas().scope():
    model = toy.train_step(weights=weights).model
    result = inference.evaluate(model, losses.pretraining(), data)
    predicted = inference.predict(model, data)
  for name, value in results.items():
    assert result[name] == pytest.approx(value, rel=1e-5)
  assert set(predicted) == set(outputs)
  assert len(outputs["masked_lm_logits"]) == 10
  for name, value in outputs.items():
    np.testing.assert_allclose(predicted[name], value, atol=1e-5)


def test_the_batch_is_divided_among_replicas():
  """By default each would get the complete batch."""
  strategy = toy.two_replicas()
  seen = []
  with strategy.scope():
    ids = keras.Input([2], dtype="int32", name="ids")

    class Recorder(keras.layers.Layer):
      """Records the examples that it gets."""

      def call(self, ids):
        tf.py_function(lambda i: seen.append(i.numpy().tolist()), [ids], [])
        return tf.cast(ids, tf.float32)

      def compute_output_shape(self, shape):
        return shape

    model = keras.Model({"ids": ids}, {"same": Recorder()(ids)})
    seen.clear()
    batch = {"ids": tf.reshape(tf.range(10), [5, 2])}
    result = inference.predict(model, [batch])
  np.testing.assert_array_equal(result["same"], batch["ids"])
  rows_by_replica = [[[0, 1], [2, 3], [4, 5]], [[6, 7], [8, 9], [0, 0]]]
  assert sorted(seen, key=lambda rows: rows[0]) == rows_by_replica


def test_fields_that_are_no_inputs_are_passed_through():
  model = toy.train_step().model
  batches = toy.batches(2).enumerate()
  batches = batches.map(
    lambda n, b: b | {"position": 8 * n + tf.range(8, 0, -1, tf.int64)}
  )
  result = inference.predict(model, batches)
  assert result["position"].tolist() == [*range(8, 0, -1), *range(16, 8, -1)]


def test_nothing_to_evaluate_is_an_error():
  model = toy.train_step().model
  with pytest.raises(ValueError, match="no batch was read"):
    inference.evaluate(model, losses.pretraining(), [])
