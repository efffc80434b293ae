"""Names of checkpoints and of the files that belong to them.

Needs no TensorFlow for local paths.
"""

import os
import re

from storage import files

BEST = "best"  # subfolder of an output folder
_NEWEST = re.compile(r'^model_checkpoint_path: "(.*)"', re.MULTILINE)


def sibling_file(path: str, name: str) -> str | None:
  """Path of an existing file of a checkpoint's folder, or None.

  `path` is the folder or a prefix. For `best/model.ckpt-10` also the parent of
  the folder `best` is searched, as that is the output folder of the training.
  """
  prefix = os.path.join(path, "") if files.is_folder(path) else path
  folder = os.path.dirname(prefix) or "."
  folders = [folder]
  if os.path.basename(folder) == BEST:
    folders.append(os.path.dirname(folder) or ".")
  paths = [os.path.join(folder, name) for folder in folders]
  return next(filter(files.exists, paths), None)


def latest(folder: str) -> str | None:
  """Prefix of the newest checkpoint, which the file `checkpoint` names."""
  path = os.path.join(folder, "checkpoint")
  newest = files.exists(path) and _NEWEST.search(files.read_text(path))
  if not newest:
    return None
  prefix = os.path.join(folder, newest[1])
  return prefix if files.exists(f"{prefix}.index") else None


def find(path: str) -> str:
  """Prefix of a checkpoint.

  Args:
    path: a prefix ("dir/model.ckpt-10"), one of its files, or a folder: its
      newest checkpoint, else the one in its subfolder `best`, else its only
      one.

  Raises:
    FileNotFoundError: there is none.
    ValueError: a folder has several and no file `checkpoint`.
  """
  if files.is_folder(path):
    return _find_in_folder(path)
  prefix = re.sub(r"\.(index|data-\d+-of-\d+|meta)$", "", path)
  if not files.exists(f"{prefix}.index"):
    raise FileNotFoundError(
      f"no checkpoint at {path!r}: there is no file {prefix}.index "
      "(a checkpoint's name is the common prefix of its .index and .data files)"
    )
  return prefix


def _find_in_folder(folder):
  newest = latest(folder) or latest(os.path.join(folder, BEST))
  if newest:
    return newest
  # A released model has no file `checkpoint`.
  names = sorted(
    name.removesuffix(".index")
    for name in files.list_folder(folder)
    if name.endswith(".index")
  )
  if not names:
    raise FileNotFoundError(
      f"no checkpoint in the folder {folder}: no file there is named *.index"
    )
  if len(names) > 1:
    raise ValueError(
      f"{folder} has several checkpoints ({', '.join(names)}): name one, as in "
      f"{os.path.join(folder, names[-1])}"
    )
  return os.path.join(folder, names[0])
