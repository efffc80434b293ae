"""Compares the pre-training step with the steps of other libraries.

  python -m benchmarks.train_step --cases=mini:32:128:float32 \
    --peer_python=torch/bin/python

A peer's column is its time divided by the time of bert-tf2 in the same round.
"roofline" is the time of the matrix products, divided by the step's time.
"""

import statistics
import sys

from benchmarks import contest
from benchmarks.cases import Case
from benchmarks.results import Table

BASELINE = "bert-tf2"
PRODUCTS = "matrix products"
# {name in flags: (label, module in workers/, configuration)}
CONTESTANTS = {
  "bert_tf2": (BASELINE, "train_bert_tf2", {}),
  "official": ("tf-models-official", "train_official", {}),
  "keras_hub": ("KerasHub, no next sentence", "train_keras_hub", {}),
  "stock": ("transformers, every position", "train_torch", {"form": "stock"}),
  "masked": ("transformers, masked", "train_torch", {"form": "masked"}),
  "compiled": ("transformers, compiled", "train_torch", {"form": "compiled"}),
}
PEER_LABELS = [label for label, *_ in CONTESTANTS.values()][1:]
# Seconds for a step of the original at commit eedf571: medians of two runs of
# 20 steps, TensorFlow 1.15.5, two cores of another machine (Intel Xeon).
ORIGINAL = {"tiny:32:128:float32": 0.677, "mini:32:128:float32": 1.6}
_CASES = ["mini:32:128:float32", "mini:32:128:bfloat16"]
CASES = {"cases": (_CASES, "size:batch:length:type, see benchmarks/cases.py")}
_PEERS = ["official", "keras_hub", "masked", "compiled"]
PEERS = {
  "peers": (_PEERS, f"of {', '.join(CONTESTANTS)}"),
  "peer_python": (sys.executable, "Python that has torch"),
  "preload": ("", "library of an allocator for `compiled`"),
}


def contestants(
  case: str, args: contest.Args, warm_up: int
) -> dict[str, contest.Contestant]:
  Case.parse(case)
  shared = {"case": case, "warm_up": warm_up}
  result = {}
  for name in ("bert_tf2", *args.peers):
    if name not in CONTESTANTS:
      raise ValueError(f"--peers={name}: take one of {', '.join(CONTESTANTS)}")
    label, module, own = CONTESTANTS[name]
    python = args.peer_python if module == "train_torch" else sys.executable
    preload = args.preload if name == "compiled" else ""
    result[label] = contest.Contestant(module, shared | own, python, preload)
  return result


def measure(args: contest.Args) -> contest.Results:
  for case in args.cases:
    workers = contestants(case, args, warm_up=4)
    workers[PRODUCTS] = contest.Contestant("matmul", {"case": case})
    answers = contest.interleave(workers, args.rounds, seconds=args.seconds)
    seconds = contest.select(answers, "seconds").items()
    yield {
      "case": case,
      "operations": Case.parse(case).operations,
      "seconds": {k: [*map(statistics.median, x)] for k, x in seconds},
    }


def rows(result: dict):
  seconds, name = result["seconds"], result["case"]
  base = seconds[BASELINE]
  middle, products = map(statistics.median, (base, seconds[PRODUCTS]))
  ratios = {k: contest.ratios(values, base) for k, values in seconds.items()}
  ratios = {label: f"{each[0]} ({each[1]})" for label, each in ratios.items()}
  yield (
    name,
    f"{1000 * middle:.0f}",
    f"{result['operations'] / middle / 1e9:.0f}",
    f"{100 * products / middle:.0f} %",
    *(ratios.get(label, "-") for label in PEER_LABELS),
    f"{ORIGINAL[name] / middle:.2f}" if name in ORIGINAL else "-",
  )


PEER_COLUMNS = " | ".join(PEER_LABELS)
HEADER = f"case | ms | GFLOP/s | roofline | {PEER_COLUMNS} | the original"
TABLE = Table("train_step", HEADER, rows)

if __name__ == "__main__":
  seconds = (2.0, "seconds of a turn")
  contest.run(TABLE, measure, **CASES, **PEERS, seconds=seconds)
