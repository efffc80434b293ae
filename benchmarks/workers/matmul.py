"""Worker: the matrix products of a training step, one after the other."""

import time

import tensorflow as tf

from benchmarks import worker
from benchmarks.cases import Case


def prepare(case: str) -> worker.Answer:
  """Answers with the `seconds` of each kind of product, gradients included."""
  case = Case.parse(case)

  def answer():
    seconds = {}
    for name, (times, batch, m, k, n) in case.products.items():
      # The product itself, and the two of its gradient.
      shapes = (m, k, n), (m, n, k), (k, m, n)
      seconds[name] = times * sum(_time(case.dtype, batch, *s) for s in shapes)
    return {"seconds": seconds}

  return answer


def _time(dtype, batch, m, k, n, repeats: int = 3):
  def values(*shape):
    return tf.cast(tf.random.normal(shape), dtype)

  left, right = values(batch, m, k), values(batch, k, n)
  if batch == 1:
    left, right = left[0], right[0]
  seconds = []
  for _ in range(1 + repeats):  # the first one includes one-time costs
    begin = time.perf_counter()
    _ = left @ right
    seconds.append(time.perf_counter() - begin)
  return min(seconds)


if __name__ == "__main__":
  worker.serve(prepare)
