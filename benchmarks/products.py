"""The matrix products of a training step by themselves, one after the other."""

import time

import tensorflow as tf

from benchmarks.train_step_data import Case


def seconds(case: Case) -> dict[str, float]:
  """What they take, with those of their gradients, by the kind of product."""
  found = {}
  for name, (times, batch, m, k, n) in case.products.items():
    # The product itself, and the two of its gradient.
    shapes = (m, k, n), (m, n, k), (k, m, n)
    found[name] = times * sum(_once(case.dtype, batch, *s) for s in shapes)
  return found


def _once(dtype, batch, m, k, n, repeats: int = 3):
  def values(*shape):
    return tf.cast(tf.random.normal(shape), dtype)

  left, right = values(batch, m, k), values(batch, k, n)
  if batch == 1:
    left, right = left[0], right[0]
  taken = []
  for _ in range(1 + repeats):  # the first one pays for what comes once
    begin = time.perf_counter()
    _ = left @ right
    taken.append(time.perf_counter() - begin)
  return min(taken)
