"""The pre-training step: ours beside those of other libraries.

  python -m benchmarks.train_step --cases=mini:32:128:float32 \
    --peer_python=torch/bin/python

All train the same model on the same batch with dropout, clipping and AdamW, in
processes of their own that take turns. A ratio is a peer's time over ours in
the same round, its median and range over the rounds are printed. The share of
the roofline is the time that the step's matrix products take by themselves, one
after the other at the model's own shapes, measured in the same rounds.
"""

import os
import statistics
import sys

from absl import app, flags

from benchmarks import products, threads
from benchmarks.published import Table
from benchmarks.spread import ratios
from benchmarks.train_step_data import Case
from benchmarks.turns import Worker

FLAGS = flags.FLAGS

OURS = "ours"
# Who is measured, as tables name them; "stock" scores every position.
NAMES = {
  OURS: "ours",
  "official": "tf-models-official",
  "keras_hub": "KerasHub, no next sentence",
  "stock": "transformers, every position",
  "masked": "transformers, masked",
  "compiled": "transformers, compiled",
}
PEERS = [who for who in NAMES if who != OURS]
# Seconds a step of the original: commit eedf571, TensorFlow 1.15.5 on two cores
# of another machine (Intel Xeon), medians of two runs of 20 steps.
ORIGINAL = {"tiny:32:128:float32": 0.677, "mini:32:128:float32": 1.6}

flags.DEFINE_list(
  "cases",
  ["mini:32:128:float32", "mini:32:128:bfloat16"],
  "size:batch:length:type of each, see benchmarks/train_step_data.py.",
)
flags.DEFINE_list(
  "peers",
  ["official", "keras_hub", "masked", "compiled"],
  f"Whom to measure, of {', '.join(PEERS)}.",
)
flags.register_validator(
  "peers",
  lambda peers: set(peers) <= set(PEERS),
  f"they are {', '.join(PEERS)}",
)
flags.DEFINE_string("peer_python", None, "Python that has torch.")
flags.DEFINE_string("preload", None, "An allocator's library for `compiled`.")
flags.DEFINE_integer("rounds", 7, "Turns of each.", 1)
flags.DEFINE_float("seconds", 2.0, "About how long a turn is.", 0.0)
flags.DEFINE_integer("num_threads", 2, "Of each.", 1)


def main(_):
  threads.use(FLAGS.num_threads)
  TABLE.report(map(measure, FLAGS.cases))


def start(who: str, case: Case) -> Worker:
  """Starts a worker."""
  environment = dict(os.environ, OMP_NUM_THREADS=str(case.threads))
  if who in (OURS, "official", "keras_hub"):
    module = f"benchmarks.train_step_{who}"
    command = [sys.executable, "-m", module, *case.arguments]
  else:
    if FLAGS.preload and who == "compiled":
      environment["LD_PRELOAD"] = FLAGS.preload
    python = FLAGS.peer_python or sys.executable
    module = "benchmarks.train_step_torch"
    command = [python, "-m", module, *case.arguments, who]
  return Worker(command, environment)


def measure(text: str) -> dict:
  """Times, in seconds, of each round, also of the products by themselves."""
  case = Case.named(text, FLAGS.num_threads)
  workers = {who: start(who, case) for who in (OURS, *FLAGS.peers)}
  steps, seconds = {}, {who: [] for who in workers}
  alone = []
  for who, worker in workers.items():
    first = worker.ask(steps=4)["seconds"]  # compilation and what comes once
    steps[who] = max(1, min(50, round(FLAGS.seconds / first[-1])))
  for _ in range(FLAGS.rounds):
    alone.append(sum(products.seconds(case).values()))
    for who, worker in workers.items():
      found = worker.ask(steps=steps[who])
      seconds[who].append(statistics.median(found["seconds"]))
  for worker in workers.values():
    worker.close()
  return {
    "case": text,
    "operations": case.operations,
    "seconds": seconds,
    "products_alone": alone,
    "load": os.getloadavg()[0],
  }


def rows(result: dict):
  """A row for everyone who was measured, and the original's if it was."""
  name, seconds = result["case"], result["seconds"]
  operations = result["operations"]
  alone = statistics.median(result["products_alone"])
  for who, own in seconds.items():
    middle = statistics.median(own)
    yield (
      name,
      NAMES[who],
      f"{1000 * middle:.0f}",
      *ratios(own, seconds[OURS]),
      f"{operations / middle / 1e9:.0f}",
      f"{100 * alone / middle:.0f} %",
    )
  if name in ORIGINAL:
    middle = statistics.median(seconds[OURS])
    yield (
      name,
      "the original, elsewhere",
      f"{1000 * ORIGINAL[name]:.0f}",
      f"{ORIGINAL[name] / middle:.2f}",
      *("-", f"{operations / ORIGINAL[name] / 1e9:.0f}", "-"),
    )


TABLE = Table(
  "train_step",
  ("case", "who", "ms", "ratio", "range", "GFLOP/s", "roofline"),
  rows,
)

if __name__ == "__main__":
  app.run(main)
