"""Dropout whose masks are a pure function of a seed that the caller gives.

A training step that is begun again from a checkpoint must draw the masks it
drew before. So no layer keeps a random state: whoever runs the step says
`with step_seed(seed):` and every dropout inside takes the next stream of it.
"""

import contextlib
import threading

import keras

_active = threading.local()  # replicas are traced in threads of their own


class _Stream(keras.random.SeedGenerator):
  """What keras.random takes as a seed: here a value, not a variable."""

  def __init__(self, value):
    self._value = value

  def next(self, ordered=True):
    del ordered
    return self._value


@contextlib.contextmanager
def step_seed(seed):
  """Makes every Dropout called inside draw from `seed`, in order of calls.

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


def _next_stream():
  state = getattr(_active, "state", None)
  if state is None:
    return None
  seed, count = state
  state[1] += 1
  # An odd multiplier keeps streams apart; int32 wraps around.
  offset = (count * 0x3C6EF372 + 1) % 2**31
  return _Stream(
    keras.ops.stack([seed[0], keras.ops.bitwise_xor(seed[1], offset)])
  )


class Dropout(keras.layers.Layer):
  """Sets a share of the values to zero in training and scales up the rest.

  Outside of `step_seed` it draws from Keras' global generator.

  Arguments:
    rate: share of values that are dropped.
  """

  def __init__(self, rate: float, **kwargs):
    super().__init__(**kwargs)
    self.rate = rate
    self.built = True

  def call(self, inputs, training=None):
    if not training or not self.rate:
      return inputs
    return keras.random.dropout(inputs, self.rate, seed=_next_stream())
