"""Sizes, batches and the clock of benchmarks that time training steps.

Needs numpy alone, so that the workers of all libraries can use it.
"""

import dataclasses
import math
import time
from collections.abc import Callable

import numpy as np

from benchmarks import turns

VOCAB_SIZE = 30522
# Layers and hidden size of the models of the paper and of the small ones.
SIZES = {
  "tiny": (2, 128),
  "mini": (4, 256),
  "small": (4, 512),
  "medium": (8, 512),
  "base": (12, 768),
  "large": (24, 1024),
}


@dataclasses.dataclass(frozen=True)
class Case:
  """What is trained, as each worker's arguments say.

  Attributes:
    size: of SIZES, or layers x hidden, as 6x384.
    batch: examples of a step.
    length: tokens of an example.
    dtype: float32 or bfloat16.
    threads: of the worker.
  """

  size: str
  batch: int
  length: int
  dtype: str
  threads: int = 2

  @classmethod
  def parse(cls, arguments: list[str]) -> "Case":
    """From what `arguments` made."""
    size, *numbers, dtype, threads = arguments
    return cls(size, *map(int, numbers), dtype, int(threads))

  @classmethod
  def named(cls, text: str, threads: int) -> "Case":
    """From size:batch:length:type."""
    return cls.parse([*text.split(":"), str(threads)])

  @property
  def arguments(self) -> list[str]:
    """For a command."""
    return [str(value) for value in dataclasses.astuple(self)]

  @property
  def layers(self) -> int:
    """Of the encoder."""
    return self._shape[0]

  @property
  def hidden(self) -> int:
    """Width of the encoder; an attention head has 64, an intermediate layer
    four times it.
    """
    return self._shape[1]

  @property
  def _shape(self) -> tuple[int, int]:
    if self.size in SIZES:
      return SIZES[self.size]
    layers, hidden = map(int, self.size.split("x"))
    return layers, hidden

  @property
  def heads(self) -> int:
    """Attention heads of a layer."""
    return self.hidden // 64

  @property
  def predictions(self) -> int:
    """Masked tokens of an example: 15 %, as the original's README advises."""
    return math.ceil(0.15 * self.length)

  @property
  def products(self) -> dict[str, tuple[float, int, int, int, int]]:
    """The matrix products of a forward pass: {kind: (times, batch, m, k, n)}.

    Each is `batch` products of [m, k] and [k, n]. The last block makes but
    keys and values of all tokens, and the rest of the masked and the pooled
    one, a share of a product. The pooler and the next-sentence head count
    nothing.
    """
    blocks = self.layers - 1 + (1 + self.predictions) / self.length
    tokens, width = self.batch * self.length, self.hidden
    masked = self.batch * self.predictions
    heads = self.batch * self.heads
    return {
      "Q, K, V, output": (
        *(2 * self.layers + 2 * blocks, 1),
        *(tokens, width, width),
      ),
      "scores": (
        *(blocks, heads),
        *(self.length, width // self.heads, self.length),
      ),
      "mixtures": (
        *(blocks, heads),
        *(self.length, self.length, width // self.heads),
      ),
      "feed-forward": (blocks, 1, tokens, width, 4 * width),
      "and back": (blocks, 1, tokens, 4 * width, width),
      "head": (1, 1, masked, width, width),
      "vocabulary": (1, 1, masked, width, VOCAB_SIZE),
    }

  @property
  def operations(self) -> float:
    """Floating-point operations of a step, those of its matrix products.

    A product of [m, k] and [k, n] has 2 m k n; the backward pass has twice as
    many as the forward pass. Look-ups, normalization, softmax, dropout and the
    optimizer count nothing.
    """
    return 6.0 * sum(map(math.prod, self.products.values()))


def batch(case: Case) -> dict[str, np.ndarray]:
  """Random tokens, the same for all; no padding, as in pre-training data."""
  rng = np.random.default_rng(1)

  def integers(low, high, *shape):
    return rng.integers(low, high, (case.batch, *shape), dtype=np.int32)

  tokens, masked = case.length, case.predictions
  places = rng.permuted(
    np.tile(np.arange(1, tokens - 1, dtype=np.int32), (case.batch, 1)), axis=1
  )
  return {
    "input_ids": integers(1000, VOCAB_SIZE, tokens),
    "input_mask": np.ones((case.batch, tokens), np.int32),
    "segment_ids": np.sort(integers(0, 2, tokens), axis=1),
    "masked_lm_positions": np.sort(places[:, :masked], axis=1),
    "masked_lm_ids": integers(1000, VOCAB_SIZE, masked),
    "masked_lm_weights": np.ones((case.batch, masked), np.float32),
    "next_sentence_labels": integers(0, 2, 1),
  }


def serve(step: Callable[[], float]) -> None:
  """Serves requests for a number of `steps`.

  An answer has the `seconds` of each step, and the last `loss`.

  Args:
    step: does one and returns its loss, when all is done.
  """

  def timed(steps):
    seconds = []
    for _ in range(steps):
      start = time.perf_counter()
      loss = step()
      seconds.append(time.perf_counter() - start)
    return {"seconds": seconds, "loss": loss}

  turns.serve(timed)
