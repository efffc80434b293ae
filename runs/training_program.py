"""Start of a program that trains: stages, dry run, lock of --output_dir."""

import fcntl
import glob
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from tempfile import TemporaryDirectory
from typing import TypeVar

from absl import logging

from cli import program
from cli.settings import AS_GIVEN, flags_of
from runs.settings import Training
from runs.task_settings import FineTuning
from storage import UserError, files
from training import checkpoint_files, processes, run_json

LOCK_FILE = "run.lock"

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
      names = ", ".join(others)
      raise UserError(f"At least one of {names} and {last} must be True.")
    check(settings)  # before a dry run changes the folders
    with dry_run(settings) as settings, locked(settings.output_dir):
      main(settings)
      if files.exists(os.path.join(settings.output_dir, run_json.METRICS)):
        from training import report  # noqa: PLC0415, imports TensorFlow

        report.draw_metrics(settings.output_dir)

  program.run(kind, start)


def rerun(settings: Training, name: str, flags: Iterable[str]) -> None:
  """Runs this command again with more flags; ChildProcessError if it fails."""
  logging.info("%s begins", name)
  if status := processes.run_child([sys.executable, *settings.command, *flags]):
    raise ChildProcessError(
      f"{name} ended with status {status}, see above; the same command resumes"
    )


@contextmanager
def locked(folder: str) -> Iterator[None]:
  """Context in which the chief worker's run is the only one in a local folder.

  Removes incomplete checkpoints that a killed run left there. After an error,
  removes the lock file, and a folder that is new and empty. Raises ValueError
  if another process holds the lock.
  """
  checkpoint_files.check_name(folder)
  if files.is_remote(folder) or not processes.is_chief():
    yield
    return
  is_new = not os.path.exists(folder)
  os.makedirs(folder, exist_ok=True)
  path = os.path.join(folder, LOCK_FILE)
  with open(path, "w") as file:
    try:
      fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
      raise UserError(
        f"another run uses --output_dir={folder}: wait until it ends, or name "
        "another folder"
      ) from None
    except OSError as error:
      text = "%s cannot be locked (%s): start no other run"
      logging.warning(text, folder, error.strerror)
    for parent in (folder, os.path.join(folder, checkpoint_files.BEST)):
      pattern = f"{glob.escape(parent)}/{checkpoint_files.UNFINISHED}*"
      for left in glob.glob(pattern):
        os.remove(left)
    try:
      yield
    except Exception:
      with suppress(OSError):  # the folder is not empty
        os.remove(path)
        if is_new:
          os.rmdir(folder)
      raise


@contextmanager
def dry_run(settings: T) -> Iterator[T]:
  """Context that yields the settings to run with, which --dry_run changes.

  A dry run passes all stages of the command, but leaves no outputs. With
  --do_train it trains two steps. Without --do_train it loads the model in
  --output_dir, if any. Models and batches have full size, to test memory.
  """
  if not settings.dry_run:
    yield settings
    return
  own = checkpoint_files.choose_checkpoint(settings.output_dir)
  start = None if settings.do_train else own
  logging.info("dry run: all files go to a temporary folder")
  known = flags_of(type(settings)).values()
  short = {f.name: f.dry_run for f in known if f.dry_run is not AS_GIVEN}
  if isinstance(settings, FineTuning) and settings.is_sweep:
    short["keep_best"] = True  # like a trial of the sweep
  has_others = processes.has_others()
  with TemporaryDirectory() as folder:
    if has_others:  # all workers need the same folder
      folder = os.path.join(settings.output_dir, "dry_run")
    # The log would say "saved", and name files that will be gone.
    handler = logging.get_absl_handler().python_handler
    handler.addFilter(
      lambda line: line.levelname != "INFO" or folder not in line.getMessage()
    )
    try:
      yield settings.replace(
        several={},  # test the first setting of a sweep
        output_dir=folder,
        init_checkpoint=start or settings.init_checkpoint,
        export_dir=os.path.join(folder, "export"),
        **short,
      )
    finally:
      if has_others and processes.is_chief():
        files.remove_folder(folder)
  logging.info("dry run: all stages work, nothing was saved")
