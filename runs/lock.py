"""Lock of an output folder, in which one run works at a time."""

import fcntl
import os
from contextlib import suppress
from typing import TextIO

from absl import logging

from storage import UserError, files
from training import checkpoint_files, processes

LOCK_FILE = "run.lock"
# Lock files, which stay open until the process ends; True if the folder is new.
_open_locks: list[tuple[TextIO, bool]] = []


def lock_folder(folder: str) -> None:
  """Locks a local folder until this process ends; ignores remote folders.

  Removes incomplete files that a killed run left there. Raises
  NotADirectoryError, or ValueError if another process holds the lock.
  """
  checkpoint_files.check_name(folder)
  if files.is_remote(folder):
    return
  if os.path.exists(folder) and not os.path.isdir(folder):
    raise NotADirectoryError(f"--output_dir={folder} is a file: name a folder")
  is_new = not os.path.exists(folder)
  os.makedirs(folder, exist_ok=True)
  file = open(os.path.join(folder, LOCK_FILE), "a+")  # noqa: SIM115
  try:
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
  except BlockingIOError:
    file.seek(0)
    number = file.read().strip() or "unknown"
    file.close()
    raise UserError(
      f"another run, process {number}, uses --output_dir={folder}: wait "
      "until it ends, or name another folder"
    ) from None
  except OSError as error:
    logging.warning(
      "%s cannot be locked (%s): start no other run", folder, error.strerror
    )
  file.truncate(0)
  file.write(f"{os.getpid()}\n")
  file.flush()
  _open_locks.append((file, is_new))
  _remove_incomplete(folder)
  _remove_incomplete(os.path.join(folder, checkpoint_files.BEST))


def remove_locks():
  """Removes lock files, and new folders that contain nothing else."""
  for file, is_new in _open_locks:
    with suppress(OSError):  # removed already, or the folder is not empty
      os.remove(file.name)
      if is_new:
        os.rmdir(os.path.dirname(file.name))


def _remove_incomplete(folder):
  for name in os.listdir(folder) if os.path.isdir(folder) else ():
    partial = files.PARTIAL.match(name)
    is_left = partial and processes.has_ended(int(partial[1]))
    if is_left or name.startswith(checkpoint_files.UNFINISHED):
      os.remove(os.path.join(folder, name))
