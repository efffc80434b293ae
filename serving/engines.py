"""Base class of engines, which compute outputs for rows of token ids."""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import numpy as np

from serving import answers
from serving.answers import Engine, Outputs, Row

# Tokens of a batch: enough to keep a CPU busy, few enough for its caches.
_CPU_TOKENS = 1024
_MIN_ROWS, _MAX_ROWS = 8, 32
# TensorFlow and LiteRT say in a line what is wrong, then name the node.
_NODE = re.compile(r"(?m)^(.*?)(?:\n\s*\[\[\{\{node |Node number \d+ \()")


def batches(
  rows: Sequence[Row], max_tokens: int, max_rows: int = _MAX_ROWS
) -> Iterator[list[int]]:
  """Yields the indices of each batch's rows, whose lengths are similar."""
  shapes = [row["input_ids"].shape for row in rows]
  batch: list[int] = []
  for index in sorted(range(len(rows)), key=shapes.__getitem__):
    shape = shapes[index]
    tokens = (len(batch) + 1) * int(np.prod(shape))
    is_full = len(batch) >= _MIN_ROWS and tokens > max_tokens
    is_other = batch and shape[:-1] != shapes[batch[0]][:-1]
    if is_other or is_full or len(batch) == max_rows:
      yield batch
      batch = []
    batch.append(index)
  if batch:
    yield batch


class Batches(Engine):
  """Base class of engines that run batches of about `max_tokens` tokens."""

  name = "TensorFlow"
  max_rows = _MAX_ROWS
  max_tokens = _CPU_TOKENS

  def __init__(self, features: dict[str, int], outputs: dict[str, list[int]]):
    self.features, self.outputs = features, outputs
    # For each output [B, N, ...], the input that also has N values in a row.
    self._length_of = {
      name: "masked_lm_positions" if "masked_lm" in name else "input_ids"
      for name, shape in outputs.items()
      if shape[1:2] == [-1]
    }

  def run(self, rows: Iterable[Row]) -> Iterator[Outputs]:
    """See answers.Engine. Memory holds the outputs of few batches."""
    iterator = iter(rows)
    while part := list(islice(iterator, 4 * self.max_rows)):
      results: list[Outputs] = [{} for _ in part]
      for indices in batches(part, self.max_tokens, self.max_rows):
        outputs = self._call(answers.stack([part[i] for i in indices]))
        for number, index in enumerate(indices):
          results[index] = {k: v[number] for k, v in outputs.items()}
          for name, other in self._length_of.items():
            length = len(part[index][other])
            results[index][name] = results[index][name][:length]
      yield from results

  def _call(self, inputs: dict[str, np.ndarray]) -> Outputs:
    raise NotImplementedError


def first_line(message: str) -> str:
  """The line that says what is wrong, without TensorFlow's stack trace."""
  node = _NODE.search(message)
  return (node[1] if node else message.strip().split("\n")[0])[:500]


def num_cores() -> int:
  affinity = getattr(os, "sched_getaffinity", None)  # not on macOS
  return len(affinity(0)) if affinity else os.cpu_count() or 1
