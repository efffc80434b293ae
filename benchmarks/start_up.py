"""From the start of a process to the end of its first training step.

  python -m benchmarks.start_up --cases=mini:32:128:float32 --rounds=5

The workers of benchmarks/train_step.py, started anew each time and asked for
one step: what they import, build and compile is in it.
"""

import statistics
import time

from absl import app, flags

from benchmarks import train_step
from benchmarks.published import Table
from benchmarks.spread import ratios
from benchmarks.train_step_data import Case

FLAGS = flags.FLAGS


def main(_):
  TABLE.report(map(measure, FLAGS.cases))


def measure(text: str) -> dict:
  """Seconds of each start."""
  case = Case.named(text, FLAGS.num_threads)
  seconds = {who: [] for who in (train_step.OURS, *FLAGS.peers)}
  for _ in range(FLAGS.rounds):
    for who, own in seconds.items():
      own.append(first_step(who, case))
  return {"case": text, "seconds": seconds}


def first_step(who: str, case: Case) -> float:
  """Seconds."""
  begin = time.perf_counter()
  worker = train_step.start(who, case)
  worker.ask(steps=1)
  seconds = time.perf_counter() - begin
  worker.close()
  return seconds


def rows(result: dict):
  """A row for everyone."""
  for who, own in result["seconds"].items():
    ours = result["seconds"][train_step.OURS]
    yield (
      result["case"],
      train_step.NAMES[who],
      f"{statistics.median(own):.1f}",
      *ratios(own, ours),
    )


TABLE = Table("start_up", ("case", "who", "s", "ratio", "range"), rows)

if __name__ == "__main__":
  app.run(main)
