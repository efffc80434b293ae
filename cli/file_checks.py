"""Checks files that flags name, before any work."""

import os
import tempfile
from collections.abc import Sequence

from cli.settings import Settings
from storage import UserError, files


def check_files(settings: Settings, *names: str) -> None:
  """Checks input files that this command needs; ValueError or OSError."""
  for name in names:
    settings.needed(name)
    check_file(settings, name)


def check_file(settings: Settings, name: str) -> None:
  """Raises OSError if a flag names a file that cannot be read."""
  if path := settings[name]:
    try:
      files.open_for_reading(path).close()
    except OSError as error:
      raise type(error)(f"--{name}: {error}") from None


def check_writable(path: str, name: str) -> None:
  """Raises OSError if the path in flag `name` cannot be written.

  Programs write a temporary file first, so the folder must be writable, too.
  """
  if files.is_remote(path):
    return files.check_writable(path)
  parent = os.path.abspath(path)
  if not os.path.isdir(parent):
    parent = os.path.dirname(parent)
  while not os.path.exists(parent):
    parent = os.path.dirname(parent)
  if not os.path.isdir(parent):
    raise NotADirectoryError(f"--{name}={path}: {parent} is no folder")
  try:  # root has all permissions, but some folders take no files
    tempfile.TemporaryFile(dir=parent).close()
  except OSError:
    raise PermissionError(
      f"--{name}={path}: {parent} cannot be written to"
    ) from None


def check_output_file(path: str, overwrite: bool, *inputs: str) -> None:
  """Checks that --output_file is writable, no input, and new or to replace."""
  check_disjoint(inputs, path)
  check_writable_file(path)
  if not overwrite:
    check_is_new(path)


def check_writable_file(path: str) -> None:
  """Raises OSError if --output_file cannot be written, or is no file."""
  is_file = not os.path.exists(path) or os.path.isfile(path)
  if files.is_folder(path) or not is_file:
    raise OSError(f"--output_file={path} is no regular file: name another")
  check_writable(path, "output_file")


def check_is_new(*paths: str) -> None:
  """Raises FileExistsError if any of the paths exists."""
  present = [path for path in paths if files.exists(path)]
  if present:
    verb, them = ("exists", "it") if len(present) == 1 else ("exist", "them")
    raise FileExistsError(
      f"{', '.join(present)} {verb} already; remove {them}, or give --overwrite"
    )


def check_disjoint(inputs: Sequence[str], *outputs: str) -> None:
  """Raises ValueError if an output is one of the inputs."""
  read = {os.path.realpath(path) for path in inputs}
  for path in outputs:
    if os.path.realpath(path) in read:
      raise UserError(f"{path} is an input, too: choose another output")
