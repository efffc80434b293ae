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
  """Runs a training program: like program.run, with dry run and folder lock.

  Raises ValueError if the user has set none of the program's `stages`.
  """

  def start(settings):
    if not any(settings[name] for name in settings.stages):
      *others, last = (f"--{name}" for name in settings.stages)
      raise UserError(
        f"At least one of {', '.join(others)} and {last} must be True."
      )
    check(settings)  # before a dry run changes the folders
    with dry_run(settings) as settings:
      if processes.is_chief():
        lock_folder(settings.output_dir)
      try:
        main(settings)
        if files.exists(os.path.join(settings.output_dir, run_json.METRICS)):
          from training import report  # noqa: PLC0415, imports TensorFlow

          report.draw_metrics(settings.output_dir)
      except Exception:
        remove_locks()
        raise

  program.run(kind, lambda settings: None, start)


def rerun(settings: Training, name: str, flags: Iterable[str]) -> None:
  """Runs this command again with more flags; ChildProcessError if it fails."""
  logging.info("%s begins", name)
  if status := processes.run_child([sys.executable, *settings.command, *flags]):
    raise ChildProcessError(
      f"{name} ended with status {status}, see above; the same command resumes"
    )


def with_same_seed(settings: T) -> T:
  """Gives all trainings that `rerun` starts the same seed, by default 1."""
  seed = 1 if settings.seed is None else settings.seed
  record.save_command(settings, seed)
  return settings.replace(command=(*settings.command, f"--seed={seed}"))
