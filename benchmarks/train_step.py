"""The pre-training step: ours beside those of other libraries.

  python -m benchmarks.train_step --cases=mini:32:128:float32 \
    --peer_python=torch/bin/python --output_json=results.jsonl

All train the same model on the same batch with dropout, clipping and AdamW, in
processes of their own that take turns. A ratio is a peer's time over ours in
the same round, its median and range over the rounds are printed. The share of
the roofline is the time that the step's matrix products take by themselves, one
after the other at the model's own shapes, measured in the same rounds.
"""

import json
import os
import statistics
import sys
import time

import tensorflow as tf
from absl import app, flags

from benchmarks.train_step_data import Case
from benchmarks.turns import Worker
from training import run_record

FLAGS = flags.FLAGS

flags.DEFINE_list(
  "cases",
  ["mini:32:128:float32", "mini:32:128:bfloat16"],
  "size:batch:length:type of each, see benchmarks/train_step_data.py.",
)
flags.DEFINE_list(
  "peers", ["official", "stock", "masked", "compiled"], "Whom to measure."
)
flags.DEFINE_string("peer_python", None, "Python that has torch.")
flags.DEFINE_string("preload", None, "An allocator's library for `compiled`.")
flags.DEFINE_integer("rounds", 7, "Turns of each.", 1)
flags.DEFINE_float("seconds", 2.0, "About how long a turn is.", 0.0)
flags.DEFINE_integer("num_threads", 2, "Of each.", 1)
flags.DEFINE_string("output_json", None, "Where to append the results.")

OURS = "ours"


def main(_):
  say("| case | who | ms | ratio | range | GFLOP/s | roofline | peak MB |")
  say("|---" * 8 + "|")
  for text in FLAGS.cases:
    case = Case.named(text, FLAGS.num_threads)
    result = measure(case)
    for row in rows(text, case, result):
      say(f"| {' | '.join(row)} |")
    if FLAGS.output_json:
      with open(FLAGS.output_json, "a") as file:
        file.write(json.dumps(result | {"case": text}) + "\n")


def say(line: str) -> None:
  """Prints a line now."""
  print(line, flush=True)


def start(who: str, case: Case) -> Worker:
  """Starts a worker."""
  environment = dict(os.environ, OMP_NUM_THREADS=str(case.threads))
  if who == OURS or who == "official":
    module = f"benchmarks.train_step_{who}"
    command = [sys.executable, "-m", module, *case.arguments]
  else:
    if FLAGS.preload and who == "compiled":
      environment["LD_PRELOAD"] = FLAGS.preload
    python = FLAGS.peer_python or sys.executable
    module = "benchmarks.train_step_torch"
    command = [python, "-m", module, *case.arguments, who]
  return Worker(command, environment)


def measure(case: Case) -> dict:
  """Times, in seconds, of each round; rates of matrix products; memory."""
  workers = {who: start(who, case) for who in (OURS, *FLAGS.peers)}
  steps, seconds = {}, {who: [] for who in workers}
  alone, peaks = [], {}
  for who, worker in workers.items():
    first = worker.ask(steps=4)["seconds"]  # compilation and what comes once
    steps[who] = max(1, min(50, round(FLAGS.seconds / first[-1])))
  for _ in range(FLAGS.rounds):
    alone.append(products_alone(case))
    for who, worker in workers.items():
      found = worker.ask(steps=steps[who])
      seconds[who].append(statistics.median(found["seconds"]))
      peaks[who] = found["peak"]
  for worker in workers.values():
    worker.close()
  return {
    "seconds": seconds,
    "products_alone": alone,
    "peaks": peaks,
    "revision": run_record.commit(),
    "load": os.getloadavg()[0],
  }


def products_alone(case: Case) -> float:
  """Seconds that the matrix products of a step take, and nothing else."""
  total = 0.0
  for times, batch, m, k, n in case.products:
    # The product itself, and the two of its gradient.
    for rows, inner, columns in ((m, k, n), (m, n, k), (k, m, n)):
      total += times * _product(case.dtype, batch, rows, inner, columns)
  return total


def _product(dtype, batch, m, k, n, repeats: int = 3):
  def values(*shape):
    return tf.cast(tf.random.normal(shape), dtype)

  left, right = values(batch, m, k), values(batch, k, n)
  if batch == 1:
    left, right = left[0], right[0]
  seconds = []
  for _ in range(1 + repeats):  # the first one pays for what comes once
    begin = time.perf_counter()
    _ = left @ right
    seconds.append(time.perf_counter() - begin)
  return min(seconds)


def rows(name: str, case: Case, result: dict):
  """Lines of the table."""
  seconds = result["seconds"]
  alone = statistics.median(result["products_alone"])
  for who, own in seconds.items():
    ratios = [
      theirs / ours for theirs, ours in zip(own, seconds[OURS], strict=True)
    ]
    middle = statistics.median(own)
    yield (
      name,
      who,
      f"{1000 * middle:.0f}",
      f"{statistics.median(ratios):.2f}",
      f"{min(ratios):.2f}-{max(ratios):.2f}",
      f"{case.operations / middle / 1e9:.0f}",
      f"{100 * alone / middle:.0f} %",
      f"{result['peaks'][who]:.0f}",
    )


if __name__ == "__main__":
  app.run(main)
