"""GFLOP/s of matrix products at the model's own shapes.

  python -m benchmarks.roofline --cases=mini:32:128:float32

Of each kind of product of a training step, with those of its gradient.
"""

import math
import statistics

from benchmarks import contest, train_step
from benchmarks.cases import Case
from benchmarks.contest import Contestant
from benchmarks.results import Table

KINDS = tuple(Case("tiny", 1, 128, "float32").products)


def measure(args: contest.Args) -> contest.Results:
  """Operations a second of each kind of product of a case, and of all."""
  for name in args.cases:
    contestants = {name: Contestant("matmul", {"case": name})}
    answers = contest.interleave(contestants, args.rounds)[name]
    rates, total = {}, 0.0
    for kind, shape in Case.parse(name).products.items():
      seconds = statistics.median(a["seconds"][kind] for a in answers)
      # Twice as many operations in the gradient as in the product.
      rates[kind] = 6.0 * math.prod(shape) / seconds
      total += seconds
    rates["all"] = Case.parse(name).operations / total
    yield {"case": name, "rates": rates}


def rows(result: dict):
  """The row of a case."""
  rates = (result["rates"][kind] for kind in (*KINDS, "all"))
  yield (result["case"], *(f"{rate / 1e9:.0f}" for rate in rates))


TABLE = Table("roofline", ("case", *KINDS, "all"), rows)


if __name__ == "__main__":
  contest.run(TABLE, measure, __doc__, **train_step.CASES)
