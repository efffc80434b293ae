"""Times a process from its start to the end of its first training step.

python -m benchmarks.start_up --cases=mini:32:128:float32 --peers=official
"""

import statistics

from benchmarks import contest, train_step
from benchmarks.results import Table


def measure(args: contest.Args) -> contest.Results:
  for case in args.cases:
    contestants = train_step.contestants(case, args, warm_up=0)
    answers = contest.interleave_fresh(contestants, args.rounds, seconds=0.0)
    yield {"case": case, "seconds": contest.select(answers, "started")}


def rows(result: dict):
  seconds = result["seconds"]
  for label, values in seconds.items():
    ratios = contest.ratios(values, seconds[train_step.BASELINE])
    yield result["case"], label, f"{statistics.median(values):.1f}", *ratios


TABLE = Table("start_up", "case | who | s | ratio | range", rows)


if __name__ == "__main__":
  contest.run(TABLE, measure, **train_step.CASES, **train_step.PEERS)
