"""Programs as their users call them, and many mistakes at the price of one."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
# What takes seconds is to import TensorFlow, and to end a process that has. So
# each case is a copy of a process that has done the one, and leaves out the
# other.
_EACH = """
import importlib, json, os, sys
from training import program
name = sys.argv[1]
module = importlib.import_module(name)
for flags, log in json.load(sys.stdin):
  if not os.fork():
    os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
    sys.argv = [f"{name}.py", *flags]
    try:
      program.run(module.main)
    except SystemExit as end:
      os._exit(end.code or 0)
  print(os.waitstatus_to_exitcode(os.wait()[1]), flush=True)
"""


def run(program, **flags):
  """Runs a program to its end; returns its log."""
  done = python([str(ROOT / f"{program}.py"), *_arguments(flags)])
  assert done.returncode == 0, done.stderr
  return done.stderr


def run_each(program, cases, folder):
  """Runs a program with each of some flags; returns pairs of status and log."""
  logs = [folder / f"{number}.log" for number in range(len(cases))]
  given = [
    (_arguments(flags), str(log))
    for flags, log in zip(cases, logs, strict=True)
  ]
  done = python(["-c", _EACH, program], json.dumps(given))
  status = map(int, done.stdout.split())
  return [
    (code, log.read_text()) for code, log in zip(status, logs, strict=True)
  ]


def python(arguments, text=None):
  """Runs Python, with a text as its input."""
  return subprocess.run(
    [sys.executable, *arguments],
    input=text,
    cwd=ROOT,
    capture_output=True,
    text=True,
    check=False,
  )


def results(folder, name="eval_results.txt"):
  """The numbers that a program wrote to its output folder."""
  lines = (folder / name).read_text().splitlines()
  return {k: float(v) for k, v in (line.split(" = ") for line in lines)}


def table(path):
  """The rows of a file of columns."""
  return [line.split("\t") for line in path.read_text().splitlines()]


def _arguments(flags):
  """A flag may have a list of values: it is given as often then."""
  return [
    f"--{name}={value}"
    for name, values in flags.items()
    for value in (values if isinstance(values, list) else [values])
  ]
