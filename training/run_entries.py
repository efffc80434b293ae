"""Entries of run.json: one for each start of a program.

Needs no TensorFlow for local paths.
"""

import json
import os
from collections.abc import Mapping

from storage import checkpoint_names, files

NAME = "run.json"


def read(output_dir: str) -> list[dict]:
  """Entries of a folder's run.json, oldest first; none without that file."""
  return read_json(os.path.join(output_dir, NAME), [{"flags": {}}])


def read_json(path: str, like):
  """Reads a JSON file of a run; an empty object or list if there is none.

  Raises:
    ValueError: it has other keys than `like`, a dict or a list of one.
  """
  if not files.exists(path):
    return type(like)()
  try:
    result = json.loads(files.read_text(path))
    entries, keys = (
      (result, like[0]) if isinstance(like, list) else ([result], like)
    )
    has_keys = all(entry.keys() >= keys.keys() for entry in entries)
    if isinstance(result, type(like)) and has_keys:
      return result
  except (ValueError, TypeError, AttributeError):
    pass
  raise ValueError(
    f"{path} is corrupt: restore it, or remove it if it is not needed"
  ) from None


def flag_of(path: str, name: str):
  """Value of a flag in the run that wrote a checkpoint; None if unknown.

  `path` is a folder of checkpoints or the prefix of one.
  """
  prefix = os.path.join(path, "") if files.is_folder(path) else path
  record = checkpoint_names.sibling_file(prefix, NAME)
  entries = read(os.path.dirname(record)) if record else []
  return entries[-1]["flags"].get(name) if entries else None


def copy_last_entry(output_dir: str, other_dir: str) -> None:
  """Appends the last entry of another folder, unless it is there already."""
  for entry in read(other_dir)[-1:]:
    if entry not in read(output_dir):
      append(output_dir, entry)


def append(output_dir: str, entry: dict) -> None:
  """Appends an entry to a folder's run.json."""
  entries = [*read(output_dir), entry]
  path = os.path.join(output_dir, NAME)
  files.write_text(path, json.dumps(entries, indent=1) + "\n")


def keeps_best(flag_values: Mapping) -> bool:
  """True if a run with these flags saves its best checkpoint."""
  patience = flag_values.get("early_stopping_patience") or 0
  return bool(flag_values.get("keep_best")) or patience > 0
