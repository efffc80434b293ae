"""Driver side of a benchmark: worker processes take turns.

Each round asks every contestant once, so that other load on the machine affects
all alike. A ratio compares two contestants in the same round.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from benchmarks.results import Table

Args = argparse.Namespace
Results = Iterator[dict]
ROOT = Path(__file__).parents[1]
# Environment variables that limit threads of OpenMP, torch, TensorFlow, Rust.
THREADS = """OMP_NUM_THREADS RAYON_NUM_THREADS TF_NUM_INTRAOP_THREADS
TF_NUM_INTEROP_THREADS""".split()


@dataclass(frozen=True)
class Contestant:
  """A module of benchmarks/workers, with configuration and interpreter."""

  module: str
  config: dict
  python: str = sys.executable
  preload: str = ""

  @property
  def command(self) -> list[str]:
    worker = "benchmarks.worker", self.module, json.dumps(self.config)
    return [self.python, "-m", *worker]


class Worker:
  """The process of a contestant."""

  def __init__(self, contestant: Contestant):
    preload = contestant.preload or os.environ.get("LD_PRELOAD", "")
    self._name = contestant.module
    self._process = subprocess.Popen(
      contestant.command,
      cwd=ROOT,
      env=os.environ | {"LD_PRELOAD": preload},
      stdin=subprocess.PIPE,
      stdout=subprocess.PIPE,
      text=True,
    )

  def ask(self, **request) -> dict:
    try:
      print(json.dumps(request), file=self._process.stdin, flush=True)
      line = self._process.stdout.readline()
    except BrokenPipeError:
      line = ""
    if not line:
      status = self._process.wait()
      raise ValueError(f"worker {self._name} ended with {status}: see its log")
    return json.loads(line)

  def close(self) -> None:
    with suppress(BrokenPipeError):
      self._process.stdin.close()
    self._process.wait()


@contextmanager
def started(contestants: Mapping[str, Contestant]) -> Iterator[dict]:
  with ExitStack() as stack:
    enter = stack.enter_context
    yield {k: enter(closing(Worker(one))) for k, one in contestants.items()}


def interleave(
  contestants: Mapping[str, Contestant], rounds: int, **request
) -> dict[str, list[dict]]:
  """Answers of each contestant, one a round, by workers that keep running."""
  answers = {label: [] for label in contestants}
  with started(contestants) as workers:
    for _, (label, worker) in product(range(rounds), workers.items()):
      answers[label].append(worker.ask(**request))
  return answers


def interleave_fresh(
  contestants: Mapping[str, Contestant], rounds: int, **request
) -> dict[str, list[dict]]:
  """Answers by new workers; `started` is seconds from start to answer."""
  answers = {label: [] for label in contestants}
  for _, (label, own) in product(range(rounds), contestants.items()):
    begin = time.perf_counter()
    with started({label: own}) as workers:
      answer = workers[label].ask(**request)
      answers[label].append(answer | {"started": time.perf_counter() - begin})
  return answers


def select(answers: Mapping[str, list[dict]], name: str) -> dict[str, list]:
  return {label: [a[name] for a in each] for label, each in answers.items()}


def ratios(
  numerators: Sequence[float], denominators: Sequence[float], digits: int = 2
) -> tuple[str, str]:
  values = [a / b for a, b in zip(numerators, denominators, strict=True)]
  low, middle, high = min(values), statistics.median(values), max(values)
  return f"{middle:.{digits}f}", f"{low:.{digits}f}-{high:.{digits}f}"


def run(
  table: Table,
  measure: Callable[[Args], Iterable[dict]],
  rounds: int = 7,
  **flags: tuple[object, str],
) -> None:
  """Main function of a benchmark; reports a user's mistake in one line."""
  args = _parse(rounds, flags)
  os.environ |= dict.fromkeys(THREADS, str(args.num_threads))
  try:
    table.report(measure(args), args.publish)
  except (OSError, ValueError) as error:
    sys.exit(f"ERROR: {error}")


def _parse(rounds, flags):
  parser = argparse.ArgumentParser(
    description=sys.modules["__main__"].__doc__,
    formatter_class=argparse.RawDescriptionHelpFormatter,
  )
  shared = {
    "rounds": (rounds, "turns of each contestant"),
    "num_threads": (2, "threads of each worker"),
    "publish": (False, "save the results and write their table"),
  }
  for name, (default, text) in {**flags, **shared}.items():
    if isinstance(default, bool):
      parser.add_argument(f"--{name}", action="store_true", help=text)
      continue
    kind = str if default is None else type(default)
    if kind is list:
      default, kind = ",".join(default), re.compile("[^,]+").findall
    if default:
      text += " (%(default)s)"
    options = {"type": kind, "required": default is None, "help": text}
    parser.add_argument(f"--{name}", default=default, **options)
  return parser.parse_args()
