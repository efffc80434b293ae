"""Where the records of TFRecord files lie: what reading from anywhere takes.

Files are divided into blocks of records that follow each other. To find them
every file is gone through once, its lengths only; the result can be kept.
"""

import io
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from data import files

BLOCK = 256  # records of a block; the last one of a file may have fewer
_PIECE = 1 << 20


@dataclass(frozen=True)
class Index:
  """Blocks in the order of the files; N blocks.

  Attributes:
    paths: the files.
    file: [N] int64, which of them a block is in.
    offset: [N] int64, the byte of the file it begins at.
    count: [N] int64, its records.
  """

  paths: tuple[str, ...]
  file: np.ndarray
  offset: np.ndarray
  count: np.ndarray

  @property
  def records(self) -> int:
    """How many there are in all files."""
    return int(self.count.sum())


def load(paths: Sequence[str], kept: str | None = None) -> Index:
  """Finds the blocks of files.

  Args:
    paths: TFRecord files.
    kept: a file where what was found is kept, for files that have not changed
      since, by their size and time. None goes through all files.

  Returns:
    Their Index.

  Raises:
    ValueError: a file does not consist of records, or has none.
  """
  known = _read(kept) if kept else {}
  states = {path: _state(path) for path in paths}
  found = {
    path: known[path, state] if (path, state) in known else _blocks(path)
    for path, state in states.items()
  }
  if kept and any((path, states[path]) not in known for path in paths):
    _write(kept, states, found)
  blocks = [found[path] for path in paths]
  return Index(
    tuple(paths),
    np.repeat(np.arange(len(paths)), [len(offsets) for offsets, _ in blocks]),
    np.concatenate([offsets for offsets, _ in blocks]),
    np.concatenate([_counts(*one) for one in blocks]),
  )


def count(path: str) -> int:
  """Number of records in a file, from the lengths alone."""
  return _blocks(path)[1]


def _state(path) -> str:
  return f"{files.size(path)} {files.modified(path)}"


def _counts(offsets, total) -> np.ndarray:
  counts = np.full(len(offsets), BLOCK)
  counts[-1] = total - BLOCK * (len(offsets) - 1)
  return counts


def _blocks(path) -> tuple[np.ndarray, int]:
  """Where blocks begin, and the number of records."""
  offsets, number, begin, held = [], 0, 0, b""
  size = files.size(path)
  with files.open_for_reading(path) as file:
    while piece := file.read(_PIECE):
      held += piece
      place = 0
      while place + 8 <= len(held):
        length = int.from_bytes(held[place : place + 8], "little")
        end = place + 16 + length  # length, its checksum, data, its checksum
        if begin + end > size:
          raise _not_whole(path, number)
        if end > len(held):
          break
        if number % BLOCK == 0:
          offsets.append(begin + place)
        place, number = end, number + 1
      begin += place
      held = held[place:]
  if held:
    raise _not_whole(path, number)
  if not number:
    raise ValueError(f"{path} holds no record")
  return np.array(offsets, np.int64), number


def _not_whole(path, number):
  return ValueError(
    f"{path}, record {number}: the file ends within it, or its length is "
    "wrong. Make the file anew, or go on without such records by "
    "--skip_bad_records"
  )


def _read(kept) -> dict[tuple[str, str], tuple[np.ndarray, int]]:
  """What an earlier run has found; nothing if it cannot be read."""
  if not files.exists(kept):
    return {}
  try:
    with files.open_for_reading(kept) as file, np.load(file) as stored:
      names, states, totals = (stored[k] for k in ("path", "state", "total"))
      ends = np.cumsum(-(-totals // BLOCK))
      offsets = np.split(stored["offset"], ends[:-1])
  except Exception:  # NumPy and zipfile have many ways to say so
    return {}
  rows = zip(names, states, offsets, totals, strict=True)
  return {
    (str(name), str(state)): (places, int(total))
    for name, state, places, total in rows
  }


def _write(kept, states, found) -> None:
  content = io.BytesIO()  # since a remote file cannot be written to anywhere
  np.savez(
    content,
    path=np.array(list(states)),
    state=np.array(list(states.values())),
    total=np.array([total for _, total in found.values()]),
    offset=np.concatenate([offsets for offsets, _ in found.values()]),
  )
  with files.open_for_writing(kept) as file:
    file.write(content.getvalue())
