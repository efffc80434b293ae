"""Worker side of a benchmark: python -m benchmarks.worker NAME CONFIGURATION.

A module of benchmarks/workers answers lines of JSON. This file imports the
standard library alone, because peers run in other environments.
"""

import importlib
import json
import os
import sys
import time
from collections.abc import Callable

Answer = Callable[..., dict]


def serve(name: str, configuration: str) -> None:
  """Runs a worker. The module's `prepare` returns the function that answers."""
  replies = os.fdopen(os.dup(1), "w")
  os.dup2(2, 1)  # libraries that print must not disturb the replies
  module = importlib.import_module(f"benchmarks.workers.{name}")
  answer = module.prepare(**json.loads(configuration))
  for line in sys.stdin:
    reply = answer(**json.loads(line))
    print(json.dumps({"peak": peak()} | reply), file=replies, flush=True)


def answer_pairs(answer: Callable[[list], list[str]]) -> Answer:
  """Makes a function from `pairs` to `labels` and the `seconds` of batches."""

  def timed(pairs, batch_size):
    seconds, labels = [], []
    for i in range(0, len(pairs), batch_size):
      start = time.perf_counter()
      labels += answer(pairs[i : i + batch_size])
      seconds.append(time.perf_counter() - start)
    return {"seconds": seconds, "labels": labels}

  return timed


def peak() -> float:
  """Peak memory in MB; ru_maxrss would include the parent's memory."""
  with open("/proc/self/status") as file:
    [line] = [line for line in file if line.startswith("VmHWM:")]
  return int(line.split()[1]) / 1024


if __name__ == "__main__":
  serve(*sys.argv[1:])
