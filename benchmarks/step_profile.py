"""Processor time of the training step by kind of operation.

  python -m benchmarks.step_profile --cases=mini:32:128:float32

Milliseconds a step, as TensorFlow's profiler counts them, which costs time.
"""

import collections

from benchmarks import contest, train_step
from benchmarks.contest import Contestant
from benchmarks.results import Table

# Kinds by a pattern of an event's name; the first that matches counts.
KINDS = {
  "softmax": "Softmax",
  "matrix products": "MatMul|matmul",
  "fused operations": r"fusion|reduce|\.clone|ProcessAsync::Start",
  "casts": ":Cast$",
  "transposes": "Transpose$",
  "argmax": ":TopKV2$",
  "gradient of embeddings": "SegmentSum$|:AddN$|StridedSliceGrad$",
  "norm of the gradient": ":L2Loss$",
  "other": "",
}
STEP = "step by the clock"
COLUMNS = (STEP, *KINDS)


def measure(args: contest.Args) -> contest.Results:
  """Seconds a step by kind, means of the rounds."""
  for case in args.cases:
    config = {"case": case, "kinds": KINDS}
    contestant = Contestant("profile_bert_tf2", config)
    answers = contest.interleave({case: contestant}, args.rounds)
    totals = collections.Counter()
    for seconds in contest.select(answers, "seconds")[case]:
      totals.update(seconds)
    means = {kind: total / args.rounds for kind, total in totals.items()}
    yield {"case": case, "seconds": means}


def rows(result: dict):
  """The row of a case."""
  seconds = (result["seconds"].get(kind, 0.0) for kind in COLUMNS)
  yield (result["case"], *(f"{1000 * value:.0f}" for value in seconds))


TABLE = Table("step_profile", ("case", *COLUMNS), rows)


if __name__ == "__main__":
  contest.run(TABLE, measure, __doc__, rounds=1, **train_step.CASES)
