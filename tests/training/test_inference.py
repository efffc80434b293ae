"""Evaluation and prediction on one and on two replicas."""

from functools import partial

import keras
import numpy as np
import pytest
import tensorflow as tf

from modeling import losses
from tests.shared import slow
from tests.training import toy
from training import loop


def test_metrics_are_means_over_items_and_the_loss_is_a_mean_over_batches():
  model, objective = toy.bag(), losses.pretraining()
  evaluate = partial(loop.evaluate, model, objective)
  parts = tf.data.Dataset.from_tensor_slices(toy.examples(10)).batch(4)
  single = evaluate(tf.data.Dataset.from_tensors(toy.examples(10)))
  three = evaluate(parts)
  first = evaluate(parts, max_steps=1)
  rest = evaluate(parts.skip(1))
  assert single.keys() == {*objective.names, "loss"}
  for name in objective.names:
    assert three[name] == pytest.approx(single[name], rel=1e-5)
  # The original's loss gives all batches the same weight.
  total = single["masked_lm_loss"] + single["next_sentence_loss"]
  assert single["loss"] == pytest.approx(total, rel=1e-4)
  mean = (first["loss"] + 2 * rest["loss"]) / 3
  assert three["loss"] == pytest.approx(mean, rel=1e-5)


def test_evaluation_and_prediction_have_no_dropout():
  plain, model = toy.bag(), toy.bag(dropout=0.5)
  model.set_weights(plain.get_weights())
  for infer in (
    lambda x: loop.evaluate(x, losses.pretraining(), toy.batches(2)),
    lambda x: loop.predict(x, toy.batches(2)),
  ):
    result, expected = infer(model), infer(plain)
    assert result.keys() == expected.keys()
    for name, value in expected.items():
      np.testing.assert_allclose(result[name], value, rtol=1e-5)


@pytest.mark.parametrize("batch_size", [3, *map(slow, (1, 4, 10))])
def test_two_replicas_evaluate_and_predict_like_one_replica(batch_size):
  data = tf.data.Dataset.from_tensor_slices(toy.examples(10))
  data, plain = data.batch(batch_size), toy.bag()
  results = loop.evaluate(plain, losses.pretraining(), data)
  outputs = loop.predict(plain, data)
  with toy.two_replicas().scope():
    model = toy.bag()
    model.set_weights(plain.get_weights())
    result = loop.evaluate(model, losses.pretraining(), data)
    predicted = loop.predict(model, data)
  assert result == pytest.approx(results, rel=1e-5)
  assert set(predicted) == set(outputs)
  assert len(outputs["masked_lm_logits"]) == 10
  for name, value in outputs.items():
    np.testing.assert_allclose(predicted[name], value, atol=1e-5)


def test_predict_passes_on_the_fields_that_are_not_inputs():
  def number(n, batch):
    return batch | {"position": 8 * n + tf.range(8, 0, -1, tf.int64)}

  batches = toy.batches(2).enumerate().map(number)
  result = loop.predict(toy.bag(), batches)
  assert result["position"].tolist() == [*range(8, 0, -1), *range(16, 8, -1)]


@pytest.mark.parametrize("evaluates", [False, True])
def test_batches_of_several_lengths_need_few_traces(evaluates):
  traces = []

  def trace(x):
    traces.append(x)
    return tf.cast(x, tf.float32)

  x = keras.Input((None,), dtype="int32", name="x")
  y = keras.layers.Lambda(trace, output_shape=lambda shape: shape)(x)
  model = keras.Model({"x": x}, {"y": y})
  objective = losses.Objective(
    ("loss",),
    (),
    weights=lambda batch: {"loss": tf.ones_like(batch["x"], tf.float32)},
    losses=lambda outputs, _: {"loss": outputs["y"]},
  )
  traces.clear()
  for length in (3, 5, 8, 2):
    batches = [{"x": np.ones((2, length), np.int32)}]
    if evaluates:
      loop.evaluate(model, objective, batches)
    else:
      loop.predict(model, batches)
  # `evaluate` traces the first length, then any length.
  assert len(traces) == 1 + evaluates


def test_an_evaluation_without_batches_is_refused():
  with pytest.raises(ValueError, match="no batch was read"):
    loop.evaluate(toy.bag(), losses.pretraining(), [])
