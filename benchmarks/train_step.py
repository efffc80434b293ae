"""The pre-training step: ours beside those of other libraries.

  python -m benchmarks.train_step --cases=mini:32:128:float32 \
    --peer_python=torch/bin/python --output_json=results.jsonl

All train the same model on the same batch with dropout, clipping and AdamW, in
processes of their own that take turns. A ratio is a peer's time over ours in
the same round, its median and range over the rounds are printed. The share of
the roofline is the time that the step's matrix products would take at the rate
that this machine reaches with large ones, measured in the same run.
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
    size, batch, length, dtype = text.split(":")
    case = Case(size, int(batch), int(length), dtype, FLAGS.num_threads)
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
  rates, peaks = [], {}
  for who, worker in workers.items():
    first = worker.ask(steps=4)["seconds"]  # compilation and what comes once
    steps[who] = max(1, min(50, round(FLAGS.seconds / first[-1])))
  for _ in range(FLAGS.rounds):
    rates.append(product_rate(case))
    for who, worker in workers.items():
      found = worker.ask(steps=steps[who])
      seconds[who].append(statistics.median(found["seconds"]))
      peaks[who] = found["peak"]
  for worker in workers.values():
    worker.close()
  return {
    "seconds": seconds,
    "products_per_second": rates,
    "peaks": peaks,
    "revision": run_record.commit(),
    "load": os.getloadavg()[0],
  }


def product_rate(case: Case, width: int = 2048) -> float:
  """Operations a second in a large matrix product."""
  values = tf.cast(tf.random.normal([width, width]), case.dtype)
  best = 0.0
  for _ in range(4):
    begin = time.perf_counter()
    _ = (values @ values).numpy()
    best = max(best, 2.0 * width**3 / (time.perf_counter() - begin))
  return best


def rows(name: str, case: Case, result: dict):
  """Lines of the table."""
  seconds = result["seconds"]
  rate = statistics.median(result["products_per_second"])
  for who, own in seconds.items():
    ratios = [
      theirs / ours for theirs, ours in zip(own, seconds[OURS], strict=True)
    ]
    middle = statistics.median(own)
    speed = case.operations / middle
    yield (
      name,
      who,
      f"{1000 * middle:.0f}",
      f"{statistics.median(ratios):.2f}",
      f"{min(ratios):.2f}-{max(ratios):.2f}",
      f"{speed / 1e9:.0f}",
      f"{100 * speed / rate:.0f} %",
      f"{result['peaks'][who]:.0f}",
    )


if __name__ == "__main__":
  app.run(main)
