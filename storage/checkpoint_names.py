"""Names of checkpoints and of the files that belong to them."""

import os
import re

from storage import files


def sibling_file(prefix: str, name: str) -> str | None:
  """Path of an existing file of a checkpoint's folder, or None.

  For `best/model.ckpt-10` also the parent of the folder `best` is searched,
  as that is the output folder of the training.
  """
  folder = os.path.dirname(prefix) or "."
  folders = [folder]
  if os.path.basename(folder) == "best":
    folders.append(os.path.dirname(folder) or ".")
  paths = [os.path.join(folder, name) for folder in folders]
  return next(filter(files.exists, paths), None)


def checkpoint_prefix(path: str) -> str:
  """Prefix of a checkpoint, from the prefix or one of its files."""
  return re.sub(r"\.(index|data-\d+-of-\d+|meta)$", "", path)


def check_checkpoint(path: str) -> None:
  """Raises FileNotFoundError if no file name tells of a checkpoint.

  The path is a prefix ("dir/model.ckpt-10"), one of its files, or a folder.
  """
  index = f"{checkpoint_prefix(path)}.index"
  if files.is_folder(path):
    has_any = any(name.endswith(".index") for name in files.list_folder(path))
  else:
    has_any = files.exists(index)
  if not has_any:
    raise FileNotFoundError(
      f"no checkpoint at {path!r}: there is no file {index} "
      "(a checkpoint is named by what its .index and .data files share)"
    )
