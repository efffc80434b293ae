"""Base class of engines, which compute outputs for rows of token ids."""

import math
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path

import numpy as np

from serving import answers
from serving.answers import Engine, Outputs, Row

_MIN_ROWS, _MAX_ROWS = 8, 32  # of a batch
# Masked positions whose logits memory holds: 250 MB for a base model.
_MAX_MASKS = 2048
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
  max_tokens = 1024  # enough to keep a CPU busy, few enough for its caches

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
    while part := list(self._part(iterator)):
      results: list[Outputs] = [{} for _ in part]
      for indices in batches(part, self.max_tokens, self.max_rows):
        outputs = self._call(answers.stack([part[i] for i in indices]))
        for number, index in enumerate(indices):
          results[index] = {k: v[number] for k, v in outputs.items()}
          for name, other in self._length_of.items():
            length = len(part[index][other])
            results[index][name] = results[index][name][:length]
      yield from results

  def _part(self, rows):
    masks = 0
    for row in islice(rows, 4 * self.max_rows):
      yield row
      masks += len(row.get("masked_lm_positions", ()))
      if masks >= _MAX_MASKS:
        break

  def _call(self, inputs: dict[str, np.ndarray]) -> Outputs:
    raise NotImplementedError


def first_line(message: str) -> str:
  """The line that says what is wrong, without TensorFlow's stack trace."""
  node = _NODE.search(message)
  return (node[1] if node else message.strip().split("\n")[0])[:500]


def num_cores() -> int:
  """Returns how many cores this process may use, which a container limits."""
  affinity = getattr(os, "sched_getaffinity", None)  # not on macOS
  cores = len(affinity(0)) if affinity else os.cpu_count() or 1
  with suppress(OSError, ValueError):  # no limit: no file, or "max"
    quota, period = map(int, Path("/sys/fs/cgroup/cpu.max").read_text().split())
    cores = min(cores, math.ceil(quota / period))
  return cores
