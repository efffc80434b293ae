"""Worker side of a benchmark: one process for each contestant.

  python -m benchmarks.worker NAME CONFIGURATION

NAME is a module of benchmarks/workers. It prepares and warms up with a
configuration in JSON, and answers each line of JSON on standard input with one
on standard output. Needs the standard library alone: peers have environments of
their own.
"""

import importlib
import json
import os
import sys
import time
from collections.abc import Callable

Answer = Callable[..., dict]


def serve(name: str, configuration: str) -> None:
  """Runs a worker; `prepare` of its module makes its function of requests."""
  replies = os.fdopen(os.dup(1), "w")
  os.dup2(2, 1)  # libraries that print must not disturb the replies
  module = importlib.import_module(f"benchmarks.workers.{name}")
  answer = module.prepare(**json.loads(configuration))
  for line in sys.stdin:
    reply = answer(**json.loads(line))
    print(json.dumps({"peak": peak()} | reply), file=replies, flush=True)


def answer_pairs(answer: Callable[[list], list[str]]) -> Answer:
  """Answers of a worker to `pairs` of texts: `labels`, `seconds` a batch."""

  def timed(pairs, batch_size):
    seconds, labels = [], []
    for i in range(0, len(pairs), batch_size):
      start = time.perf_counter()
      labels += answer(pairs[i : i + batch_size])
      seconds.append(time.perf_counter() - start)
    return {"seconds": seconds, "labels": labels}

  return timed


def peak() -> float:
  """Most memory so far in MB; ru_maxrss would begin with the parent's."""
  with open("/proc/self/status") as file:
    [line] = [line for line in file if line.startswith("VmHWM:")]
  return int(line.split()[1]) / 1024


if __name__ == "__main__":
  serve(*sys.argv[1:])
