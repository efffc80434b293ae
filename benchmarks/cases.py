"""Sizes, batches and timing of training steps.

A size is a name for `BertConfig.preset`, or layers x hidden size, as in 2x128.
"""

import dataclasses
import math
import re
import time
from collections.abc import Callable

import numpy as np

from modeling.config import BertConfig

VOCAB_SIZE = 30522


@dataclasses.dataclass(frozen=True)
class Case:
  """A training step to measure: size of the model, batch, length and dtype."""

  size: str
  batch: int
  length: int
  dtype: str  # float32 or bfloat16

  @classmethod
  def parse(cls, text: str) -> "Case":
    try:
      size, batch, length, dtype = text.split(":")
      case = cls(size, int(batch), int(length), dtype)
      _ = case.config
    except ValueError as error:
      raise ValueError(f"{text}: expected size:batch:length:type") from error
    return case

  @property
  def config(self) -> BertConfig:
    match = re.fullmatch(r"(\d+)x(\d+)", self.size)
    if not match:
      return BertConfig.preset(self.size)
    layers, hidden = map(int, match.groups())
    sizes = hidden, layers, hidden // 64 or 1, 4 * hidden
    return BertConfig(VOCAB_SIZE, *sizes, type_vocab_size=2)

  @property
  def predictions(self) -> int:
    """Masked tokens of an example: 15 %, as the original's README advises."""
    return math.ceil(0.15 * self.length)

  @property
  def products(self) -> dict[str, tuple[float, int, int, int, int]]:
    """Matrix products of a forward pass: {kind: (times, batch, m, k, n)}.

    The last layer computes keys and values of all tokens, everything else only
    for masked tokens and [CLS]. Pooler and next-sentence head are left out.
    """
    config = self.config
    layers = config.num_hidden_layers - 1 + (1 + self.predictions) / self.length
    tokens, hidden = self.batch * self.length, config.hidden_size
    masked = self.batch * self.predictions
    heads = self.batch * config.num_attention_heads
    size = hidden // config.num_attention_heads
    projections = 2 * (config.num_hidden_layers + layers)
    return {
      "Q, K, V, output": (projections, 1, tokens, hidden, hidden),
      "scores": (layers, heads, self.length, size, self.length),
      "context": (layers, heads, self.length, self.length, size),
      "intermediate": (layers, 1, tokens, hidden, 4 * hidden),
      "output": (layers, 1, tokens, 4 * hidden, hidden),
      "MLM transform": (1, 1, masked, hidden, hidden),
      "vocabulary": (1, 1, masked, hidden, VOCAB_SIZE),
    }

  @property
  def operations(self) -> float:
    return 6.0 * sum(map(math.prod, self.products.values()))


def batch(case: Case) -> dict[str, np.ndarray]:
  rng = np.random.default_rng(1)

  def integers(low, high, *shape):
    return rng.integers(low, high, (case.batch, *shape), dtype=np.int32)

  tokens, masked = case.length, case.predictions
  positions = np.arange(1, tokens - 1, dtype=np.int32)
  positions = rng.permuted(np.tile(positions, (case.batch, 1)), axis=1)
  return {
    "input_ids": integers(1000, VOCAB_SIZE, tokens),
    "input_mask": np.ones((case.batch, tokens), np.int32),
    "segment_ids": np.sort(integers(0, 2, tokens), axis=1),
    "masked_lm_positions": np.sort(positions[:, :masked], axis=1),
    "masked_lm_ids": integers(1000, VOCAB_SIZE, masked),
    "masked_lm_weights": np.ones((case.batch, masked), np.float32),
    "next_sentence_labels": integers(0, 2, 1),
  }


def timed_steps(
  step: Callable[[], float], warm_up: int
) -> Callable[[float], dict]:
  """Makes a worker's function that times steps, after `warm_up` steps."""
  for _ in range(warm_up):
    step()

  def answer(seconds):
    times = []
    while len(times) < 50 and (not times or sum(times) < seconds):
      start = time.perf_counter()
      loss = step()
      times.append(time.perf_counter() - start)
    return {"seconds": times, "loss": loss}

  return answer
