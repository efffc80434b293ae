"""Start of a program that trains: stages, dry run, lock of --output_dir."""

import os
import sys
from collections.abc import Callable, Iterable
from typing import TypeVar

from absl import logging

from cli import program
from runs import record
from runs.dry_run import dry_run
from runs.lock import lock_folder, remove_locks
from runs.settings import Training
from storage import UserError, files
from training import processes, run_json

T = TypeVar("T", bound=Training)


def run(
  kind: type[T], check: Callable[[T], None], main: Callable[[T], None]
) -> None:
  """Runs a program as program.run; it has --dry_run and locks --output_dir.

  One of its `stages` must be set.
  """

  def start(args):
    if not any(args[name] for name in args.stages):
      *others, last = (f"--{name}" for name in args.stages)
      raise UserError(
        f"At least one of {', '.join(others)} and {last} must be True."
      )
    check(args)  # also those of a dry run, which has other folders
    with dry_run(args) as args:
      if processes.is_chief():
        lock_folder(args.output_dir)
      try:
        main(args)
        if files.exists(os.path.join(args.output_dir, run_json.METRICS)):
          from training import report  # noqa: PLC0415, imports TensorFlow

          report.draw_metrics(args.output_dir)
      except Exception:
        remove_locks()
        raise

  program.run(kind, lambda args: None, start)


def rerun(args: Training, name: str, flags: Iterable[str]) -> None:
  """Runs this command again with more flags; ChildProcessError with `name`."""
  logging.info("%s begins", name)
  if status := processes.run_child([sys.executable, *args.command, *flags]):
    raise ChildProcessError(
      f"{name} ended with status {status}, see above; the same command resumes"
    )


def with_same_seed(args: T) -> T:
  """Gives all trainings that `rerun` starts one seed, 1 as in a sweep."""
  seed = 1 if args.seed is None else args.seed
  record.save_command(args, seed)
  return args.replace(command=(*args.command, f"--seed={seed}"))
