"""Mode in which the network is traced, and seeds of its dropouts.

Both are read by layers far below the model that a training step calls, so they
are entered as contexts and not passed.
"""

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import keras
from keras import ops


@dataclass(frozen=True)
class Mode:
  """Choices of what is traced; `mode` changes them.

  Attributes:
    fused: form of the operations of fused_ops.py; None for that of the device.
    gradients: False leaves out gradients that are written out, in inference.
    recompute: Transformer blocks are computed again by their gradients, so that
      training in less memory stores only the input of each block.
    compiled: XLA compiles the complete training step.
    upstream: gradient of a block's output that its recomputation waits for.
  """

  fused: bool | None = None
  gradients: bool = True
  recompute: bool = False
  compiled: bool = False
  upstream: Any = None


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
