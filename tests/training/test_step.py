"""The update from a batch does not depend on the division of the batch."""

import re
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf

from modeling import losses, models, tracing
from tests.shared import slow
from tests.training import toy
from training import loop
from training.step import LossScale, TrainStep, set_dtype_policy

STEPS = 6


def _bert(dropout=0.0):
  return models.pretrainer(toy.config(dropout))


def _run(calls=(STEPS,), **options):
  """Trains the given steps in each call; returns sums by call and the state."""
  strategy = tf.distribute.get_strategy()
  step = toy.train_step(**options)
  replicas = strategy.num_replicas_in_sync

  def data(_):
    return toy.batches(STEPS).unbatch().batch(8 // replicas, True)

  iterator = iter(strategy.distribute_datasets_from_function(data))
  reports = [step.train(iterator, tf.constant(n)) for n in calls]
  return [*map(toy.values, reports)], toy.values(step.state)


def _assert_same(a, b, bound):
  assert set(a) == set(b)
  for name in a:
    if not bound or not name.endswith(toy.WITHOUT_EFFECT):
      np.testing.assert_allclose(a[name], b[name], atol=bound, err_msg=name)


@pytest.fixture(scope="module", name="start")
def _start():
  keras.utils.set_random_seed(1)
  return _bert().get_weights()


@pytest.fixture(scope="module", name="plain")
def _plain(start):
  return _run(model=_bert(), weights=start)


@pytest.mark.parametrize(
  "options",
  [
    {"accumulation_steps": 2},
    slow({"accumulation_steps": 8}),
    {"jit_compile": True},
  ],
)
def test_micro_batches_and_xla_do_not_change_the_update(start, plain, options):
  [expected], expected_state = plain
  [sums], state = _run(model=_bert(), weights=start, **options)
  _assert_same(state, expected_state, 1e-5)
  np.testing.assert_allclose(sums["loss"], expected["loss"], rtol=1e-5)


@pytest.mark.parametrize("accumulation_steps", [1, slow(2)])
def test_two_replicas_give_the_update_of_one(start, plain, accumulation_steps):
  with toy.two_replicas().scope():
    options = {"accumulation_steps": accumulation_steps}
    [sums], state = _run(model=_bert(), weights=start, **options)
  [expected], expected_state = plain
  _assert_same(state, expected_state, 1e-5)
  for name in ("loss", "gradient_norm"):
    total, weight = sums[name]
    assert weight == pytest.approx(STEPS)
    assert total == pytest.approx(expected[name][0], rel=1e-5)
  for name in ("masked_lm_accuracy", "masked_lm_loss"):
    np.testing.assert_allclose(sums[name], expected[name], rtol=1e-5)


def test_the_number_of_steps_per_call_does_not_change_the_state():
  weights = toy.bag().get_weights()
  [expected], expected_state = _run(weights=weights, dropout=0.3)
  reports, state = _run(calls=[1, 1, 4], weights=weights, dropout=0.3)
  _assert_same(state, expected_state, 0)
  total = sum(report["loss"][0] for report in reports)
  assert total == pytest.approx(expected["loss"][0], rel=1e-5)
  _, other = _run(weights=weights)
  assert np.any(state["masked_lm/kernel"] != other["masked_lm/kernel"])


def test_dropout_differs_by_step_replica_micro_batch_and_seed():
  drawn, strategy = [], toy.two_replicas()

  @contextmanager
  def seeds(seed):
    tf.numpy_function(lambda pair: drawn.append(tuple(pair)), [seed], [])
    yield

  def data(_):
    return toy.batches(12, batch_size=4)

  with strategy.scope():
    step = toy.train_step(accumulation_steps=2, dropout_seeds=seeds, seed=1)
    iterator = iter(strategy.distribute_datasets_from_function(data))
    for seed in (1, 2):
      assert step.seed.numpy() == seed
      step.train(iterator, tf.constant(3))
      step.seed.assign(2)
      step.step.assign(0)
  # 2 seeds, 3 steps, 2 micro-batches and 2 replicas.
  assert len(set(drawn)) == len(drawn) == 2 * 3 * 2 * 2


def test_the_decay_of_moving_averages_depends_on_the_number_of_updates():
  step, iterator = toy.train_step(ema=0.9), iter(toy.batches(2))
  expected = step.variables[0].numpy()
  for done in (1, 2):
    step.train(iterator, tf.constant(1))
    decay = (1 + done) / (10 + done)
    expected = decay * expected + (1 - decay) * step.variables[0].numpy()
    np.testing.assert_allclose(step.average.averages[0], expected, rtol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", slow("bfloat16")])
def test_recomputed_layers_have_the_same_gradients(dtype):
  set_dtype_policy(dtype)
  config = replace(toy.config(0.3), num_hidden_layers=2)
  step = toy.train_step(model=models.pretrainer(config))
  batch = next(iter(toy.batches(1)))
  sums = dict.fromkeys(step.objective.terms, 8.0)  # of weights
  expected, _ = tf.function(step._differentiate)(batch, sums, 0)
  with tracing.mode(recompute=True):
    result, _ = tf.function(step._differentiate)(batch, sums, 0)
  for value, known in zip(result, expected, strict=True):
    np.testing.assert_array_equal(value, known)


def test_a_batch_that_cannot_be_divided_is_refused():
  with pytest.raises(ValueError, match="8 cannot be divided evenly into 1 rep"):
    toy.train_step(accumulation_steps=3)
  optimizer = SimpleNamespace(variables=[])
  options = {"batch_size": 8, "accumulation_steps": 8}
  with toy.two_replicas().scope(), pytest.raises(ValueError, match="2 replica"):
    TrainStep(None, None, optimizer, None, **options)


def _tiny(loss, weight=1.0):
  """Returns a step and its data; each of the four losses is loss(0)."""
  x = keras.Input([1], name="x")
  model = keras.Model({"x": x}, {"y": keras.layers.Dense(1)(x)})
  name = "loss of y"
  objective = losses.Objective(
    (name,),
    (),
    weights=lambda batch: {name: batch["weights"]},
    losses=lambda outputs, _: {name: loss(0.0 * outputs["y"][:, 0])},
    epsilon={name: 1.0},
  )
  batch = {"x": tf.ones([4, 1]), "weights": tf.fill([4], weight)}
  step = toy.train_step(model=model, objective=objective, batch_size=4)
  return step, tf.data.Dataset.from_tensors(batch)


@pytest.mark.parametrize(
  ("weight", "expected"), [(1.0, 2.0 * 4 / (4 + 1)), (0.0, 0.0)]
)
def test_the_originals_epsilon_is_added_to_the_sum_of_weights(weight, expected):
  """The loss of a batch without masked words would not be finite otherwise."""
  step, data = _tiny(lambda zeros: zeros + 2.0, weight)
  sums = step.train(iter(data), tf.constant(1))
  result = loop.evaluate(step.model, step.objective, data)
  assert float(sums["loss"][0]) == pytest.approx(expected)
  assert result == pytest.approx({"loss": expected, "loss of y": 2.0 * weight})


def test_a_gradient_that_is_not_finite_is_reported():
  step, data = _tiny(tf.sqrt)  # the gradient at 0 is infinite
  assert np.isfinite(step.train(iter(data), tf.constant(1))["loss"][0])
  assert step.first_nonfinite_step.numpy() == 1


def test_a_loss_scale_does_not_change_finite_updates():
  weights = toy.bag().get_weights()
  _, expected = _run(weights=weights)
  _, result = _run(weights=weights, loss_scale=LossScale(initial=64.0))
  state = {name: result[name] for name in result if "loss_scale" not in name}
  _assert_same(state, expected, 1e-5)
  assert result["loss_scale/good_steps"] == STEPS


def test_the_loss_scale_grows_after_its_patience_and_falls_on_overflow():
  default = LossScale()
  assert (default.scale.numpy(), default.patience) == (2.0**15, 2000)
  scale = LossScale(initial=2.0, patience=2)
  # Two finite updates double the scale. An overflow halves it, down to 1.
  expected = [2, 4, 4, 8, 8, 4, 4, 8, 4, 2, 1, 1, 1, 2]
  for number, value in enumerate(expected):
    scale.update(tf.constant(number not in (5, 8, 9, 10, 11)))
    assert float(scale.scale) == value, number


@pytest.mark.parametrize(
  ("compiled", "strategy", "expected"),
  [
    (False, None, set()),
    (True, None, {"step", "update"}),
    (True, toy.two_replicas, {"differentiate", "clip_factor", "update"}),
  ],
)
def test_xla_compiles_the_step_except_the_exchange_of_gradients(
  compiled, strategy, expected
):
  with strategy().scope() if strategy else nullcontext():
    graph = toy.train_graph(toy.train_step(jit_compile=compiled))
  functions = toy.function_defs(graph)
  names = [f.signature.name for f in functions if f.attr["_XlaMustCompile"].b]
  pattern = r"__inference_+(\w+)_\d+"
  assert {re.fullmatch(pattern, name)[1] for name in names} == expected
