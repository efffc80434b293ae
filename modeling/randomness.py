"""Dropout whose masks are a pure function of a seed that the caller gives.

A training step that is begun again from a checkpoint must draw the masks it
drew before. So no layer keeps a random state: whoever runs the step says
`with step_seed(seed):` and every dropout inside takes the next stream of it.
"""

import contextlib
import threading

import keras
from keras import ops

_active = threading.local()  # replicas are traced in threads of their own


@contextlib.contextmanager
def step_seed(seed):
  """Makes every dropout inside draw from `seed`, in order of calls.

  Args:
    seed: [2] int32, different for every step and replica. The n-th dropout
      uses it with n mixed into the second number.
  """
  before = getattr(_active, "state", None)
  _active.state = [seed, 0]
  try:
    yield
  finally:
    _active.state = before


def next_seed():
  """The seed of the next dropout, [2] uint32.

  Outside of `step_seed` it comes from Keras' global generator.
  """
  state = getattr(_active, "state", None)
  if state is None:
    return ops.cast(keras.random.randint((2,), 0, 2**31 - 1), "uint32")
  seed, count = state
  state[1] += 1
  # Other for every count below 2^30, and far from its neighbours.
  stream = [0, (count * 0x3C6EF372 + 1) % 2**31]
  return ops.cast(ops.bitwise_xor(seed, ops.array(stream, "int32")), "uint32")


def uniform_bits(shape, seed):
  """Random numbers, any of the 2^32 equally likely: uint32 of that shape.

  A hash of the place and the seed. Unlike a generator it is a few operations
  for each element by itself, which a compiler makes part of what uses them.

  Args:
    shape: of ints or scalar tensors.
    seed: [2] uint32.
  """
  size = 1
  for length in shape:
    size *= length
  places = ops.cast(ops.arange(size, dtype="int32"), "uint32")
  first, second = ops.unstack(_hash(seed), 2)
  bits = _hash(ops.bitwise_xor(places, first))
  return ops.reshape(_hash(bits + second), shape)


def _hash(x):
  """Mixes 32 bits; constants of `lowbias32` (C. Wellons, "Prospecting for
  hash functions", 2018), chosen for little bias from any bit to any other.
  """
  for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B), (16, 1)):
    shift, factor = (ops.array(n, "uint32") for n in (shift, factor))
    x = ops.bitwise_xor(x, ops.bitwise_right_shift(x, shift)) * factor
  return x
