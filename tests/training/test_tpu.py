"""Requirements of accelerators on a training step, checked without one.

All shapes are static, there are no strings, and XLA compiles all of it.
"""

import re
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf

from data import features
from modeling import losses, models, tracing
from modeling.tracing import DropoutSeeds
from tests.training import toy
from training import checkpoint
from training.optimization import AdamWeightDecay, WarmupLinearDecay
from training.step import TrainStep, set_dtype_policy

B, C = 4, 3
# Operations with a shape that depends on values.
DYNAMIC = {
  "DynamicPartition",
  "NonMaxSuppression",
  "RaggedRange",
  "Unique",
  "UniqueV2",
  "Where",
}

CONFIG = replace(toy.config(0.1), use_one_hot_embeddings=True)


def _pretraining():
  return (
    models.pretrainer(CONFIG),
    losses.pretraining(),
    features.pretraining(toy.T, toy.P),
  )


def _left_to_right():
  config = replace(CONFIG, attention="left_to_right")
  model = models.pretrainer(config, False)
  return model, losses.pretraining(False), features.pretraining(toy.T, toy.P)


def _classification():
  model = models.classifier(CONFIG, 3)
  return model, losses.classification(), features.classification(toy.T)


def _regression():
  model = models.classifier(CONFIG, 1)
  return (
    model,
    losses.regression(),
    features.classification(toy.T, dtype="float32"),
  )


def _span():
  model = models.span_labeler(CONFIG)
  return model, losses.span(), features.squad(toy.T, is_training=True)


def _tagging():
  model = models.tagger(CONFIG, 5)
  return model, losses.tagging(), features.tagging(toy.T)


def _choice():
  model = models.multiple_choice(CONFIG)
  return model, losses.classification(), features.multiple_choice(toy.T, C)


TASKS = [
  _pretraining,
  _left_to_right,
  _classification,
  _regression,
  _span,
  _tagging,
  _choice,
]


def _step(task, **options):
  """A training step and a batch of zeros and ones."""
  model, objective, schema = task()
  rng = np.random.RandomState(1)
  batch = {
    name: rng.randint(0, 2, (B, *feature.shape)).astype(
      "float32" if feature.dtype == "float32" else "int32"
    )
    for name, feature in schema.items()
  }
  step = TrainStep(
    model,
    objective,
    AdamWeightDecay(checkpoint.trainable_variables(model)),
    WarmupLinearDecay(0.01, 100),
    batch_size=B,
    dropout_seeds=DropoutSeeds,
    **options,
  )
  return step, {name: tf.constant(value) for name, value in batch.items()}


def _operations(graph):
  """All operations of a graph and of the functions within it."""
  yield from graph.get_operations()
  for name in graph._functions:
    yield from _operations(graph._get_function(name).graph)


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.__name__)
def test_all_shapes_are_known_and_there_are_no_strings(task):
  step, batch = _step(task)
  graph = tf.function(step._step).get_concrete_function(batch).graph
  for operation in _operations(graph):
    assert operation.type not in DYNAMIC, operation.name
    # Its output, the axes of a sum, is constant for XLA.
    is_known = operation.type == "BroadcastGradientArgs"
    for tensor in () if is_known else operation.outputs:
      assert tensor.dtype != tf.string, operation.name
      assert tensor.shape.is_fully_defined(), tensor


def _program(step, batch):
  """The training step as HLO text, before XLA optimizes it."""
  function = tf.function(step._step, jit_compile=True)
  return function.experimental_get_compiler_ir(batch)(stage="hlo")


def _operation_types(program):
  """Number of operations by their name and the type of their result."""
  pattern = r" = (?:\(.*?\)|(\w+)\[\S*) ([a-z][\w-]*)\("
  return Counter((name, dtype) for dtype, name in re.findall(pattern, program))


@pytest.mark.parametrize(
  "recomputed", [pytest.param(False, marks=pytest.mark.slow), True]
)
def test_program_of_a_step_in_bfloat16(recomputed):
  set_dtype_policy("bfloat16")
  step, batch = _step(_pretraining)
  set_dtype_policy("float32")
  with tracing.mode(recompute=recomputed, compiled=True):
    program = _program(step, batch)
  types = _operation_types(program)
  names = {name for name, _ in types}
  host = {"custom-call", "infeed", "outfeed", "send", "recv", "rng"}
  assert not names & host
  assert "<=" not in program  # the mark of a dynamic size
  # Sums of gradients, means and losses; products are bfloat16.
  assert {dtype for name, dtype in types if name == "reduce"} <= {
    *("f32", "pred", "s32"),
    "",  # several results
  }
  assert types["dot", "bf16"] > 30
  # One for each layer of the model, which has one.
  assert types["opt-barrier", ""] == recomputed


def test_replicas_exchange_weights_and_gradients_once():
  with toy.two_replicas().scope():
    step = toy.train_step(dropout=0.1)
    strategy = tf.distribute.get_strategy()
    data = strategy.experimental_distribute_dataset(toy.batches(1))
    run = step.run.get_concrete_function(iter(data), tf.constant(1))
  sizes = Counter(
    operation.inputs[0].shape.num_elements()
    for operation in _operations(run.graph)
    if operation.type.startswith("Collective")
  )
  variables = sum(v.shape.num_elements() for v in step.variables)
  # On each of two devices: the losses' denominators, then all gradients.
  assert sizes == {2: 2, variables: 2}


@pytest.mark.parametrize(
  "task",
  [TASKS[0], *(pytest.param(t, marks=pytest.mark.slow) for t in TASKS[1:])],
  ids=lambda task: task.__name__,
)
def test_xla_compiles_the_step(task):
  step, batch = _step(task)
  sums = tf.function(step._step, jit_compile=True)(batch)
  total, weight = sums["loss"].numpy()
  assert np.isfinite(total)
  assert weight == 1.0
  assert step.step.numpy() == 1


@pytest.mark.slow
def test_xla_compiles_micro_batches():
  step, batch = _step(_pretraining, accumulation_steps=2)
  sums = tf.function(step._step, jit_compile=True)(batch)
  assert np.isfinite(sums["loss"].numpy()).all()
