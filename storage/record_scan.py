"""TFRecord files scanned: offsets of records, the first one, corrupt ones.

TensorFlow stops at a corrupt record without naming it; `scan` finds it.
"""

import io
import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from absl import logging

from storage import UserError, files, tfrecord
from storage.tfrecord import Schema

BLOCK = 256  # records of a block; the last block of a file may have fewer
_PIECE = 1 << 20  # bytes read at once
_MAKE_AGAIN = "Make the file again"
_REMEDY = f"{_MAKE_AGAIN}; run_pretraining.py --max_corrupt_records=N skips it"
_NO_EXAMPLE = "it is no tf.train.Example"
_WRONG_LENGTH = "its length is wrong, so no record after it can be found"

# --- Offsets ---------------------------------------------------------------


@dataclass(frozen=True)
class Index:
  """The N blocks of consecutive records of some files, in order."""

  paths: tuple[str, ...]
  file: np.ndarray  # [N] int64, index of a block's file in `paths`
  offset: np.ndarray  # [N] int64, byte of the file at which a block begins
  count: np.ndarray  # [N] int64, number of records of a block

  @property
  def records(self) -> int:
    return int(self.count.sum())


def load_index(paths: Sequence[str], cache: str | None = None) -> Index:
  """Indexes the blocks of TFRecord files; ValueError if one is truncated.

  The file `cache` keeps results for unchanged files.
  """
  keys = {p: f"{p!a} {files.size(p)} {files.mtime(p)}" for p in paths}
  known = _read_cache(cache) if cache else {}
  offsets = {
    key: known[key] if key in known else _offsets(path)
    for path, key in keys.items()
  }
  if cache and not known.keys() >= offsets.keys():
    content = io.BytesIO()  # np.savez seeks, which remote files cannot
    np.savez(content, allow_pickle=False, **offsets)
    with files.open_for_writing(cache) as file:
      file.write(content.getvalue())
  columns = [offsets[keys[path]] for path in paths]
  counts = [np.minimum(n - np.arange(0, n, BLOCK), BLOCK) for *_, n in columns]
  return Index(
    tuple(paths),
    np.repeat(np.arange(len(paths)), [*map(len, counts)]),
    np.concatenate([column[:-1] for column in columns]),
    np.concatenate(counts),
  )


def _offsets(path) -> np.ndarray:
  """Offsets of a file's n blocks, then the number of its records, [n + 1]."""
  offsets, number, end = [], 0, 0
  size = files.size(path)
  with files.open_for_reading(path) as file:
    while end < size:
      file.seek(end)
      piece, start = file.read(_PIECE), 0
      while not start or start + 8 <= len(piece):
        if number % BLOCK == 0:
          offsets.append(end + start)
        # Length, its checksum, data, its checksum.
        start += 16 + int.from_bytes(piece[start : start + 8], "little")
        if end + start > size:
          raise UserError(first_corrupt([path], None))
        number += 1
      end += start
  return np.array([*offsets, number], np.int64)


def _read_cache(cache) -> dict[str, np.ndarray]:
  """Results of `_offsets` by path, size and time; {} if it cannot be read."""
  try:
    with files.open_for_reading(cache) as file, np.load(file) as stored:
      return dict(stored)
  except Exception:  # none yet, or corrupt: NumPy and zipfile raise many types
    return {}


# --- Contents -------------------------------------------------------


class ScannedRecord(NamedTuple):
  """A serialized record of a file, or the description of its error."""

  data: bytes | None
  error: str | None = None


def scan(path: str, schema: Schema | None = None) -> Iterator[ScannedRecord]:
  """Reads records of a TFRecord file up to the first whose end is unknown.

  Yields intact and corrupt ones. Without a schema any content will do.
  """
  left = files.size(path)
  with files.open_for_reading(path) as file:
    while head := file.read(12):
      length, checksum = head[:8], head[8:]
      if left >= 12 and tfrecord.masked_crc32c(length) != checksum:
        yield ScannedRecord(None, _WRONG_LENGTH)
        return
      size = int.from_bytes(length, "little")
      left -= size + 16
      if left < 0:
        yield ScannedRecord(None, "the file ends within it")
        return
      data = file.read(size)
      checksum = file.read(4)
      error = None
      if len(data) < 4:  # any field takes more
        error = "it is empty"
      elif tfrecord.masked_crc32c(data) != checksum:
        error = "its checksum is wrong"
      elif schema is not None:
        error = _content_error(data, schema)
      yield ScannedRecord(None if error else data, error)


def _content_error(data, schema) -> str | None:
  import tensorflow as tf  # noqa: PLC0415, takes seconds

  try:
    fields = tf.train.Example.FromString(data).features.feature
  except Exception:  # protobuf's DecodeError is not public in every version
    return _NO_EXAMPLE
  for feature in schema.values():
    kind = "float_list" if feature.dtype == "float32" else "int64_list"
    number = len(getattr(fields[feature.name], kind).value)
    if number != feature.size:
      return f"{feature.name} has {number} values, expected {feature.size}"
  return None


def first_record(path: str, skip_corrupt: bool = False) -> dict[str, list]:
  """Fields of a file's first, or first intact, record; not by TensorFlow."""
  first = next(scan(path), None)
  if not first:
    raise UserError(f"{path} holds no record: leave it out")
  if skip_corrupt:
    first = next((r for r in scan(path) if r.data is not None), first)
  error = first.error
  if first.data is not None:
    try:
      return tfrecord.parse_example(first.data)
    except tfrecord.PARSE_ERRORS:
      error = _NO_EXAMPLE
  raise UserError(
    f"{path} is no file of records (the first: {error}); expected a TFRecord "
    "file of tf.train.Examples, as the programs here write them"
  )


def check_record(
  path: str, record: dict[str, list], schema: Schema, limits: Mapping[str, int]
) -> None:
  """Raises ValueError for fields unlike the schema, or beyond [0, limit)."""
  for name in schema:
    if not record.get(name):
      raise UserError(
        f"{path}: a record has no field {name}; it holds "
        f"{', '.join(sorted(record)) or 'nothing'}"
      )
  for name, feature in schema.items():
    values = record[name]
    if len(values) != feature.size:
      raise UserError(
        f"{path}: {name} has {len(values)} values in a record, expected "
        f"{feature.size}: the file was made with other flags "
        "(--max_seq_length, --max_predictions_per_seq)"
      )
    low, high = min(values), max(values)
    if name in limits and not 0 <= low <= high < limits[name]:
      raise UserError(
        f"{path}: {name} goes from {low} to {high}, the model takes 0 to "
        f"{limits[name] - 1}: the file was made with a vocabulary or flags "
        "that do not belong to this bert_config.json"
      )


def _errors(paths, schema) -> Iterator[tuple[str, str, str]]:
  """Path, error with the number from 0, and remedy of each corrupt record."""
  for path in paths:
    for number, record in enumerate(scan(path, schema)):
      if record.error:
        remedy = _MAKE_AGAIN if record.error == _WRONG_LENGTH else _REMEDY
        yield path, f"{path}, record {number}: {record.error}", remedy


def first_corrupt(paths: Sequence[str], schema: Schema | None) -> str | None:
  """Describes the first corrupt record of files; None if all are intact."""
  for _, error, remedy in _errors(paths, schema):
    return f"{error}. {remedy}"
  return None


def drop_corrupt(
  paths: Sequence[str], schema: Schema, folder: str, at_most: int
) -> list[str]:
  """Copies files that have corrupt records, without these, to a folder.

  Returns all paths. Raises ValueError if more than `at_most` records are
  corrupt, a file has no intact one, or a wrong length would drop all after it.
  """
  errors = list(_errors(paths, schema))
  for _, error, remedy in errors:
    if remedy == _MAKE_AGAIN:
      raise UserError(f"{error}. {remedy}")
  if len(errors) > at_most:
    _, first, _ = errors[0]
    raise UserError(
      f"{len(errors)} records cannot be read, --max_corrupt_records tolerates "
      f"{at_most}; the first is {first}"
    )
  copies = {}
  for path, error, _ in errors:
    logging.warning("left out: %s", error)
    # A name may be in several folders.
    key = zlib.crc32(files.absolute(path).encode())
    name = f"repaired-{key:08x}-{os.path.basename(path)}"
    copies[path] = os.path.join(folder, name)
  for path, copy in copies.items():
    records = (record.data for record in scan(path, schema) if record.data)
    with files.open_for_writing(copy) as file:
      if not tfrecord.write(file, records):
        raise UserError(f"{path} has no record that can be read")
  return [copies.get(path, path) for path in paths]
