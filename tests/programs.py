"""Runs programs as users call them, but does not import TensorFlow each time.

Importing TensorFlow takes seconds, and so does the end of a process that has
imported it. So each program runs in a fork of a process that has imported
TensorFlow, and the fork exits without Python's clean-up. Tests that need a new
process, such as tests of signals, call `python` or subprocess.
"""

import importlib
import multiprocessing
import os
import runpy
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path
from types import SimpleNamespace

from absl import flags as absl_flags

from cli import settings
from tests import lean

ROOT = Path(__file__).parents[1]
FLAGS = Path(__file__).parent / "flags.tsv"
_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(
  """
  tasks.classification.task tasks.features.task tasks.multiple_choice.task
  tasks.ner.task tasks.pretraining.task tasks.squad.task runs.fine_tune
  cli.program conversion.original
  sklearn.metrics tests.lean
  """.split()
)


def call(program, *arguments, stdin=b"", cwd=ROOT, fused=False, **flags):
  """Runs a program; returns `returncode`, `stdout` and `stderr`.

  If `fused`, the training is compiled as for users. If not, tests.lean says
  what a program skips.
  """
  with tempfile.TemporaryDirectory() as folder:
    streams = [Path(folder, name) for name in ("stdin", "stdout", "stderr")]
    streams[0].write_bytes(stdin)
    words = [*arguments]
    for name, value in flags.items():  # a list gives an argument for each value
      values = value if isinstance(value, list) else [value]
      words += [f"--{name}={value}" for value in values]
    fused = fused or lean.PROGRAMS_ARE_FUSED
    process = _FORKS.Process(
      target=_program, args=(program, words, streams, cwd, fused)
    )
    process.start()
    process.join()
    out, err = (path.read_text(encoding="utf-8") for path in streams[1:])
  return SimpleNamespace(returncode=process.exitcode, stdout=out, stderr=err)


def _program(name, arguments, streams, cwd, fused):
  for number, path in enumerate(streams):
    how = os.O_WRONLY | os.O_CREAT if number else os.O_RDONLY
    os.dup2(os.open(path, how, 0o600), number)
  sys.stdin = os.fdopen(0, encoding="utf-8")
  os.chdir(cwd)
  path = str(ROOT / f"{name}.py")
  sys.argv = [path, *arguments]
  code = 1
  try:
    with lean.program(fused):
      runpy.run_path(path, run_name="__main__")
    code = 0
  except SystemExit as end:
    code = end.code or 0
  except BaseException:  # print the traceback, as Python does
    traceback.print_exc()
  finally:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def run(program, *arguments, **flags):
  """Runs a program that must succeed; returns its log."""
  done = call(program, *arguments, **flags)
  assert done.returncode == 0, done.stderr
  return done.stderr


def fails(program, message, *arguments, **flags):
  """Runs a program that ends with a user error; returns its log."""
  done = call(program, *arguments, **flags)
  check_error(done.returncode, done.stderr, message)
  return done.stderr


def check_error(status, log, message):
  """Checks that a log's last line is an error with this message."""
  assert status == 1, log
  assert "Traceback" not in log
  assert message in log.splitlines()[-1], log


def python(arguments, text=None, **options):
  """Runs Python with a text as input; takes the options of subprocess.run."""
  return subprocess.run(
    [sys.executable, *arguments],
    **{"input": text, "cwd": ROOT, "check": False} | options,
    capture_output=True,
    text=True,
  )


def check_dry_run(program, *recipes, **flags):
  """Checks that a dry run of recipes runs all stages and leaves no files."""
  files = [ROOT / "recipes" / f"{name}.flags" for name in recipes]
  with tempfile.TemporaryDirectory() as folder:
    flags |= {"output_dir": f"{folder}/output", "dry_run": True}
    log = run(program, flagfile=files, **flags)
    assert not os.listdir(folder)
  assert "step 2 of 2, loss" in log
  assert "dry run: all stages work, nothing was saved" in log
  for message in ("exported to", "saved ", "wrote "):
    assert f" {message}" not in log.replace("nothing was saved", "")


def check_repeats(program, folder, again, *names, fused=False):
  """Checks that `folder`/command.flags makes the same files, byte for byte."""
  command = f"--flagfile={folder}/command.flags"
  run(program, command, output_dir=again, fused=fused)
  names += ("eval_results.txt", "**/model.ckpt-*")
  paths = [path for name in names for path in again.glob(name)]
  assert len(paths) > 2
  for path in paths:
    other = folder / path.relative_to(again)
    assert path.read_bytes() == other.read_bytes(), path
  lines, repeated = (
    (name / "command.flags").read_text().splitlines()
    for name in (folder, again)
  )
  # The output folder is in a comment, because a repeated run has another one.
  assert set(repeated) - set(lines) == {f"# --output_dir={again}"}


def results(folder, name="eval_results.txt"):
  """Returns the numbers that a program wrote to its output folder."""
  lines = (folder / name).read_text().splitlines()
  return {k: float(v) for k, v in (line.split(" = ") for line in lines)}


def table(path):
  """Returns the rows of a tab-separated file."""
  return [line.split("\t") for line in path.read_text().splitlines()]


def settings_of(program):
  """Returns the class of a program's settings."""
  module = importlib.import_module(program)
  kinds = [
    kind
    for kind in vars(module).values()
    if isinstance(kind, type) and issubclass(kind, settings.Settings)
  ]
  return max(kinds, key=lambda kind: len(settings.flags_of(kind)))


def flags(program):
  """Returns the flags of a program as absl knows them."""
  values = absl_flags.FlagValues()
  settings.define(settings_of(program), values)
  return [values[name] for name in settings.flags_of(settings_of(program))]


def defaults(program):
  """Returns the defaults of a program's flags, None for required flags."""
  known = settings.flags_of(settings_of(program))
  return {name: flag.default for name, flag in known.items()}


def arguments(program, given=(), command=None, **changes):
  """Returns a program's settings: the defaults, with `changes`."""
  kind = settings_of(program)
  known = settings.flags_of(kind)
  values = defaults(program) | changes
  several = {
    k: v for k, v in values.items() if known[k].swept and isinstance(v, tuple)
  }
  return kind(
    given=frozenset(given),
    command=command or (f"{program}.py",),
    several=several,
    **values | {name: several[name][0] for name in several},
  )
