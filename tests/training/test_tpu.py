"""Accelerator requirements on a training step, tested without an accelerator.

All shapes are static, there are no strings, and XLA compiles the whole step.
"""

import re
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf

from data import features
from modeling import losses, models, tracing
from tests.shared import slow
from tests.training import toy
from tests.training.toy import P, T
from training.step import set_dtype_policy

B, C = 4, 3
# Operations whose output shape depends on values.
DYNAMIC = {"DynamicPartition", "NonMaxSuppression", "RaggedRange"}
DYNAMIC |= {"Unique", "UniqueV2", "Where"}
CONFIG = replace(toy.config(0.1), use_one_hot_embeddings=True)
MODELS = {
  "pretraining": lambda: models.pretrainer(CONFIG),
  "classification": lambda: models.classifier(CONFIG, 3),
  "regression": lambda: models.classifier(CONFIG, 1),
  "spans": lambda: models.span_labeler(CONFIG),
  "tagging": lambda: models.tagger(CONFIG, 5),
  "choice": lambda: models.multiple_choice(CONFIG),
}
SCORES = features.classification(T, dtype="float32")
# Objective and schema per model.
DATA = {
  "pretraining": (losses.pretraining(), features.pretraining(T, P)),
  "classification": (losses.classification(), features.classification(T)),
  "regression": (losses.regression(), SCORES),
  "spans": (losses.span(), features.squad(T, is_training=True)),
  "tagging": (losses.tagging(), features.tagging(T)),
  "choice": (losses.classification(), features.multiple_choice(T, C)),
}


def _step(task):
  """Returns a training step and a batch of zeros and ones."""
  objective, schema = DATA[task]
  model = MODELS[task]()
  step = toy.train_step(batch_size=B, model=model, objective=objective)
  rng = np.random.RandomState(1)
  batch = {}
  for name, feature in schema.items():
    dtype = "float32" if feature.dtype == "float32" else "int32"
    batch[name] = tf.constant(rng.randint(0, 2, (B, *feature.shape)), dtype)
  return step, batch


@pytest.fixture(
  scope="module",
  params=[slow(name) if name == "regression" else name for name in MODELS],
)
def graph(request):
  """The graph of a task's training step with plain operations, as on a GPU."""
  step, batch = _step(request.param)
  with tracing.mode(fused=False):
    return tf.function(step._step).get_concrete_function(batch).graph


def test_a_training_step_has_static_shapes_and_no_strings(graph):
  for operation in toy.operations(graph):
    assert operation.type not in DYNAMIC, operation.name
    # XLA knows the output of BroadcastGradientArgs: the axes of a sum.
    is_known = operation.type == "BroadcastGradientArgs"
    for tensor in () if is_known else operation.outputs:
      assert tensor.dtype != tf.string, operation.name
      assert tensor.shape.is_fully_defined(), tensor


@pytest.mark.parametrize("recomputed", [slow(False), True])
def test_the_program_of_a_step_sums_in_float32_and_multiplies_in_bfloat16(
  recomputed,
):
  set_dtype_policy("bfloat16")
  step, batch = _step("pretraining")
  function = tf.function(step._step, jit_compile=True)
  with tracing.mode(recompute=recomputed, compiled=True):
    # HLO, before XLA optimizes the program.
    program = function.experimental_get_compiler_ir(batch)(stage="hlo")
  # Groups: the result type and the name of each operation.
  pattern = r" = (?:\(.*?\)|(\w+)\[\S*) ([a-z][\w-]*)\("
  types = Counter((name, dtype) for dtype, name in re.findall(pattern, program))
  names = {name for name, _ in types}
  host = {"custom-call", "infeed", "outfeed", "send", "recv", "rng"}
  assert not names & host
  assert "<=" not in program  # marks a dynamic size
  # Sums (gradients, means, losses) are float32; "" marks several results.
  # Products are bfloat16.
  sums = {dtype for name, dtype in types if name == "reduce"}
  assert sums <= {"f32", "pred", "s32", ""}
  assert types["dot", "bf16"] > 30
  # One barrier per layer; the model has one layer.
  assert types["opt-barrier", ""] == recomputed


def test_replicas_exchange_loss_weights_and_gradients_once_per_step():
  with toy.two_replicas().scope():
    step = toy.train_step(dropout=0.1)
    graph = toy.train_graph(step)
  sizes = Counter(
    operation.inputs[0].shape.num_elements()
    for operation in toy.operations(graph)
    if operation.type.startswith("Collective")
  )
  variables = sum(v.shape.num_elements() for v in step.variables)
  # Both devices exchange the losses' denominators, then gradients and loss.
  assert sizes == {2: 2, variables + 2: 2}
