"""What the workers of benchmarks/serving.py have in common."""

import time
from collections.abc import Callable

from benchmarks import turns


def run(answer: Callable[[list[list[str]]], list[str]]) -> None:
  """Serves requests of `pairs` of texts and a `batch_size`.

  An answer has the `seconds` of each batch and the `labels`.

  Args:
    answer: from a batch of pairs to labels.
  """

  def timed(pairs, batch_size):
    seconds, labels = [], []
    for i in range(0, len(pairs), batch_size):
      start = time.perf_counter()
      labels += answer(pairs[i : i + batch_size])
      seconds.append(time.perf_counter() - start)
    return {"seconds": seconds, "labels": labels}

  turns.serve(timed)
