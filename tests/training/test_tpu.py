"""Accelerator requirements on a training step, tested without an accelerator.

All shapes are static, there are no strings, and XLA compiles the whole step.
"""

import functools
import re
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework import kernels

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
  step = toy.train_step(batch_size=B, model=MODELS[task](), objective=objective)
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
    return toy.step_graph(step, batch)


def test_a_training_step_has_static_shapes_and_no_strings(graph):
  for operation in toy.operations(graph):
    assert operation.type not in DYNAMIC, operation.name
    # XLA knows the output of BroadcastGradientArgs: the axes of a sum.
    is_known = operation.type == "BroadcastGradientArgs"
    for tensor in () if is_known else operation.outputs:
      assert tensor.dtype != tf.string, operation.name
      assert tensor.shape.is_fully_defined(), tensor


# Work that a GPU may leave to the host (see `_work_of_host`).
ALLOWED_ON_HOST = {
  # Keras counts negative ids from the end, and the gradient of a lookup
  # flattens the ids, [B, T] or [B, P].
  "Reshape of int32 by SelectV2",
  "Size of int32 by SelectV2",
  # A loss compares shapes that tracing does not know, and has error messages.
  "Assert of bool by All",
  "Const of string",
}


def test_a_step_on_a_gpu_leaves_only_sizes_and_ids_to_the_host(graph):
  assert _work_of_host(graph) <= ALLOWED_ON_HOST


def test_a_step_on_packed_rows_leaves_only_sizes_and_ids_to_the_host():
  model = models.packed(models.pretrainer(toy.config(0.1)))
  step = toy.train_step(batch_size=B, model=model)
  batch = {name: tf.TensorSpec([None, T], tf.int32) for name in model.input}
  for name in "output_positions", "output_slots", "masked_lm_ids":
    batch[name] = tf.TensorSpec([None, None], tf.int32)
  batch["masked_lm_weights"] = tf.TensorSpec([None, None])
  batch["next_sentence_labels"] = tf.TensorSpec([None, 1], tf.int32)
  with tracing.mode(fused=False):
    assert _work_of_host(toy.step_graph(step, batch)) <= ALLOWED_ON_HOST


def _work_of_host(graph):
  """Describes what an uncompiled step on a GPU leaves to the host.

  Lists operations that have no kernel for a GPU, that read a GPU's tensor on
  the host, or that make more numbers on the host than a batch has token ids.
  """
  on_host, work = set(), set()
  for operation in graph.get_operations():
    kernel = _gpu_kernel(operation)
    inputs, outputs = operation.inputs, operation.outputs
    if operation.type == "Placeholder":  # an argument
      if outputs[0].dtype in (tf.int32, tf.resource):
        on_host.add(outputs[0].ref())
    elif kernel is None:
      on_host |= {tensor.ref() for tensor in outputs}
      types = ", ".join(x.dtype.name for x in inputs or outputs)
      work.add(f"{operation.type} of {types}")
    else:
      for tensor in _in_host_memory(kernel, operation, "input_arg", inputs):
        if tensor.ref() not in on_host:
          source = f"{tensor.dtype.name} by {tensor.op.type}"
          work.add(f"{operation.type} of {source}")
      for tensor in _in_host_memory(kernel, operation, "output_arg", outputs):
        on_host.add(tensor.ref())
        if (tensor.shape.num_elements() or 0) > B * C * T:
          work.add(f"{operation.type} makes {tensor.shape}")
  return work


def _gpu_kernel(operation):
  """Returns TensorFlow's kernel of an operation on a GPU, or None."""
  for device in "GPU", "DEFAULT":  # DEFAULT: on each device
    for kernel in _kernels(operation.type):
      if kernel.device_type == device and all(
        operation.get_attr(constraint.name).as_datatype_enum
        in constraint.allowed_values.list.type
        for constraint in kernel.constraint
      ):
        return kernel
  return None


_kernels = functools.cache(
  lambda name: kernels.get_registered_kernels_for_op(name).kernel
)


def _in_host_memory(kernel, operation, kind, tensors):
  """Returns the inputs or outputs that a kernel keeps in the host's memory."""
  names = []
  for argument in getattr(operation.op_def, kind):
    number = 1
    if argument.number_attr:
      number = operation.get_attr(argument.number_attr)
    elif argument.type_list_attr:
      number = len(operation.get_attr(argument.type_list_attr))
    names += [argument.name] * number
  pairs = zip(names, tensors, strict=True)
  return [tensor for name, tensor in pairs if name in kernel.host_memory_arg]


@pytest.mark.parametrize("recomputed", [slow(False), True])
def test_a_step_sums_in_float32_and_multiplies_in_bfloat16(recomputed):
  set_dtype_policy("bfloat16")
  step, batch = _step("pretraining")
  function = tf.function(step._step, jit_compile=True)
  with tracing.mode(recompute=recomputed, compiled=True):
    # HLO, before XLA optimizes the program.
    compiler = function.experimental_get_compiler_ir(batch, toy.zeros(step))
    program = compiler(stage="hlo")
  # Groups: the result type and the name of each operation.
  pattern = r" = (?:\(.*?\)|(\w+)\[\S*) ([a-z][\w-]*)\("
  types = Counter((name, dtype) for dtype, name in re.findall(pattern, program))
  names = {name for name, _ in types}
  assert not names & {"custom-call", "infeed", "outfeed", "send", "recv", "rng"}
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


@pytest.mark.slow
@pytest.mark.parametrize("task", MODELS)
def test_xla_compiles_the_step(task):
  step, batch = _step(task)
  sums = tf.function(step._step, jit_compile=True)(batch, toy.zeros(step))
  total, weight = sums.numpy()[step.names.index("loss")]
  assert np.isfinite(total)
  assert weight == 1.0
  assert step.step.numpy() == 1
