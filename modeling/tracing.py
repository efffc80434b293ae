"""Tracing of the network: mode, dropout seeds and parts that XLA compiles.

Layers far below the model of a training step read the mode and the seeds, so
both are contexts and not arguments.
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

if keras.backend.backend() == "tensorflow":  # else TensorFlow may be missing
  import tensorflow as tf
  from tensorflow.compiler.tf2xla.ops import gen_xla_ops

# Operations on fewer elements are not worth the 50 ms of a compilation.
MIN_COMPILED_SIZE = 2**15
# {block: trace for all similar blocks}
_shared: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


@dataclass(frozen=True)
class Mode:
  """Choices for tracing the network, which the context `mode` changes."""

  fused: bool | None = None  # form of fused_ops.py; None: the device decides
  # Computes Transformer blocks again for gradients. Training then stores only
  # each block's input, which saves memory.
  recompute: bool = False
  compiled: bool = False  # XLA compiles the complete training step


_mode = Mode()  # replicas' threads would not see a context variable
_thread = threading.local()  # each replica has a thread and its own seeds


@contextlib.contextmanager
def mode(**changes) -> Iterator[None]:
  """Context in which the network is traced with `changes` to the Mode."""
  global _mode
  before, _mode = _mode, replace(_mode, **changes)
  try:
    yield
  finally:
    _mode = before


@dataclass
class DropoutSeeds:
  """A seed, [2] int32, that each dropout mixes with its number."""

  seed: Any
  first: Any = 0  # number of the first dropout: an int or a scalar int32 tensor
  count: int = 0  # dropouts drawn


@contextlib.contextmanager
def dropout_seeds(seed, first=0) -> Iterator[DropoutSeeds]:
  """Context in which dropouts draw their seeds from a DropoutSeeds.

  Layers have no random state, so a repeated step draws the same masks.
  """
  outer = getattr(_thread, "seeds", None)
  _thread.seeds = DropoutSeeds(seed, first)
  try:
    yield _thread.seeds
  finally:
    _thread.seeds = outer


def draw_dropouts(number: int) -> tuple:
  """Returns the seed and the number of the first of `number` dropouts.

  Without a context, as in Keras' fit, each call returns another seed.
  """
  seeds = getattr(_thread, "seeds", None)
  if seeds is None:
    return keras.random.randint((2,), 0, 2**31 - 1), 0
  first = seeds.first + seeds.count
  seeds.count += number
  return seeds.seed, first


def dropout_seed(rate: float, training: bool | None):
  """Returns the next dropout's seed, [2] uint32, or None to drop nothing."""
  if not (training and rate):
    return None
  seed, number = draw_dropouts(1)
  # Streams differ for all numbers below 2^30; adjacent numbers are far apart.
  stream = (number * 0x3C6EF372 + 1) & (2**31 - 1)
  mixed = ops.bitwise_xor(seed, ops.stack([0, stream]))
  return ops.cast(mixed, "uint32")


def is_fused() -> bool:
  """True if the fused form is in use.

  TensorFlow uses the fused form by default if there is no GPU or TPU.
  BERT_FUSED_OPS (0 or 1) overrides the default, and `mode` overrides both.
  """
  if keras.backend.backend() != "tensorflow":
    return False
  if _mode.fused is not None:
    return _mode.fused
  if setting := os.environ.get("BERT_FUSED_OPS"):
    return setting == "1"
  # This host's visible devices do not include another host's TPU.
  on_tpu = isinstance(tf.distribute.get_strategy(), tf.distribute.TPUStrategy)
  return not (on_tpu or any(map(tf.config.get_visible_devices, ("GPU", "TPU"))))


# --- Transformer blocks ------------------------------------------------------


def train_block(block, like, hidden_states, mask, positions=None):
  """Calls a Transformer block in training: [B, T, H] -> [B, T or P, H].

  In the fused form, a block that computes every position uses the trace of
  `like`, a block of the same sizes. This saves 1.6 processor seconds when a
  training of 12 blocks starts (benchmarks/notes.md).
  """
  is_shared = positions is None and is_fused()
  if not (_mode.recompute or is_shared):
    return block(hidden_states, mask, positions, training=True)
  seed, first = draw_dropouts(block.num_dropouts)
  weights = [tf.convert_to_tensor(v.value) for v in block.variables]
  call = functools.partial(_stateless, block)
  if is_shared:
    seed, first = tf.convert_to_tensor(seed), tf.convert_to_tensor(first)
    if like not in _shared:
      # A proxy, because a value with the block would keep the block forever.
      call = functools.partial(_stateless, weakref.proxy(like))
      _shared[like] = tf.function(call, autograph=False)
    call = _shared[like]
  inputs, others = (weights, hidden_states, seed), (first, mask, positions)
  if _mode.recompute:
    return _recomputed(call, block, *inputs, others)
  return call(*inputs, None, *others)


def _stateless(
  block, weights, hidden_states, seed, upstream, first, mask, positions
):
  """Output of a block for `weights`; waits for `upstream` if it is a tensor."""
  if upstream is not None:
    # Join here, too, because an inlined call loses control dependencies.
    hidden_states, _ = _join([hidden_states, tf.identity(upstream)])
  with (
    keras.StatelessScope(zip(block.variables, weights, strict=True)),
    dropout_seeds(seed, first),
  ):
    return block(hidden_states, mask, positions, training=True)


def _recomputed(call, block, weights, hidden_states, seed, others):
  """Calls `_stateless` by `call`, and once more for the gradient."""
  # XLA ignores the control dependencies of _join, but not a barrier.
  is_compiled = _mode.compiled
  join = gen_xla_ops.xla_optimization_barrier if is_compiled else _join
  is_trained = [v.trainable for v in block.variables]

  @tf.custom_gradient
  def forward(hidden_states, *weights):
    def gradient(upstream):
      inputs = join([hidden_states, seed, upstream])
      trained = itertools.compress(weights, is_trained)
      with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch([inputs[0], *trained])
        output = call(weights, *inputs, *others)
      return tape.gradient(output, [inputs[0], *weights], inputs[2])

    return call(weights, hidden_states, seed, None, *others), gradient

  return forward(hidden_states, *weights)


def _join(tensors):
  """Copies the tensors. Each copy waits for the last tensor."""
  # Otherwise TensorFlow would recompute a block too early, or not at all.
  with tf.control_dependencies(tensors[-1:]):
    return [tf.identity(tensor) for tensor in tensors]


# --- Element-wise operations -------------------------------------------------


def to_float32(tensor):
  """Casts a floating-point tensor; returns other tensors and None unchanged."""
  if tensor is None or not keras.backend.is_float_dtype(tensor.dtype):
    return tensor
  return ops.cast(tensor, "float32")


def run_compiled(chain: Callable, *tensors, dtype: str, **options):
  """Runs `chain(*tensors, **options)` in float32, compiled by XLA.

  `chain` is a module-level function of Keras operations, which the gradient
  computes again. Tensors may be None, options are hashable, and the result has
  `dtype`. Integer tensors have no gradient. A small first tensor turns XLA off.
  """
  values = [t if t is None else tf.convert_to_tensor(t) for t in tensors]
  # One function per signature: TensorFlow warns of functions with many traces.
  signature = [t if t is None else (t.dtype, *t.shape) for t in values]
  dtype = keras.backend.standardize_dtype(dtype)
  size = tensors[0].shape.num_elements()  # None if a size is unknown
  is_small = size is not None and size < MIN_COMPILED_SIZE
  key = chain, tuple(signature), dtype, tuple(sorted(options.items()))
  function = _compiled(*key, is_small)
  return function(*[value for value in values if value is not None])


@functools.cache
def _compiled(chain, signature, dtype, options, is_small):
  def call(*tensors):
    remaining = iter(tensors)
    arguments = [to_float32(next(remaining)) if s else None for s in signature]
    return ops.cast(chain(*arguments, **dict(options)), dtype)

  settings = {"jit_compile": True}
  if is_small:
    # TensorFlow's optimizer would merge inlined operations and round
    # differently, so that a recomputed block would have other values.
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

  return tf.custom_gradient(
    lambda *tensors: (forward(*tensors), lambda up: backward(up, tensors))
  )
