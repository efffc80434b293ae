"""What this machine's matrix products reach, at the model's own shapes.

  python -m benchmarks.roofline --cases=mini:32:128:float32

GFLOP/s of each kind of product of a training step, the product itself and the
two of its gradient together, and of all of them: a step cannot be faster. Which
share of that a step reaches is a column of train_step, where they take turns.
"""

import math
import statistics

from absl import app, flags

from benchmarks import products, threads, train_step  # noqa: F401 (flags)
from benchmarks.published import Table
from benchmarks.train_step_data import Case

FLAGS = flags.FLAGS
KINDS = tuple(Case("tiny", 1, 128, "float32").products)


def main(_):
  threads.use(FLAGS.num_threads)
  TABLE.report(map(measure, FLAGS.cases))


def measure(text: str) -> dict:
  """Rates of the products of a case, in operations a second."""
  case = Case.named(text, FLAGS.num_threads)
  runs = [products.seconds(case) for _ in range(FLAGS.rounds)]
  seconds = {
    kind: statistics.median(run[kind] for run in runs) for kind in KINDS
  }
  # Twice as many operations in the gradient as in the product.
  counts = {
    kind: 6.0 * math.prod(shape) for kind, shape in case.products.items()
  }
  return {
    "case": text,
    "rates": {kind: counts[kind] / seconds[kind] for kind in KINDS},
    "rate": sum(counts.values()) / sum(seconds.values()),
  }


def rows(result: dict):
  """The row of a case."""
  rates = (*(result["rates"][kind] for kind in KINDS), result["rate"])
  yield (result["case"], *(f"{rate / 1e9:.0f}" for rate in rates))


TABLE = Table("roofline", ("case", *KINDS, "all"), rows)

if __name__ == "__main__":
  app.run(main)
