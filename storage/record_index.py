"""Byte offsets of records in TFRecord files, for reading from any position.

Files are divided into blocks of consecutive records. The offsets come from one
pass over the lengths of the records, and can be cached in a file.
"""

import io
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from storage import files

BLOCK = 256  # records of a block; the last block of a file may have fewer
_PIECE = 1 << 20


@dataclass(frozen=True)
class Index:
  """The N blocks of some files, in order.

  Attributes:
    paths: the files.
    file: [N] int64, index of a block's file in `paths`.
    offset: [N] int64, byte of the file at which a block begins.
    count: [N] int64, number of records of a block.
  """

  paths: tuple[str, ...]
  file: np.ndarray
  offset: np.ndarray
  count: np.ndarray

  @property
  def records(self) -> int:
    """Number of records in all files."""
    return int(self.count.sum())


def load(paths: Sequence[str], cache: str | None = None) -> Index:
  """Indexes the blocks of TFRecord files.

  Args:
    paths: the files.
    cache: file that keeps the result for files whose size and time have not
      changed; None reads all files.

  Raises:
    ValueError: a file does not consist of records, or has none.
  """
  known = _read(cache) if cache else {}
  states = {path: _state(path) for path in paths}
  result = {
    path: known[path, state] if (path, state) in known else _blocks(path)
    for path, state in states.items()
  }
  if cache and any((path, states[path]) not in known for path in paths):
    _write(cache, states, result)
  blocks = [result[path] for path in paths]
  return Index(
    tuple(paths),
    np.repeat(np.arange(len(paths)), [len(offsets) for offsets, _ in blocks]),
    np.concatenate([offsets for offsets, _ in blocks]),
    np.concatenate([_counts(*file_blocks) for file_blocks in blocks]),
  )


def count(path: str) -> int:
  """Number of records in a file."""
  return _blocks(path)[1]


def _state(path) -> str:
  return f"{files.size(path)} {files.mtime(path)}"


def _counts(offsets, total) -> np.ndarray:
  counts = np.full(len(offsets), BLOCK)
  counts[-1] = total - BLOCK * (len(offsets) - 1)
  return counts


def _blocks(path) -> tuple[np.ndarray, int]:
  """Offsets of a file's blocks, and the number of its records."""
  offsets, number, begin, buffer = [], 0, 0, b""
  size = files.size(path)
  with files.open_for_reading(path) as file:
    while piece := file.read(_PIECE):
      buffer += piece
      start = 0
      while start + 8 <= len(buffer):
        length = int.from_bytes(buffer[start : start + 8], "little")
        end = start + 16 + length  # length, its checksum, data, its checksum
        if begin + end > size:
          raise _truncated(path, number)
        if end > len(buffer):
          break
        if number % BLOCK == 0:
          offsets.append(begin + start)
        start, number = end, number + 1
      begin += start
      buffer = buffer[start:]
  if buffer:
    raise _truncated(path, number)
  if not number:
    raise ValueError(f"{path} holds no record")
  return np.array(offsets, np.int64), number


def _truncated(path, number):
  return ValueError(
    f"{path}, record {number}: the file ends within it, or its length is "
    "wrong. Make the file anew, or go on without such records by "
    "--max_corrupt_records"
  )


def _read(cache) -> dict[tuple[str, str], tuple[np.ndarray, int]]:
  """Blocks by path and state, from the cache; {} if it cannot be read."""
  if not files.exists(cache):
    return {}
  try:
    with files.open_for_reading(cache) as file, np.load(file) as stored:
      names, states, totals = (stored[k] for k in ("path", "state", "total"))
      ends = np.cumsum(-(-totals // BLOCK))
      offsets = np.split(stored["offset"], ends[:-1])
  except Exception:  # NumPy and zipfile raise many types
    return {}
  rows = zip(names, states, offsets, totals, strict=True)
  return {
    (str(name), str(state)): (file_offsets, int(total))
    for name, state, file_offsets, total in rows
  }


def _write(cache, states, result) -> None:
  content = io.BytesIO()  # np.savez seeks, which remote files cannot
  np.savez(
    content,
    path=np.array(list(states)),
    state=np.array(list(states.values())),
    total=np.array([total for _, total in result.values()]),
    offset=np.concatenate([offsets for offsets, _ in result.values()]),
  )
  with files.open_for_writing(cache) as file:
    file.write(content.getvalue())
