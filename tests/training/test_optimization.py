"""Worked examples of schedule, updates and averages; frozen variables."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from modeling import models
from modeling.config import SIDES
from tests import programs
from tests.training import toy
from training import checkpoint, optimization
from training.optimization import AdamWeightDecay, Lamb, WarmupLinearDecay


def test_the_learning_rate_rises_and_falls_linearly():
  # The decay counts from step 0, so the rate never reaches the peak of 1.
  schedule = WarmupLinearDecay(1.0, 10, 2)
  for step, rate in ((0, 0.0), (1, 0.5), (2, 0.8), (5, 0.5), (10, 0), (12, 0)):
    assert float(schedule(tf.constant(step))) == pytest.approx(rate), step
  assert float(WarmupLinearDecay(0.5, 4)(tf.constant(0, tf.int64))) == 0.5


def test_only_kernels_have_weight_decay():
  decayed = ["bert/pooler/dense/kernel", "output_weights"]
  names = [*decayed, "bert/pooler/dense/bias", "cls/predictions/output_bias"]
  names.append("bert/embeddings/LayerNorm/gamma")
  is_excluded = optimization.NOT_DECAYED.search
  assert [name for name in names if not is_excluded(name)] == decayed


def _apply(optimizer, gradients, rate, step, factor=1.0, enabled=None):
  scalars = tf.constant(rate), factor, tf.constant(float(step))
  context = tf.distribute.get_replica_context()
  context.merge_call(optimizer.apply, (gradients, scalars, enabled))


def test_two_updates_equal_a_calculation_by_hand():
  kernel, bias = tf.Variable([1.0, -2.0]), tf.Variable([3.0])
  adam = AdamWeightDecay({"kernel": kernel, "bias": bias}, 0.1)
  _apply(adam, [tf.constant([1.0, 2.0]), tf.constant([4.0])], 0.5, 0)
  # m = 0.1 g, v = 0.001 g^2: the ratio is 0.1 / sqrt(0.001) = 3.16228
  ratio = 3.16228
  expected = [1 - 0.5 * (ratio + 0.1), -2 - 0.5 * (ratio - 0.2)]
  np.testing.assert_allclose(kernel, expected, rtol=1e-4)
  np.testing.assert_allclose(bias, [3 - 0.5 * ratio], rtol=1e-4)
  _apply(adam, [None, tf.constant([0.0])], 0.5, 1)
  np.testing.assert_allclose(adam.state["bias/adam_m"], [0.9 * 0.4], rtol=1e-5)
  np.testing.assert_allclose(adam.state["kernel/adam_m"], [0.1, 0.2], rtol=1e-5)


def test_repeated_gradient_rows_are_summed_in_the_update_but_not_in_the_norm():
  table = tf.Variable(tf.zeros([3, 1]))
  values, indices = tf.constant([[3.0], [4.0]]), tf.constant([1, 1])
  rows = tf.IndexedSlices(values, indices, tf.constant([3, 1]))
  factor, norm = optimization.clip_factor([rows], 0.0)  # without a maximum
  assert (float(factor), float(norm)) == (1.0, 5.0)  # sqrt(3^2 + 4^2), not 7
  adam = AdamWeightDecay({"table": table})
  _apply(adam, [rows], 0.0, 0)
  np.testing.assert_allclose(
    adam.state["table/adam_m"], [[0.0], [0.7], [0.0]], rtol=1e-6
  )


def _gradients(number, seed=0):
  rng = np.random.RandomState(seed)
  return [
    (rng.randn(3, 2).astype(np.float32), rng.randn(2).astype(np.float32))
    for _ in range(number)
  ]


def _lamb_in_numpy(kernel, bias, gradients, rate, weight_decay):
  """Computes Algorithm 2 of LAMB's paper in float64; Adam updates the bias."""
  values = [kernel.astype(float), bias.astype(float)]
  slots = [[np.zeros_like(v), np.zeros_like(v)] for v in values]
  for t, step in enumerate(gradients, 1):
    for i, gradient in enumerate(step):
      m, v = slots[i]
      m[:] = 0.9 * m + 0.1 * gradient
      v[:] = 0.999 * v + 0.001 * gradient.astype(float) ** 2
      update = (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-6)
      if i == 0:
        update += weight_decay * values[i]
        update *= np.linalg.norm(values[i]) / np.linalg.norm(update)
      values[i] -= rate * update
  return values


def test_updates_of_lamb_equal_algorithm_2_of_its_paper():
  [(kernel, bias)] = _gradients(1, seed=1)
  variables = tf.Variable(kernel), tf.Variable(bias)
  lamb = Lamb(dict(zip(("kernel", "bias"), variables, strict=True)), 0.1)
  gradients = _gradients(20)
  for step, pair in enumerate(gradients):
    _apply(lamb, list(map(tf.constant, pair)), 0.02, step)
    expected = _lamb_in_numpy(kernel, bias, gradients[: step + 1], 0.02, 0.1)
    for variable, value in zip(variables, expected, strict=True):
      np.testing.assert_allclose(variable, value, rtol=1e-5, atol=1e-6)


def test_lamb_updates_a_kernel_of_zeros_like_adam():
  """A norm of 0 would keep the values at zero or give NaN."""
  first, second = tf.Variable([[0.0]]), tf.Variable([[0.0]])
  lamb = Lamb({"a": first, "b": second})
  _apply(lamb, [tf.constant([[1.0]]), second], 0.5, 0)
  np.testing.assert_allclose(first, [[-0.5]], rtol=1e-5)
  np.testing.assert_array_equal(second, [[0.0]])


LAYERS = [f"bert/encoder/layer_{n}/output/dense/bias" for n in range(12)]


def test_lower_layers_have_lower_learning_rates():
  names = [
    "bert/embeddings/LayerNorm/beta",
    *LAYERS[:2],
    "bert/pooler/dense/kernel",
    "bert/bilstm/layer_0/forward_lstm/lstm_cell/kernel",
    "output_weights",
  ]
  side = [name.replace("bert/", "bert/left_to_right/") for name in names]
  for paths in (names, side):
    multipliers = models.layerwise_lr_multipliers(paths, 0.5)
    assert multipliers == [0.125, 0.25, 0.5, 0.5, 0.5, 1.0]
  assert models.layerwise_lr_multipliers(names, 1.0) == [1.0] * 6
  multipliers = models.layerwise_lr_multipliers(LAYERS, 0.5)
  assert multipliers == [0.5 ** (12 - n) for n in range(12)]
  assert models.layerwise_lr_multipliers(["kernel"], 0.5) == [1.0]


def test_a_multiplier_scales_the_update_of_its_variable():
  names, multipliers = "abc", [0.5, 0.0, 1.0]
  variables = {name: tf.Variable([0.0]) for name in names}
  adam = AdamWeightDecay(variables, 0.0, lr_multipliers=multipliers)
  _apply(adam, [tf.constant([1.0])] * 3, 0.1, 0)
  updates = np.array([variables[name][0] for name in names])
  np.testing.assert_allclose(
    updates, np.multiply(multipliers, updates[2]), rtol=1e-6
  )
  assert updates[2] < 0


def test_moving_averages_follow_their_variables():
  variable = tf.Variable([1.0, 2.0])
  average = optimization.ExponentialMovingAverage({"a": variable}, 0.5)
  expected = np.array([5.0, 6.0])
  variable.assign(expected)
  average.restart()
  for step in range(1, 9):
    variable.assign([step, -step])
    average.update(tf.constant(step))
    decay = min(0.5, (1 + step) / (10 + step))
    expected = decay * expected + (1 - decay) * variable.numpy()
    np.testing.assert_allclose(average.averages[0], expected, rtol=1e-5)
  with average.averaged_weights():
    np.testing.assert_allclose(variable, expected, rtol=1e-5)
  np.testing.assert_array_equal(variable, [8.0, -8.0])
  assert list(average.state) == ["a/ExponentialMovingAverage"]


@pytest.mark.parametrize(
  ("max_norm", "expected"), [(0.0, 1.0), (1.0, 0.2), (5.0, 1.0), (9.0, 1.0)]
)
def test_only_gradients_above_the_maximum_are_clipped(max_norm, expected):
  gradients = [tf.constant([3.0, 0.0]), None, tf.constant([4.0])]
  factor, norm = optimization.clip_factor(gradients, max_norm)
  np.testing.assert_allclose([factor, norm], [expected, 5.0], rtol=1e-6)


# --- Frozen variables (--freeze_layers)

CONFIG = replace(toy.config(), num_hidden_layers=3)


def _freeze(model, layers, config=CONFIG):
  args = programs.arguments("run_classifier", freeze_layers=layers)
  models.freeze(model, args.frozen_layers(config))


@pytest.mark.parametrize("attention", ["bidirectional", "shallow"])
@pytest.mark.parametrize(
  ("layers", "names"),
  [
    ("", []),
    ("embeddings", ["embeddings/"]),
    ("1", ["encoder/layer_1/"]),
    ("0-1", ["encoder/layer_0/", "encoder/layer_1/"]),
    ("embeddings, 2", ["embeddings/", "encoder/layer_2/"]),
    ("embeddings,encoder,pooler", [""]),
  ],
)
def test_freeze_layers_freezes_the_layers_it_names(attention, layers, names):
  sides = [f"{side}/" for side in SIDES] if attention == "shallow" else [""]
  prefixes = tuple(f"bert/{side}{name}" for side in sides for name in names)
  model = models.classifier(replace(CONFIG, attention=attention), 2)
  _freeze(model, layers)
  trained = {variable.path for variable in model.trainable_variables}
  for variable in model.variables:
    frozen = variable.path.startswith(prefixes)
    assert (variable.path in trained) != frozen, variable.path


def test_freezing_layer_1_leaves_layer_11_trained():
  variables = [SimpleNamespace(path=name, trainable=True) for name in LAYERS]
  config = replace(CONFIG, num_hidden_layers=12)
  _freeze(SimpleNamespace(variables=variables), "1,9-10", config)
  assert [n for n, v in enumerate(variables) if not v.trainable] == [1, 9, 10]


@pytest.mark.parametrize("layers", ["3", "1-3", "2-1", "layer_1", "embedding"])
def test_freezing_a_part_that_the_model_lacks_is_refused(layers):
  message = rf"no '{layers}'; it has the layers 0-2 and embeddings, encoder, p"
  with pytest.raises(ValueError, match=message):
    _freeze(None, layers)


@pytest.mark.parametrize("kind", [AdamWeightDecay, Lamb])
def test_joined_variables_are_updated_like_separate_variables(kind, tmp_path):
  rng = np.random.default_rng(0)
  shapes = {"table": (4, 3), "kernel": (3, 2), "bias": (2,), "unused": (2, 2)}
  values = {name: rng.normal(size=shape) for name, shape in shapes.items()}

  def make(joins_all):
    variables = {n: tf.Variable(v, dtype="float32") for n, v in values.items()}
    options = {"lr_multipliers": [0.5, 1.0, 1.0, 1.0], "joins_all": joins_all}
    return kind(variables, 0.1, **options)

  def update(optimizer, step):
    rng = np.random.default_rng(step)
    rows, *dense = (
      tf.constant(rng.normal(size=shape), "float32")
      for shape in ((2, 3), (3, 2), 2)
    )
    rows = tf.IndexedSlices(rows, tf.constant([1, 1]), tf.constant([4, 3]))
    enabled = tf.constant(step != 1)
    _apply(optimizer, [rows, *dense, None], 0.1, step, 0.5, enabled)

  single, joined = make(False), make(True)
  for step in range(3):
    for optimizer in (single, joined):
      update(optimizer, step)
  restored = make(True)
  prefix = str(tmp_path / "model.ckpt-3")
  checkpoint.write(prefix, single.state)
  checkpoint.Reader(prefix).assign(restored.state)
  expected = toy.values(single.state)
  for other in map(toy.values, (joined.state, restored.state)):
    for name, slot in expected.items():
      np.testing.assert_allclose(other[name], slot, 1e-5, 1e-7, err_msg=name)
  for variable, other in zip(single.variables, joined.variables, strict=True):
    np.testing.assert_allclose(other, variable, 1e-5, 1e-7)
