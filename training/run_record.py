"""run.json: what is needed to repeat a run."""

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

import tensorflow as tf
from absl import flags

from training import checkpoint, cluster, ours

NAME = "run.json"
_PACKAGES = ("tensorflow", "keras", "numpy", "tf-models-official")
_HERE = Path(__file__).parent
_PART = 2**20  # of a file that counts, at both ends


def write(FLAGS: flags.FlagValues, seed: int, data: Sequence[str]) -> str:
  """Adds this start of a run to run.json in its output folder.

  A run that goes on adds another entry to the list there: with other flags,
  perhaps, or other versions.

  Args:
    FLAGS: all flags of the program.
    seed: of the run.
    data: the files that it is trained on.

  Returns:
    The entry, as JSON.
  """
  start = {
    "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
    "program": Path(sys.argv[0]).stem,
    "directory": os.getcwd(),  # paths in flags may be relative to it
    "seed": seed,
    "flags": given(FLAGS),
    "versions": versions(),
    "commit": commit(),
    "data": {name: fingerprint(name) for name in data},
  }
  if cluster.is_chief():
    _append(FLAGS.output_dir, start)
  return json.dumps(start, indent=1)


def read(output_dir: str) -> list[dict]:
  """The entries of a folder's run.json, oldest first; none if it has none."""
  return read_json(os.path.join(output_dir, NAME), [{"flags": {}}])


def read_json(path: str, like):
  """What a file that a run keeps holds; `like` without values if it is absent.

  Args:
    path: of the file.
    like: an object of its kind, or a list of one.

  Raises:
    ValueError: it holds something else.
  """
  if not tf.io.gfile.exists(path):
    return type(like)()
  try:
    with tf.io.gfile.GFile(path) as file:
      found = json.load(file)
    many, one = (found, like[0]) if isinstance(like, list) else ([found], like)
    has_all = all(entry.keys() >= one.keys() for entry in many)
    if isinstance(found, type(like)) and has_all:
      return found
  except (ValueError, TypeError, AttributeError):
    pass
  raise ValueError(
    f"{path} is damaged: restore it, or remove it if nothing of it is needed"
  ) from None


def flag_of(path: str, name: str):
  """What a flag was in the run that wrote a checkpoint; None if unknown.

  Args:
    path: a folder of checkpoints, or the prefix of one.
    name: of the flag.
  """
  prefix = os.path.join(path, "") if tf.io.gfile.isdir(path) else path
  found = checkpoint.beside(prefix, NAME)
  starts = read(os.path.dirname(found)) if found else []
  return starts[-1]["flags"].get(name) if starts else None


def adopt(output_dir: str, other_dir: str) -> None:
  """Adds another folder's last entry, whose best checkpoint is taken over."""
  for start in read(other_dir)[-1:]:
    if start not in read(output_dir):
      _append(output_dir, start)


def _append(output_dir, start):
  path = os.path.join(output_dir, NAME)
  starts = [*read(output_dir), start]
  with tf.io.gfile.GFile(f"{path}.unfinished", "w") as file:
    file.write(json.dumps(starts, indent=1) + "\n")
  tf.io.gfile.rename(f"{path}.unfinished", path, overwrite=True)


def require_same(FLAGS: flags.FlagValues, *names: str) -> None:
  """Checks flags that cannot change between training and what comes after it.

  Args:
    FLAGS: all flags of the program.
    names: which of them to check.

  Raises:
    ValueError: the last start of a run in --output_dir had another value.
  """
  for start in read(FLAGS.output_dir)[-1:]:
    for name in names:
      value, trained = FLAGS[name].value, start["flags"].get(name)
      if name in start["flags"] and value != trained:
        raise ValueError(
          f"--{name}={value}, but the model in {FLAGS.output_dir} was trained "
          f"with --{name}={trained}: give that, or another --output_dir"
        )


def given(FLAGS: flags.FlagValues) -> dict:
  """The flags of this project with their values, given or default."""
  return {
    flag.name: flag.value
    for flag in ours.find_flags(FLAGS)
    if not flag.name.startswith("help")
  }


def versions() -> dict[str, str]:
  """Of Python and of the packages that numbers depend on."""
  found = {"python": platform.python_version()}
  for name in _PACKAGES:
    try:
      found[name] = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
      continue
  return found


def commit(besides: Sequence[str] = ()) -> str | None:
  """The commit of this code, "+" behind it if files differ; None if unknown.

  Args:
    besides: files that may differ, as patterns from the top of the repository.
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
  """Size and SHA-256 of a file's first and last megabyte, as one text."""
  with tf.io.gfile.GFile(path, "rb") as file:
    size = file.size()
    digest = hashlib.sha256(file.read(_PART))
    if size > _PART:
      file.seek(max(_PART, size - _PART))
      digest.update(file.read())
  return f"{size} bytes, sha256 of the ends {digest.hexdigest()}"
