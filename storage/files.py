"""Finds, opens and atomically writes files, local or remote.

Paths with a scheme ("gs://...") go through tf.io.gfile, imported on demand.
"""

import glob
import hashlib
import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from storage import UserError, setting

T = TypeVar("T")
_END_BYTES = 2**20  # hashed at each end of a file
_PARTIAL = re.compile(r".*\.partial-[0-9a-f]{8}$")  # see open_for_writing


def is_remote(path: str) -> bool:
  """True if a path has a scheme, as in gs://bucket/file."""
  return "://" in os.fspath(path)


def absolute(path: str) -> str:
  """A path that is valid in processes with another working directory."""
  return path if is_remote(path) else os.path.abspath(path)


def _remote(function: str, path: str, *arguments, **options):
  """Calls a function of tf.io.gfile; OSErrors name the path."""
  from tensorflow.io import gfile  # noqa: PLC0415

  with _oserrors(path):
    return getattr(gfile, function)(path, *arguments, **options)


@contextmanager
def _oserrors(path: str) -> Iterator[None]:
  """Context in which errors of a path are OSErrors that name the path."""
  if not is_remote(path):
    try:
      yield
    except OSError as error:
      # write() sets no filename. Without errno, one would hide the message.
      if error.errno and not error.filename:
        error.filename = path
      raise
    return
  from tensorflow import errors  # noqa: PLC0415

  try:
    yield
  except errors.OpError as error:
    is_missing = isinstance(error, errors.NotFoundError)
    kind = FileNotFoundError if is_missing else OSError
    text = error.message.strip().split("\n")[0] or type(error).__name__
    if path.startswith(("hf://", "http")):
      text += "; convert_checkpoint.py downloads models"
    raise kind(f"{path}: {text}") from None


def _either(
  remote: str, local: Callable[..., T], path: str, *arguments, **options
) -> T:
  """Calls `local`, or for a remote path a function of gfile with `options`."""
  if is_remote(path):
    return _remote(remote, path, *arguments, **options)
  return local(path, *arguments)


exists = partial(_either, "exists", os.path.exists)
is_folder = partial(_either, "isdir", os.path.isdir)
list_folder = partial(_either, "listdir", os.listdir)
# Makes a folder and its missing parents, if it is not there.
make_folder = partial(_either, "makedirs", partial(os.makedirs, exist_ok=True))
copy = partial(_either, "copy", shutil.copyfile, overwrite=True)  # from, to
rename = partial(_either, "rename", os.replace, overwrite=True)  # from, to
remove = partial(_either, "remove", os.remove)
_remove_tree = partial(_either, "rmtree", shutil.rmtree)
_open: Callable[..., Any] = partial(_either, "GFile", open)  # path, mode


def in_threads(function: Callable[[str], T], paths: Iterable[str]) -> list[T]:
  """Applies a function to each path, in threads: remote files answer slowly."""
  with ThreadPoolExecutor(16) as pool:
    return [*pool.map(function, paths)]


def size(path: str) -> int:
  if is_remote(path):
    return _remote("stat", path).length
  return os.path.getsize(path)


def fingerprint(path: str) -> str:
  """A file's size, and the SHA-256 of the first and the last megabyte."""
  length = size(path)
  with open_for_reading(path) as file:
    digest = hashlib.sha256(file.read(_END_BYTES))
    if length > _END_BYTES:
      file.seek(max(_END_BYTES, length - _END_BYTES))
      digest.update(file.read())
  return f"{length} bytes, sha256 of the ends {digest.hexdigest()}"


def remove_old(folder: str, *names: str) -> None:
  """Removes the named files of a folder, if present."""
  for path in (os.path.join(folder, name) for name in names):
    if exists(path):
      remove(path)


def remove_folder(path: str) -> None:
  """Removes a folder with its content, if the folder exists."""
  if exists(path):
    _remove_tree(path)


def glob_files(pattern: str) -> list[str]:
  """Complete files that match one pattern, sorted; [] if there is no match.

  Hidden files match only if the pattern's last part begins with a dot. `**`
  stands for any folders; with object stores, it raises ValueError.
  """
  if is_remote(pattern) and "**" in pattern:
    raise UserError(f"{pattern}: write a * for each folder instead of **")
  if exists(pattern):  # a name may contain "[" or "*"
    return [pattern]
  if is_remote(pattern):
    paths = _remote("glob", pattern)
  else:
    paths = filter(os.path.isfile, glob.glob(pattern, recursive=True))
  if not os.path.basename(pattern).startswith("."):
    paths = [p for p in paths if not os.path.basename(p).startswith(".")]
  return sorted(path for path in paths if not _PARTIAL.match(path))


def expand(patterns: str) -> list[str]:
  """Files that match comma-separated patterns, such as "news/*.txt, book.txt".

  Files are in the order of the patterns, and sorted within each pattern. Raises
  FileNotFoundError for a pattern without a match, which the original ignores.
  """
  names = [name for part in patterns.split(",") if (name := part.strip())]
  matches = {name: glob_files(name) for name in names}
  missing = [name for name, paths in matches.items() if not paths]
  if missing or not matches:
    raise FileNotFoundError(
      f"no file matches {', '.join(missing) or repr(patterns)}; check the "
      "spelling, and quote patterns so that the shell leaves them alone"
    )
  return [path for name in names for path in matches[name]]


def check_is_free(folder: str, flag: str = "export_dir") -> None:
  """Raises FileExistsError if `folder` is a file, or has content."""
  if exists(folder) and (not is_folder(folder) or list_folder(folder)):
    text = f"{folder} is there already: name another {setting(flag)}"
    raise FileExistsError(f"{text}, or remove it if nobody needs it")


def open_for_reading(path: str) -> BinaryIO:
  """Opens a file as bytes. OSErrors name the file."""
  if is_remote(path):
    _remote("stat", path)  # raises now, while GFile raises at the first read
    return _remote("GFile", path, "rb")
  try:
    return open(path, "rb")
  except OSError as error:
    raise type(error)(f"cannot read {path}: {error.strerror}") from error


@contextmanager
def open_for_writing(path: str) -> Iterator[BinaryIO]:
  """Opens a file to write bytes. The complete file appears at `path`.

  Until then the file is `PATH.partial-RANDOM`. An error removes this file.
  Makes missing folders. OSErrors of the operating system have a `filename`.
  """
  path = path if is_remote(path) else os.path.realpath(path)  # keeps links
  part = f"{path}.partial-{secrets.token_hex(4)}"
  try:
    make_folder(os.path.dirname(path))
    with _oserrors(path), _open(part, "wb") as file:
      yield file
    rename(part, path)
  except BaseException:
    if exists(part):
      remove(part)
    raise


def check_writable(path: str, flag: str) -> None:
  """Raises OSError if the path in setting `flag` cannot take new files.

  If there is no such folder, its nearest existing parent must take new files.
  """
  if is_remote(path):
    probe = f"{path}.probe-{secrets.token_hex(4)}"
    write_text(probe, "")
    remove(probe)
    return
  parent = Path(os.path.abspath(path))
  if not parent.is_dir():
    parent = parent.parent
  while not parent.exists():
    parent = parent.parent
  try:  # root has all permissions, but some folders take no files
    tempfile.TemporaryFile(dir=parent).close()
  except OSError:
    text = f"{setting(flag, path)}: {parent} cannot be written to"
    raise PermissionError(text) from None


def write_text(path: str, text: str) -> None:
  with open_for_writing(path) as file:
    file.write(text.encode())


def append_text(path: str, text: str) -> None:
  """Appends to a file, which an error may leave with a part of the text."""
  with _oserrors(path), _open(path, "ab") as file:
    file.write(text.encode())


def read_text(path: str) -> str:
  """Reads a UTF-8 file and keeps line ends; ValueError for other encodings."""
  with open_for_reading(path) as file:
    try:
      return file.read().decode()
    except UnicodeDecodeError as error:
      raise UserError(f"{path} is not UTF-8: {error}") from error
