"""Worker: the matrix products of a training step, one after the other."""

import time

import tensorflow as tf

from benchmarks.cases import Case
from benchmarks.worker import Answer


def prepare(case: str) -> Answer:
  case = Case.parse(case)

  def answer(seconds):
    total = 0.0
    for times, batch, m, k, n in case.products.values():
      # The product, and the gradient's two products.
      for shape in (m, k, n), (m, n, k), (k, m, n):
        total += times * _time(case.dtype, batch, *shape)
    return {"seconds": [total]}

  return answer


def _time(dtype, batch, m, k, n, repeats: int = 3):
  left = tf.cast(tf.random.normal((batch, m, k)), dtype)
  right = tf.cast(tf.random.normal((batch, k, n)), dtype)
  if batch == 1:
    left, right = left[0], right[0]
  seconds = []
  for _ in range(1 + repeats):  # the first repeat includes one-time costs
    begin = time.perf_counter()
    _ = left @ right
    seconds.append(time.perf_counter() - begin)
  return min(seconds)
