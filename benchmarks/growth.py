"""Growth of time and memory of the training step with each of its sizes.

  python -m benchmarks.growth --base=4x256:16:128:float32

Each row changes one size of the base. "expected" is the ratio of the operations
of matrix products to those of the base, "measured" that of the times: the
median over rounds in which all sizes take turns.
"""

import argparse
import statistics
from collections.abc import Iterator

from benchmarks import contest, train_step
from benchmarks.cases import Case
from benchmarks.contest import Contestant
from benchmarks.results import Table

SIZES = (
  *("layers:2", "layers:8", "hidden:128", "hidden:512", "batch:8", "batch:32"),
  *("length:64", "length:256", "length:512"),
)


def measure(args: argparse.Namespace) -> Iterator[dict]:
  """Seconds and memory of a step of each size."""
  cases = dict(vary(args))
  contestants = {
    label: Contestant("train_bert_tf2", {"case": case, "warm_up": 3})
    for label, case in cases.items()
  }
  answers = contest.interleave_fresh(
    contestants, args.rounds, seconds=args.seconds
  )
  yield {
    "case": args.base,
    "seconds": {
      label: [statistics.median(answer["seconds"]) for answer in rounds]
      for label, rounds in answers.items()
    },
    "peak": {label: rounds[-1]["peak"] for label, rounds in answers.items()},
    "operations": {
      label: Case.parse(case).operations for label, case in cases.items()
    },
  }


def vary(args: argparse.Namespace) -> Iterator[tuple[str, str]]:
  """Labels and cases: the base, and those that differ from it in one size."""
  size, batch, length, dtype = args.base.split(":")
  layers, hidden = size.split("x")
  base = {"layers": layers, "hidden": hidden, "batch": batch, "length": length}
  yield args.base, args.base
  for text in args.sizes:
    name, value = text.split(":")
    layers, hidden, *others = (base | {name: value}).values()
    yield f"{name} {value}", ":".join([f"{layers}x{hidden}", *others, dtype])


def rows(result: dict):
  """A row for each size."""
  base = result["case"]
  seconds, operations = result["seconds"], result["operations"]
  for label, values in seconds.items():
    yield (
      label,
      f"{1000 * statistics.median(values):.0f}",
      *contest.ratios(values, seconds[base]),
      f"{operations[label] / operations[base]:.2f}",
      f"{result['peak'][label]:.0f}",
    )


TABLE = Table(
  "growth",
  ("size", "ms", "measured", "range", "expected", "peak MB"),
  rows,
)


if __name__ == "__main__":
  contest.run(
    TABLE,
    measure,
    __doc__,
    rounds=3,
    base=("4x256:16:128:float32", "layers x hidden:batch:length:type"),
    sizes=(list(SIZES), "other values of one size each"),
    **train_step.SECONDS,
  )
