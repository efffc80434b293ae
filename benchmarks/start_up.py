"""From the start of a process to the end of its first training step.

  python -m benchmarks.start_up --cases=mini:32:128:float32 --rounds=5

The workers of benchmarks/train_step.py, started anew each time and asked for
one step: what they import, build and compile is in it.
"""

import statistics
import time

from absl import app, flags

from benchmarks import train_step
from benchmarks.train_step_data import Case

FLAGS = flags.FLAGS


def main(_):
  print("| case | who | s | ratio | peak MB |")
  print("|---" * 5 + "|")
  for text in FLAGS.cases:
    case = Case.named(text, FLAGS.num_threads)
    everyone = (train_step.OURS, *FLAGS.peers)
    found = {who: [] for who in everyone}
    for _ in range(FLAGS.rounds):
      for who in everyone:
        found[who].append(first_step(who, case))
    for who, runs in found.items():
      seconds, peaks = zip(*runs, strict=True)
      ours = (run[0] for run in found[train_step.OURS])
      ratios = [s / o for s, o in zip(seconds, ours, strict=True)]
      print(
        f"| {text} | {who} | {statistics.median(seconds):.1f} "
        f"| {statistics.median(ratios):.2f} | {statistics.median(peaks):.0f} |",
        flush=True,
      )


def first_step(who: str, case: Case) -> tuple[float, float]:
  """Seconds, and the peak of memory in MB."""
  begin = time.perf_counter()
  worker = train_step.start(who, case)
  answer = worker.ask(steps=1)
  seconds = time.perf_counter() - begin
  worker.close()
  return seconds, answer["peak"]


if __name__ == "__main__":
  app.run(main)
