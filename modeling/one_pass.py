"""Chains of small operations in training, each as one pass over memory.

Between two matrix products stand chains such as bias, dropout, residual,
normalization. Run one operation after the other they read and write the same
activations again and again, and on a CPU take as long as the products. On
TensorFlow each chain is therefore compiled by XLA, and its gradient computes it
once more instead of keeping what is between; products are left to the library
that is best at them. JAX compiles whole steps anyway, and without training
TensorFlow's own optimizer knows many of them: then a chain is what it says.
"""

import functools
import itertools
from collections.abc import Callable

import keras
from keras import ops

if keras.backend.backend() == "tensorflow":  # else it may not be there
  import tensorflow as tf


def one_pass(chain: Callable) -> Callable:
  """Makes `chain(*tensors, **options)` take `training` and `dtype`, too.

  Args:
    chain: from tensors (None among them where one is left out) to one tensor,
      in operations of Keras. Options are hashable values.

  Returns:
    The same function, which returns the type `dtype`, by default that of the
    first tensor. In training it computes in float32 whatever the types are. On
    TensorFlow it is compiled then, and integers have no gradient.
  """

  @functools.cache
  def compiled(signature, dtype, options):
    def call(*given):
      tensors = iter(given)
      present = (next(tensors) if s else None for s in signature)
      return ops.cast(chain(*map(_wide, present), **dict(options)), dtype)

    return _compile(call)

  @functools.wraps(chain)
  def run(*tensors, training: bool | None = None, dtype=None, **options):
    dtype = dtype or tensors[0].dtype
    if not training:
      return ops.cast(chain(*tensors, **options), dtype)
    if keras.backend.backend() != "tensorflow":
      return ops.cast(chain(*map(_wide, tensors), **options), dtype)
    tensors = [t if t is None else tf.convert_to_tensor(t) for t in tensors]
    # One function each, or TensorFlow warns that one is traced too often.
    signature = (t if t is None else (t.dtype, *t.shape) for t in tensors)
    call = compiled(tuple(signature), dtype, tuple(sorted(options.items())))
    return call(*(tensor for tensor in tensors if tensor is not None))

  del run.__wrapped__  # which AutoGraph would call instead
  return run


def _wide(tensor):
  """As float32 if it has a type of real numbers."""
  if tensor is None:
    return None
  dtype = keras.backend.standardize_dtype(tensor.dtype)
  is_real = keras.backend.is_float_dtype(dtype)
  return ops.cast(tensor, "float32") if is_real else tensor


def _compile(chain):
  forward = tf.function(chain, autograph=False, jit_compile=True)

  @functools.partial(tf.function, autograph=False, jit_compile=True)
  def backward(upstream, tensors):
    is_real = [tensor.dtype.is_floating for tensor in tensors]
    watched = list(itertools.compress(tensors, is_real))
    with tf.GradientTape() as tape:
      tape.watch(watched)
      output = chain(*tensors)
    found = iter(tape.gradient(output, watched, upstream))
    return [next(found) if real else None for real in is_real]

  @tf.custom_gradient
  def call(*tensors):
    return forward(*tensors), lambda upstream: backward(upstream, tensors)

  return call
