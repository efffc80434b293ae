"""Entries of run.json: flags, seed, versions and data of a run."""

import hashlib
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from cli.arguments import Arguments
from storage import files
from training import process, run_entries

_PACKAGES = ("tensorflow", "keras", "numpy", "tf-models-official")
_HERE = Path(__file__).parent
_END_BYTES = 2**20  # hashed at each end of a file


def write(args: Arguments, seed: int, data: Sequence[str]) -> str:
  """Appends an entry to run.json in --output_dir; returns it as JSON.

  Each start of a program adds one, also when it resumes a run.

  `data` are the paths of the training data.
  """
  start = {
    "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
    "program": Path(sys.argv[0]).stem,
    "directory": os.getcwd(),  # paths in flags may be relative to it
    "seed": seed,
    "flags": vars(args),
    "versions": versions(),
    "commit": commit(),
    "data": {name: fingerprint(name) for name in data},
  }
  if process.is_chief():
    run_entries.append(args.output_dir, start)
  return json.dumps(start, indent=1)


def require_same(args: Arguments, *names: str) -> None:
  """Raises ValueError if flags differ from the last entry in --output_dir."""
  for start in run_entries.read(args.output_dir)[-1:]:
    for name in names:
      value, trained = args[name], start["flags"].get(name)
      if name in start["flags"] and value != trained:
        raise ValueError(
          f"--{name}={value}, but the model in {args.output_dir} was trained "
          f"with --{name}={trained}: give this value, or another --output_dir"
        )


def versions() -> dict[str, str]:
  """Versions of Python and of the packages that determine numbers."""
  result = {"python": platform.python_version()}
  for name in _PACKAGES:
    try:
      result[name] = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
      continue
  return result


def commit(besides: Sequence[str] = ()) -> str | None:
  """Git commit of this code, with "+" if files differ; None if unknown.

  `besides` are files that may differ: patterns relative to the repository.
  """

  def git(*words):
    return subprocess.run(
      ["git", "-C", _HERE, *words], capture_output=True, text=True, check=True
    ).stdout.strip()

  try:
    changed = git(
      *("status", "--porcelain", "--untracked-files=no", "--", ":/"),
      *(f":(top,exclude){pattern}" for pattern in besides),
    )
    return git("rev-parse", "HEAD") + "+" * bool(changed)
  except (OSError, subprocess.CalledProcessError):
    return None


def fingerprint(path: str) -> str:
  """Size, and SHA-256 of the first and last megabyte, of a file."""
  size = files.size(path)
  with files.open_for_reading(path) as file:
    digest = hashlib.sha256(file.read(_END_BYTES))
    if size > _END_BYTES:
      file.seek(max(_END_BYTES, size - _END_BYTES))
      digest.update(file.read())
  return f"{size} bytes, sha256 of the ends {digest.hexdigest()}"
