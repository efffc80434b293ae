"""A dry run: the same run with fewer steps, without outputs."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import TypeVar

from absl import logging

from cli.settings import flags_of
from runs.settings import Training
from runs.task_settings import FineTuning
from storage import files
from training import checkpoint_files, processes

T = TypeVar("T", bound=Training)


@contextmanager
def dry_run(settings: T) -> Iterator[T]:
  """Context with the settings to run with, changed if --dry_run is set.

  A dry run passes all stages of the command, but leaves no outputs. The
  training has two steps, or the run loads the model in --output_dir. Models
  and batches have full size, to test memory.
  """
  if not settings.dry_run:
    yield settings
    return
  start = not settings.do_train and checkpoint_files.choose_checkpoint(
    settings.output_dir
  )
  logging.info("dry run: all files go to a temporary folder")
  with _dry_run_folder(settings.output_dir) as folder:
    export_dir = os.path.join(folder, "export")
    _correct_log({export_dir: settings.export_dir, folder: settings.output_dir})
    known = flags_of(type(settings)).values()
    short = {f.name: f.dry_run for f in known if f.has_dry_run_value}
    if isinstance(settings, FineTuning) and settings.is_sweep:
      short["keep_best"] = True  # like a trial of the sweep
    yield settings.replace(
      several={},  # test the first setting of a sweep
      output_dir=folder,
      init_checkpoint=start or settings.init_checkpoint,
      export_dir=export_dir,
      **short,
    )
  logging.info("dry run: all stages work, nothing was saved")


def _correct_log(names: Mapping[str, str | None]) -> None:
  """Corrects log lines that name a temporary folder of the dry run.

  Warnings and errors name the command's folder instead. INFO lines, which say
  that a temporary file was saved, are left out.
  """

  def correct(record):
    record.msg, record.args = record.getMessage(), ()
    if record.levelname == "INFO":
      return not any(path in record.msg for path in names)
    for path, name in names.items():
      record.msg = record.msg.replace(path, name or path)
    return True

  logging.get_absl_handler().python_handler.addFilter(correct)


@contextmanager
def _dry_run_folder(output_dir):
  """Context with a temporary folder; workers share one in --output_dir."""
  if not processes.has_others():
    with TemporaryDirectory() as folder:
      yield folder
    return
  folder = os.path.join(output_dir, "dry_run")
  try:
    yield folder
  finally:
    if processes.is_chief():
      files.remove_folder(folder)
