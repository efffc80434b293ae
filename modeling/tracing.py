"""Tracing of the network: its mode, seeds of dropouts, and parts by XLA.

Mode and seeds are read by layers far below the model that a training step
calls, so they are entered as contexts and not passed.
"""

import contextlib
import functools
import itertools
import os
import threading
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import keras
from keras import ops

from storage import UserError

if keras.backend.backend() == "tensorflow":  # else it may not be installed
  import tensorflow as tf
  from tensorflow.compiler.tf2xla.ops import gen_xla_ops

# Operations on fewer elements are not worth the 50 ms of a compilation.
MIN_COMPILED_SIZE = 2**15
_layer_functions: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


@dataclass(frozen=True)
class Mode:
  """Choices of what is traced; `mode` changes them."""

  fused: bool | None = None  # form of fused_ops.py; None for the device's
  gradients: bool = True  # False leaves out those of fused_ops.py, in inference
  # Gradients of Transformer blocks compute them again: training in less memory
  # stores only the input of each block.
  recompute: bool = False
  compiled: bool = False  # XLA compiles the complete training step
  upstream: Any = None  # gradient that a block's recomputation waits for


_mode = Mode()  # threads, as of replicas, would not see a context variable
_thread = threading.local()  # each replica has seeds of its own


def current() -> Mode:
  """Returns the mode of the innermost `mode` context."""
  return _mode


@contextlib.contextmanager
def mode(**changes) -> Iterator[None]:
  """Context in which the network is traced with other attributes of Mode."""
  global _mode
  before, _mode = _mode, replace(_mode, **changes)
  try:
    yield
  finally:
    _mode = before


class DropoutSeeds:
  """Seeds of one dropout after another; as a context, of those inside.

  No layer has a random state, so a step that is repeated after a restart draws
  the same masks. `seed` is [2] int32. The n-th dropout mixes n, from `count`
  (an int, or a scalar int32 tensor), into the second number.
  """

  def __init__(self, seed, count=0):
    self.seed = seed
    self.count = count
    self._outer = None

  @classmethod
  def current(cls) -> "DropoutSeeds":
    """Returns those of the innermost context, else new ones by Keras' seed."""
    seeds = getattr(_thread, "seeds", None)
    return seeds or cls(keras.random.randint((2,), 0, 2**31 - 1))

  def __enter__(self) -> "DropoutSeeds":
    self._outer = getattr(_thread, "seeds", None)
    _thread.seeds = self
    return self

  def __exit__(self, *_) -> None:
    _thread.seeds = self._outer

  def reserve(self, number: int):
    """Skips the seeds of `number` dropouts; returns the count before them."""
    first = self.count
    self.count += number
    return first

  def next(self):
    """Seed of the next dropout, [2] uint32."""
    # Distinct for every count below 2^30, and far from the next ones.
    stream = (self.reserve(1) * 0x3C6EF372 + 1) & (2**31 - 1)
    mixed = ops.bitwise_xor(self.seed, ops.stack([0, stream]))
    return ops.cast(mixed, "uint32")


def is_fused() -> bool:
  """True if the fused form is in use.

  By default where TensorFlow computes on CPUs alone; `mode` and then
  BERT_FUSED_OPS (0 or 1, else ValueError) take precedence.
  """
  if keras.backend.backend() != "tensorflow":
    return False
  if (fused := current().fused) is not None:
    return fused
  setting = os.environ.get("BERT_FUSED_OPS", "")
  if setting not in ("", "0", "1"):
    raise UserError(f"BERT_FUSED_OPS must be 0 or 1, not {setting!r}")
  if setting:
    return setting == "1"
  # A TPU of another host is not among the visible devices of this one.
  on_tpu = isinstance(tf.distribute.get_strategy(), tf.distribute.TPUStrategy)
  return not (on_tpu or any(map(tf.config.get_visible_devices, ("GPU", "TPU"))))


# --- Transformer blocks ------------------------------------------------------


def call_function(function, layer, like, *tensors):
  """`function(layer, *tensors)`, traced once for all layers like `like`.

  `layer` has its class, sizes and types. The graph is that of `like`, with the
  weights as arguments. Some of `tensors` may be None.
  """
  functions = _layer_functions.setdefault(like, {})
  if function not in functions:
    reference = weakref.ref(like)

    def call(weights, upstream, hidden_states, *tensors):
      like = reference()
      if upstream is not None:
        # Also here: inlining a call loses its control dependencies.
        hidden_states, _ = _join([hidden_states, tf.identity(upstream)])
      with keras.StatelessScope(zip(like.variables, weights, strict=True)):
        return function(like, hidden_states, *tensors)

    functions[function] = tf.function(call, autograph=False)
  weights = [tf.convert_to_tensor(v.value) for v in layer.variables]
  tensors = [t if t is None else tf.convert_to_tensor(t) for t in tensors]
  return functions[function](weights, current().upstream, *tensors)


def recompute(function: Callable, layer, hidden_states, seed):
  """Calls `function(hidden_states, seed)`, and again in its gradient.

  It reads the variables of `layer`, a built one, only.
  """
  # XLA ignores control dependencies.
  is_compiled = current().compiled
  join = gen_xla_ops.xla_optimization_barrier if is_compiled else _join
  variables = layer.variables
  weights = [tf.convert_to_tensor(v.value) for v in variables]

  def call(weights, hidden_states, seed):
    with keras.StatelessScope(zip(variables, weights, strict=True)):
      return function(hidden_states, seed)

  @tf.custom_gradient
  def forward(hidden_states, *weights):
    def gradient(upstream):
      inputs = join([hidden_states, seed, upstream])
      trained = itertools.compress(weights, (v.trainable for v in variables))
      with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch([inputs[0], *trained])
        with mode(upstream=inputs[2]):
          output = call(weights, *inputs[:2])
      return tape.gradient(output, [inputs[0], *weights], inputs[2])

    return call(weights, hidden_states, seed), gradient

  return forward(hidden_states, *weights)


def _join(tensors):
  """Copies of the tensors, each of which waits for the last one.

  Else TensorFlow would recompute a layer too early, or merge both times.
  """
  with tf.control_dependencies(tensors[-1:]):
    return [tf.identity(tensor) for tensor in tensors]


# --- Element-wise operations -------------------------------------------------


def to_float32(tensor):
  """Casts floating-point tensors; others and None stay as they are."""
  if tensor is None or not keras.backend.is_float_dtype(tensor.dtype):
    return tensor
  return ops.cast(tensor, "float32")


def run_compiled(chain: Callable, *tensors, dtype: str, **options):
  """Runs `chain(*tensors, **options)` in float32, compiled by XLA.

  The gradient computes the chain, a module-level function of Keras operations,
  again. Tensors may be None, options are hashable, the result is of `dtype`;
  integer tensors have no gradient. Not compiled if the first tensor is small.
  """
  values = [t if t is None else tf.convert_to_tensor(t) for t in tensors]
  # One function per signature: TensorFlow warns when one is traced too often.
  signature = (t if t is None else (t.dtype, *t.shape) for t in values)
  dtype = keras.backend.standardize_dtype(dtype)
  size = tensors[0].shape.num_elements()  # None if one is unknown
  is_small = size is not None and size < MIN_COMPILED_SIZE
  key = chain, tuple(signature), dtype, tuple(sorted(options.items()))
  function = _compiled(*key, is_small)
  return function(*(value for value in values if value is not None))


@functools.cache
def _compiled(chain, signature, dtype, options, is_small):
  def call(*tensors):
    remaining = iter(tensors)
    arguments = (to_float32(next(remaining)) if s else None for s in signature)
    return ops.cast(chain(*arguments, **dict(options)), dtype)

  settings = {"jit_compile": True}
  if is_small:
    # Not inlined: where TensorFlow's optimizer can merge operations, it rounds
    # differently, so that layers computed again would not be the same.
    settings = {"experimental_attributes": {"_noinline": True}}
  compiled = functools.partial(tf.function, autograph=False, **settings)
  forward = compiled(call)

  @compiled
  def backward(upstream, tensors):
    is_float = [tensor.dtype.is_floating for tensor in tensors]
    watched = list(itertools.compress(tensors, is_float))
    with tf.GradientTape() as tape:
      tape.watch(watched)
      output = call(*tensors)
    gradients = iter(tape.gradient(output, watched, upstream))
    return [next(gradients) if floating else None for floating in is_float]

  @tf.custom_gradient
  def differentiable(*tensors):
    return forward(*tensors), lambda upstream: backward(upstream, tensors)

  return differentiable
