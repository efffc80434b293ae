"""run.json of an output folder: an entry for each start of a training."""

import hashlib
import importlib.metadata
import json
import os
import platform
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

from storage import UserError, files

NAME = "run.json"
METRICS = "metrics.jsonl"  # in the folder of run.json
VERSION = "0.1.0"  # of this project
_PACKAGES = ("tensorflow", "keras", "numpy", "tf-models-official")
_END_BYTES = 2**20  # hashed at each end of a file


def make(
  program: str, flag_values: Mapping, seed: int, data: Mapping[str, str]
) -> dict:
  """Makes the entry of a training that starts now; `data` are fingerprints."""
  return {
    "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
    "program": program,
    "directory": os.getcwd(),  # for relative paths in flags
    "seed": seed,
    "flags": flag_values,
    "versions": versions(),
    "commit": commit(),
    "data": data,
  }


def read(output_dir: str) -> list[dict]:
  """Reads the entries of run.json, oldest first; [] without the file."""
  path = os.path.join(output_dir, NAME)
  if not files.exists(path):
    return []
  try:
    return json.loads(files.read_text(path))
  except ValueError as error:
    text = f"{path} is corrupt: restore it, or remove it"
    raise UserError(text) from error


def path_of(entry: Mapping, name: str) -> str | None:
  """Path that a flag of an entry names; the file may not exist."""
  path = entry["flags"].get(name)
  if path and not files.is_remote(path):
    path = os.path.join(entry.get("directory", ""), path)
  return path


def append(output_dir: str, entry: dict) -> None:
  """Appends an entry to a folder's run.json."""
  entries = [*read(output_dir), entry]
  path = os.path.join(output_dir, NAME)
  files.write_text(path, json.dumps(entries, indent=1) + "\n")


def versions() -> dict[str, str]:
  """Versions of this project, Python and the packages that affect results."""
  result = {"bert": VERSION, "python": platform.python_version()}
  for name in _PACKAGES:
    with suppress(importlib.metadata.PackageNotFoundError):
      result[name] = importlib.metadata.version(name)
  return result


def commit() -> str | None:
  """Git commit of this code, or None. A "+" at the end marks changed files."""
  file = Path(__file__)
  git = ["git", "-C", file.parent]
  describe = ["describe", "--always", "--abbrev=40", "--exclude=*", "--dirty=+"]
  run = partial(subprocess.check_output, text=True, stderr=subprocess.DEVNULL)
  try:
    # Another project's repository may contain an installed copy.
    is_tracked = run([*git, "ls-files", file.name])
    return run([*git, *describe]).strip() if is_tracked else None
  except (OSError, subprocess.CalledProcessError):
    return None


def fingerprint(path: str) -> str:
  """A file's size, and the SHA-256 of the first and the last megabyte."""
  size = files.size(path)
  with files.open_for_reading(path) as file:
    digest = hashlib.sha256(file.read(_END_BYTES))
    if size > _END_BYTES:
      file.seek(max(_END_BYTES, size - _END_BYTES))
      digest.update(file.read())
  return f"{size} bytes, sha256 of the ends {digest.hexdigest()}"
