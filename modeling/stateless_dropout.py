"""Seeds and random bits of dropout, without a random state in any layer.

A training step that is repeated after a restart draws the same masks: it runs
the model inside `dropout_seed_scope(seed)`, and each dropout inside takes the
next seed that is derived from it.
"""

import contextlib
import threading

import keras
from keras import ops

_active = threading.local()  # replicas are traced in threads of their own


@contextlib.contextmanager
def dropout_seed_scope(seed):
  """Context in which every dropout derives its seed from `seed`.

  Args:
    seed: [2] int32, different for every step and replica. The n-th call of
      next_seed mixes n into the second number.
  """
  before = getattr(_active, "state", None)
  _active.state = [seed, 0]
  try:
    yield
  finally:
    _active.state = before


def next_seed():
  """Returns the seed of the next dropout, [2] uint32.

  Outside of `dropout_seed_scope` it comes from Keras' global generator.
  """
  state = getattr(_active, "state", None)
  if state is None:
    return ops.cast(keras.random.randint((2,), 0, 2**31 - 1), "uint32")
  seed, count = state
  state[1] += 1
  # Distinct for every count below 2^30, and far from the next ones.
  stream = [0, (count * 0x3C6EF372 + 1) % 2**31]
  return ops.cast(ops.bitwise_xor(seed, ops.array(stream, "int32")), "uint32")


def uniform_bits(shape, seed):
  """Uniform random uint32 numbers, a hash of index and seed.

  A generator would write its numbers to memory; a hash is a few operations on
  each element, which XLA fuses with those that use it.

  Args:
    shape: of ints or scalar tensors.
    seed: [2] uint32.

  Returns:
    uint32 of that shape.
  """
  size = 1
  for length in shape:
    size *= length
  indices = ops.cast(ops.arange(size, dtype="int32"), "uint32")
  first, second = ops.unstack(_hash(seed), 2)
  bits = _hash(ops.bitwise_xor(indices, first))
  return ops.reshape(_hash(bits + second), shape)


def _hash(x):
  """The 32-bit hash `lowbias32`.

  Source: C. Wellons, "Prospecting for hash functions", 2018.
  """
  for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B), (16, 1)):
    shift, factor = (ops.array(n, "uint32") for n in (shift, factor))
    x = ops.bitwise_xor(x, ops.bitwise_right_shift(x, shift)) * factor
  return x
