"""Gives mutated files to the readers of tests.fuzz.targets; counts outcomes.

  python -m tests.fuzz.run --inputs=200000 --finds=/tmp/finds

Each reader runs in its own process, which may die. Inputs that fail go to the
folder --finds. If you copy an input to the folder tests/fuzz/corpus/TARGET,
every test run reads the input.
"""

import argparse
import json
import multiprocessing
import os
import signal
import tempfile
from collections import Counter
from pathlib import Path
from random import Random

from cli import program

SECONDS = 10  # an input that takes longer counts as a find


def attempt(read, path: str, content: bytes) -> str:
  """Lets a target read a file; returns "read" or "refused".

  Raises:
    Exception: an error that is not written for the user.
    TimeoutError: the target took more than ten seconds.
  """
  with open(path, "wb") as file:
    file.write(content)
  signal.alarm(SECONDS)
  try:
    read(path)
  except Exception as error:
    if isinstance(error, TimeoutError) or not program.message_of(error):
      raise
    return "refused"
  finally:
    signal.alarm(0)
  return "read"


def _too_long(signum, frame):
  raise TimeoutError(f"not done after {SECONDS} s")


def work(name: str, inputs: int, seed: int, finds: str) -> None:
  """Tries a target in this process; prints the outcomes as a JSON line."""
  from tests.fuzz import mutation, targets  # noqa: PLC0415, imports TensorFlow

  signal.signal(signal.SIGALRM, _too_long)
  rng = Random(f"{name} {seed}")
  counts = Counter()
  with tempfile.TemporaryDirectory(dir=finds) as folder:
    path = targets.prepare(name, folder)
    seeds = targets.seeds(name)
    read = targets.TARGETS[name].read
    for number in range(inputs):
      content = mutation.mutated(seeds, rng)
      try:
        outcome = attempt(read, path, content)
      except Exception as error:
        outcome = f"{type(error).__name__}: {str(error)[:80]}"
        Path(finds, f"{name}-{number}").write_bytes(content)
      counts[outcome] += 1
  print(json.dumps({"target": name, "counts": counts}))


def main() -> None:
  """Tries the targets, one after the other."""
  from tests.fuzz import targets  # noqa: PLC0415, imports TensorFlow

  parser = argparse.ArgumentParser()
  parser.add_argument("--inputs", type=int, default=200_000)
  parser.add_argument("--seed", type=int, default=1)
  parser.add_argument("--finds", required=True, help="Folder for what is found")
  parser.add_argument("--targets", nargs="*", default=[*targets.TARGETS])
  given = parser.parse_args()
  os.makedirs(given.finds, exist_ok=True)
  inputs = -(-given.inputs // len(given.targets))
  context = multiprocessing.get_context("spawn")
  for name in given.targets:
    arguments = name, inputs, given.seed, given.finds
    process = context.Process(target=work, args=arguments)
    process.start()
    process.join()
    if process.exitcode:
      died = {"target": name, "died": process.exitcode}
      print(json.dumps(died), flush=True)


if __name__ == "__main__":
  main()
