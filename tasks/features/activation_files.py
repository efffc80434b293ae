"""Files of activations: the original's JSON lines, and .npz for arrays.

Both are written while results arrive, and renamed when complete. An .npz holds,
for N lines of M tokens together:

  layers     [L] the requested layers
  values     [M, L, H] float32, the tokens of all lines, concatenated
  input_ids  [M] their ids
  offsets    [N + 1] line i has values[offsets[i] : offsets[i + 1]]

or, with one vector per line:

  layers     [L]
  vectors    [N, L, H] float32

Legend: T tokens of a line, L layers, H hidden.
"""

import json
import os
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from typing import BinaryIO

import numpy as np

from storage import files
from tasks.features.examples import Line

# A line and its activations, [T, L, H], or [L, H] for one vector per line.
Result = tuple[Line, np.ndarray]


def layer_indexes(text: str) -> list[int]:
  """Parses --layers.

  Raises:
    ValueError: an index is not a number.
  """
  try:
    return [int(number) for number in text.split(",")]
  except ValueError:
    raise ValueError(
      f"--layers={text}: give numbers with commas between them, as in -1,-2"
    ) from None


def write_json(
  path: str,
  results: Iterable[Result],
  layers: Sequence[int],
  tokens: Callable[[Sequence[int]], list[str]],
) -> None:
  """Writes a JSON object per line, as the original does.

  `tokens` maps ids to tokens.
  """
  with files.open_for_writing(path) as file:
    for line, values in results:
      # The same digits as Python's round: a float32 times 10^6 is exact here.
      rounded = np.round(values.astype(np.float64), 6).tolist()
      record = {"linex_index": line.number}  # the original's spelling
      if values.ndim == 2:
        record["layers"] = _layers(rounded, layers)
      else:
        record["features"] = [
          {"token": token, "layers": _layers(vectors, layers)}
          for token, vectors in zip(tokens(line.ids), rounded, strict=True)
        ]
      file.write(json.dumps(record).encode() + b"\n")


def _layers(vectors, layers):
  return [
    {"index": index, "values": values}
    for index, values in zip(layers, vectors, strict=True)
  ]


def write_npz(
  path: str, results: Iterable[Result], layers: Sequence[int]
) -> None:
  """Writes the arrays described above; see `write_json`."""
  with files.open_for_writing(path) as file, ExitStack() as stack:
    # numpy.savez needs complete arrays in memory. Here, each grows in a
    # temporary file, in the folder of the output if that is local.
    folder = None if files.is_remote(path) else os.path.dirname(path) or "."
    arrays = {}

    def append(name, rows):
      if name not in arrays:
        spool = stack.enter_context(tempfile.TemporaryFile(dir=folder))
        arrays[name] = _GrowingArray(spool, rows)
      arrays[name].append(rows)

    append("layers", np.array(layers, np.int32))
    end = 0
    for line, values in results:
      if values.ndim == 2:
        append("vectors", values[None])
        continue
      if not end:
        append("offsets", np.zeros(1, np.int64))
      end += len(values)
      append("values", values)
      append("input_ids", np.array(line.ids, np.int32))
      append("offsets", np.array([end], np.int64))
    _zip(file, arrays)


class _GrowingArray:
  """Array on disk; rows have the shape and type of those of `example`."""

  def __init__(self, spool: BinaryIO, example: np.ndarray):
    self._spool = spool
    self._shape, self._dtype = example.shape[1:], example.dtype
    self._rows = 0

  def append(self, rows: np.ndarray) -> None:
    self._spool.write(rows.tobytes())
    self._rows += len(rows)

  def copy_to(self, file: BinaryIO) -> None:
    """Writes an .npy file."""
    header = {
      "descr": np.lib.format.dtype_to_descr(self._dtype),
      "fortran_order": False,
      "shape": (self._rows, *self._shape),
    }
    np.lib.format.write_array_header_1_0(file, header)
    self._spool.seek(0)
    shutil.copyfileobj(self._spool, file, 1 << 20)


def _zip(file, arrays):
  with zipfile.ZipFile(_Unseekable(file), "w") as archive:
    for name, array in arrays.items():
      entry = zipfile.ZipInfo(f"{name}.npy")  # no date: equal bytes every time
      with archive.open(entry, "w", force_zip64=True) as member:
        array.copy_to(member)


class _Unseekable:
  """Write-only file: remote files cannot seek, as zipfile otherwise does."""

  def __init__(self, file: BinaryIO):
    self.write = file.write
    self.flush = file.flush
