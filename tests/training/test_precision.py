"""Mixed precision: float32 operations, and steps with gradient overflow."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from modeling import heads, models
from tests.training import toy
from training import loop
from training.step import LossScale, set_dtype_policy

# Normalization statistics, softmax in attention and loss, Adam's root.
IN_FLOAT32 = """
Exp Log LogSoftmax Mean Rsqrt Softmax Sqrt SquaredDifference
AssignVariableOp AssignAddVariableOp AssignSubVariableOp
"""


@pytest.fixture(name="step", params=["bfloat16", "float16"])
def _step(request):
  """A training step in mixed precision."""
  set_dtype_policy(request.param)
  scale = LossScale() if request.param == "float16" else None
  model = models.pretrainer(toy.config(0.1))
  return toy.train_step(loss_scale=scale, model=model)


@pytest.mark.parametrize(
  ("is_trained", "variables"), [(True, "float32"), (False, "bfloat16")]
)
def test_only_training_needs_float32_variables(is_trained, variables):
  set_dtype_policy("bfloat16", is_trained)
  policy = keras.config.dtype_policy()
  types = policy.compute_dtype, policy.variable_dtype
  assert types == ("bfloat16", variables)
  set_dtype_policy("float32", is_trained)
  assert keras.config.dtype_policy().name == "float32"


def test_a_bilstm_answers_in_bfloat16():
  """TensorFlow lacks QR decomposition, of the first values, in bfloat16."""
  set_dtype_policy("bfloat16", is_trained=False)
  outputs = heads.BiLstm(4)(tf.ones((2, 5, 8)), tf.ones((2, 5)))
  assert outputs.dtype == "bfloat16" and outputs.shape == (2, 5, 8)


def test_variables_slots_outputs_and_losses_are_float32(step):
  batch = next(iter(toy.batches(1)))
  outputs = step.model({name: batch[name] for name in step.model.input})
  sums = step.train(iter(toy.batches(1)), tf.constant(1))
  for name, value in (step.state | outputs | sums).items():
    if value.dtype != tf.int64:
      assert value.dtype == tf.float32, name
  assert len(step.optimizer.state) == 2 * len(step.variables)


def test_sensitive_operations_run_in_float32(step):
  graph = toy.step_graph(step, next(iter(toy.batches(1))))
  result = {}
  for operation in toy.operations(graph):
    tensors = (*operation.inputs, *operation.outputs)
    types = {t.dtype.name for t in tensors if t.dtype.is_floating}
    result.setdefault(operation.type, set()).update(types)
  for name in result.keys() & IN_FLOAT32.split():
    assert result[name] <= {"float32"}, name
  assert all(result[name] for name in ("Softmax", "Rsqrt", "Sqrt"))
  # Matrix products use the compute dtype.
  compute = keras.config.dtype_policy().compute_dtype
  assert compute in result["BatchMatMulV2"] | result["MatMul"]


def _float16_step(scale):
  set_dtype_policy("float16")
  return toy.train_step(loss_scale=LossScale(scale))


def test_steps_with_an_overflow_are_skipped_and_reported():
  step = _float16_step(2.0**40)
  before = toy.values(step.state)
  sums = step.train(iter(toy.batches(2)), tf.constant(2))
  assert step.first_nonfinite_step.numpy() == 1
  assert sums["skipped_steps"].numpy().tolist() == [2.0, 2.0]  # sum, weight
  assert sums["loss"].numpy().tolist() == [0.0, 0.0]
  assert step.loss_scale.scale.numpy() == 2.0**38  # halved twice
  assert step.step.numpy() == 2
  after = toy.values(step.state)
  for name, value in before.items():
    if not name.startswith(("run/", "loss_scale/", "global_step")):
      np.testing.assert_array_equal(after[name], value, name)


def test_only_the_call_that_runs_a_step_with_nan_reports_the_step():
  step = _float16_step(1.0)
  for data, first in ((toy.spoiled_batches(1), 1), (toy.batches(1), -1)):
    step.train(iter(data), tf.constant(1))
    assert step.first_nonfinite_step.numpy() == first


def test_a_run_continues_after_a_skipped_step_at_the_lowest_scale(tmp_path):
  step = _float16_step(1.0)
  toy.train(tmp_path, step, toy.spoiled_batches(4), loop.Plan(5))
  assert step.first_nonfinite_step.numpy() == 4
  assert step.step.numpy() == 5


def test_a_run_ends_if_its_loss_stays_nan_at_the_lowest_scale(tmp_path):
  step = _float16_step(1.0)
  variable = step.model.trainable_variables[0]
  variable.assign(keras.ops.full(variable.shape, np.nan))
  with pytest.raises(ValueError, match="finite at step 1;"):
    toy.train(tmp_path, step, toy.batches(5), loop.Plan(5))
