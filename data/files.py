"""Text files in, whole files out: globs, lines, and writing that is atomic.

Local paths need no TensorFlow. Paths with a scheme ("gs://...") go through
tf.io.gfile, which is imported the first time one is met. Lines may lie in .gz
and .zst files, too.
"""

import functools
import glob
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import BinaryIO

from data import streams

# What has no line break for so many bytes is not text.
LONGEST_LINE = 1 << 28


def is_remote(path: str) -> bool:
  """Whether a path has a scheme, as in gs://bucket/file."""
  return "://" in path


def _gfile():
  from tensorflow.io import gfile  # noqa: PLC0415, seconds to import

  return gfile


def expand(patterns: str) -> list[str]:
  """Lists the files that comma-separated glob patterns stand for.

  Args:
    patterns: such as "news/*.txt,book.txt"; blanks around commas are dropped.

  Returns:
    Paths, sorted within each pattern, the patterns in the given order.

  Raises:
    FileNotFoundError: naming every pattern that matches nothing (the original
      drops those silently).
  """
  wanted = [pattern.strip() for pattern in patterns.split(",")]
  found = {pattern: matches(pattern) for pattern in wanted if pattern}
  missing = [pattern for pattern, paths in found.items() if not paths]
  if missing or not found:
    raise FileNotFoundError(
      f"no file matches {', '.join(missing) or repr(patterns)}; check the "
      "spelling, and quote patterns so that the shell leaves them alone"
    )
  return [path for pattern in wanted for path in found.get(pattern, ())]


def matches(pattern: str) -> list[str]:
  """Lists the files that one pattern stands for, sorted; perhaps none."""
  if is_remote(pattern):
    return sorted(_gfile().glob(pattern))
  if os.path.exists(pattern):  # also names that hold a "[" or a "*"
    return [pattern]
  # Hidden files match too, as in tf.io.gfile.
  return sorted(glob.glob(pattern, include_hidden=True))


def exists(path: str) -> bool:
  """Whether something of this name is there."""
  return _gfile().exists(path) if is_remote(path) else os.path.exists(path)


def rename(path: str, name: str) -> None:
  """Gives a file another name; one that has it is replaced."""
  if is_remote(path):
    _gfile().rename(path, name, overwrite=True)
  else:
    os.replace(path, name)


def remove(path: str) -> None:
  """Removes a file."""
  if is_remote(path):
    _gfile().remove(path)
  else:
    os.remove(path)


def remove_folder(path: str) -> None:
  """Removes a folder, if it is there, and all that is in it."""
  if not exists(path):
    return
  if is_remote(path):
    _gfile().rmtree(path)
  else:
    shutil.rmtree(path)


def size(path: str) -> int:
  """Bytes of a file."""
  return (
    _gfile().stat(path).length if is_remote(path) else os.stat(path).st_size
  )


def modified(path: str) -> int:
  """When a file was written last, in nanoseconds."""
  if is_remote(path):
    return _gfile().stat(path).mtime_nsec
  return os.stat(path).st_mtime_ns


def open_for_reading(path: str) -> BinaryIO:
  """Opens a file as bytes.

  Raises:
    OSError: the file is missing, unreadable or a directory; it says which.
  """
  if not is_remote(path):
    try:
      return open(path, "rb")
    except OSError as error:
      raise type(error)(f"cannot read {path}: {error.strerror}") from error
  try:
    file = _gfile().GFile(path, "rb")
    file.size()  # GFile opens at the first use only
    return file
  except Exception as error:
    raise OSError(f"cannot read {path}: {error}") from error


def lines(path: str, start: int = 0, end: int | None = None) -> Iterator[str]:
  r"""Reads the lines of a UTF-8 text, or of a part of it.

  As tf.gfile reads them: a line ends at "\n" and nowhere else, every "\r" is
  dropped, also one in the middle of a line, and a byte order mark stays.

  Args:
    path: a text file, perhaps a compressed one.
    start: byte at which a line begins; 0 in a compressed file.
    end: byte at which a later line begins; None reads to the end of the file.

  Yields:
    Lines without their "\n".

  Raises:
    OSError: the file cannot be read.
    ValueError: a line is not UTF-8, or endless, or cannot be decompressed;
      names file, line number and byte.
  """
  position = start
  with _open_text(path, start) as file:
    for raw in iter(functools.partial(file.readline, LONGEST_LINE), b""):
      if end is not None and position >= end:
        return
      if len(raw) == LONGEST_LINE:
        raise ValueError(
          f"{path}, line {line_number(path, position)}: no line break in "
          f"{LONGEST_LINE:,} bytes; this is no text, or one to be broken into "
          "lines first"
        )
      try:
        line = raw.decode()
      except UnicodeDecodeError as error:
        culprit = raw[error.start]
        raise _not_utf8(path, position + error.start, culprit) from error
      position += len(raw)
      line = line.replace("\r", "")
      if line:  # a last line of nothing but "\r" is no line
        yield line.removesuffix("\n")


@contextmanager
def _open_text(path: str, start: int = 0) -> Iterator[BinaryIO]:
  with open_for_reading(path) as file:
    if start:
      file.seek(start)
    if is_remote(path) or streams.is_compressed(path):
      file = streams.buffered(path, file)
    yield file


def line_number(path: str, offset: int) -> int:
  """The number, from 1, of the line that a byte of a text is in."""
  number, unread = 1, offset
  with _open_text(path) as file:
    while unread > 0 and (block := file.read(min(unread, 1 << 20))):
      number += block.count(b"\n")
      unread -= len(block)
  return number


def _not_utf8(path: str, offset: int, culprit: int) -> ValueError:
  return ValueError(
    f"{path}, line {line_number(path, offset)}: byte {offset} of the file "
    f"(0x{culprit:02x}) is not UTF-8; if it is text at all, convert the file "
    "first, for example with `iconv -f LATIN1 -t UTF-8`"
  )


def refuse_to_overwrite(*paths: str) -> None:
  """Raises FileExistsError if any of the paths is there already."""
  present = [path for path in paths if exists(path)]
  if present:
    raise FileExistsError(
      f"{', '.join(present)} exists already; remove it, choose another name, "
      "or give --overwrite"
    )


def require_apart(inputs: Sequence[str], *outputs: str) -> None:
  """Raises ValueError if a file is to be read and to be written."""
  read = {os.path.realpath(path) for path in inputs}
  for path in outputs:
    if os.path.realpath(path) in read:
      raise ValueError(f"{path} is an input, too: choose another output")


@contextmanager
def open_for_writing(path: str) -> Iterator[BinaryIO]:
  """Opens a file as bytes that appears under its name only when complete.

  It is written beside its place and renamed at the end; an error on the way
  leaves nothing behind, and what was there before stays. Missing directories
  are made.
  """
  partial = f"{path}.partial-{os.getpid()}"
  try:
    with _open_new(partial) as file:
      yield file
    rename(partial, path)
  except BaseException:
    if exists(partial):
      remove(partial)
    raise


def _open_new(path: str) -> BinaryIO:
  folder = os.path.dirname(path)
  if is_remote(path):
    _gfile().makedirs(folder)
    return _gfile().GFile(path, "wb")
  if folder:
    os.makedirs(folder, exist_ok=True)
  return open(path, "wb")
