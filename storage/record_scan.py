"""Scans TFRecord files: offsets of blocks, first records, corrupt records."""

import io
import json
import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import numpy as np
from absl import logging

from storage import UserError, files, number_of, processes, setting, tfrecord
from storage.tfrecord import BLOCK, Schema

_PIECE = 1 << 20  # bytes read at once
_NO_EXAMPLE = "it is not a tf.train.Example"
_WRONG_LENGTH = "its length is wrong, so no record after it can be found"

# --- Offsets ---------------------------------------------------------------


@dataclass(frozen=True)
class Index:
  """The N blocks of consecutive records in some files, in file order."""

  paths: tuple[str, ...]
  file: np.ndarray  # [N] int64, index of a block's file in `paths`
  offset: np.ndarray  # [N] int64, byte of the file at which a block begins
  count: np.ndarray  # [N] int64, number of records of a block

  @property
  def records(self) -> int:
    return int(self.count.sum())


def load_index(paths: Sequence[str], cache: str | None = None) -> Index:
  """Indexes the blocks of TFRecord files; ValueError for a truncated file.

  A file that another program wrote lacks the index of tfrecord.create, so this
  function scans the file. The file `cache` stores the result, which is valid
  until the size or an end of the scanned file changes (tfrecord.identity).
  """
  known: dict[str, np.ndarray] = {}
  if cache:
    # The cache may be missing or corrupt: NumPy and zipfile raise many types.
    with suppress(Exception), files.open_for_reading(cache) as file:
      known = dict(np.load(file))

  def load(path):
    """Returns a file's key in the cache, or None, and its blocks."""
    blocks, _ = read_index(path)
    if blocks is not None:
      return None, blocks
    key = f"{path!a} {tfrecord.identity(path)}"
    if key in known:
      return key, known[key]
    logging.info("scanning %s: its index is missing or does not fit", path)
    return key, _scan(path)

  loaded = files.in_threads(load, paths)
  foreign = {key: blocks for key, blocks in loaded if key}
  if cache and foreign.keys() - known.keys():
    content = io.BytesIO()  # np.savez seeks; remote files cannot
    np.savez(content, allow_pickle=False, **foreign)
    with files.open_for_writing(cache) as file:
      file.write(content.getvalue())
  columns = [blocks for _, blocks in loaded]
  counts = [np.minimum(n - np.arange(0, n, BLOCK), BLOCK) for *_, n in columns]
  return Index(
    tuple(paths),
    np.repeat(np.arange(len(paths)), [*map(len, counts)]),
    np.concatenate([column[:-1] for column in columns]),
    np.concatenate(counts),
  )


def read_index(path: str) -> tuple[np.ndarray | None, str | None]:
  """Reads an index: the result of `_scan`, and the vocabulary's fingerprint.

  Returns (None, None) for a missing index, or the index of an older file.
  """
  try:
    facts = json.loads(files.read_text(tfrecord.index_path(path)))
    mark, number = facts.pop("vocabulary", None), facts.pop("records")
    blocks = np.array([*facts.pop("blocks"), number], np.int64)
    if facts == tfrecord.identity(path):
      return blocks, mark
  except Exception:  # no file, or corrupt: NumPy and json raise many types
    pass
  return None, None


def _scan(path) -> np.ndarray:
  """Offsets of the n blocks of a file, then its number of records, [n + 1]."""
  offsets, number, end = [], 0, 0
  size = files.size(path)
  with files.open_for_reading(path) as file:
    while end < size:
      file.seek(end)
      piece, start = file.read(_PIECE), 0
      # A piece's first record may be longer than the piece.
      while not start or start + 8 <= len(piece):
        if number % BLOCK == 0:
          offsets.append(end + start)
        # 8 bytes of length, 4 of checksum, the data, 4 of checksum.
        start += 16 + int.from_bytes(piece[start : start + 8], "little")
        if end + start > size:
          raise UserError(first_corrupt([path], None))
        number += 1
      end += start
  return np.array([*offsets, number], np.int64)


# --- Contents -------------------------------------------------------


class ScannedRecord(NamedTuple):
  """A serialized record of a file, or a description of what is wrong."""

  data: bytes | None
  error: str | None = None


def scan(path: str, schema: Schema | None = None) -> Iterator[ScannedRecord]:
  """Yields intact and corrupt records; does not parse them without a schema.

  A record with a wrong length is the last, because the next cannot be found.
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
      data, checksum = file.read(size), file.read(4)
      error = None
      if tfrecord.masked_crc32c(data) != checksum:
        error = "its checksum is wrong"
      elif schema:
        error = _content_error(data, schema)
      yield ScannedRecord(None if error else data, error)


def _content_error(data, schema) -> str | None:
  try:
    entries = tfrecord.parse("Example", data).features.entries
  except ValueError:
    return _NO_EXAMPLE
  lists = {entry.name: entry.feature for entry in entries}
  for name, feature in schema.items():
    kind = "floats" if feature.dtype == "float32" else "int64s"
    number = len(getattr(lists[name], kind).value) if name in lists else 0
    if number != feature.size:
      return f"{name} has {number} values, expected {feature.size}"
  return None


class Head(NamedTuple):
  """The first intact record of a file, and facts of the file's index."""

  path: str
  record: dict[str, list] | None  # the first; None if the file is empty
  vocabulary: str | None  # fingerprint; None if unknown


def read_head(path: str) -> Head:
  _, vocabulary = read_index(path)
  error = None
  for record in scan(path):
    with suppress(ValueError):
      if record.data is not None:
        return Head(path, tfrecord.parse_example(record.data), vocabulary)
    error = error or record.error or _NO_EXAMPLE
  if not error:
    return Head(path, None, vocabulary)
  raise UserError(
    f"{path} is not a file of records (the first: {error}); expected a "
    "TFRecord file of tf.train.Examples, as the programs here write them"
  )


def check_record(
  path: str, record: dict[str, list], schema: Schema, limits: Mapping[str, int]
) -> None:
  """Raises ValueError if a record does not fit the schema or the `limits`."""
  for name, feature in schema.items():
    values = record.get(name, [])
    if len(values) != feature.size:
      raise UserError(
        f"{path}: {name} has {len(values)} values in a record, expected "
        f"{feature.size}: the file was made by another program, or with "
        f"another {setting('max_seq_length')} or "
        f"{setting('max_predictions_per_seq')}"
      )
    low, high = min(values), max(values)
    if name in limits and not 0 <= low <= high < limits[name]:
      raise UserError(
        f"{path}: {name} goes from {low} to {high}, the model takes 0 to "
        f"{limits[name] - 1}: the file was made with a vocabulary or settings "
        "that do not belong to this bert_config.json"
      )


def _errors(path: str, schema: Schema | None) -> Iterator[str]:
  """Yields the errors of a file's corrupt records, counted from 0."""
  for number, record in enumerate(scan(path, schema)):
    if record.error:
      yield f"{path}, record {number}: {record.error}"


def first_corrupt(paths: Sequence[str], schema: Schema | None) -> str | None:
  """Describes the first corrupt record of files; None if all are intact."""
  for error in chain.from_iterable(_errors(path, schema) for path in paths):
    skips = setting("max_corrupt_records", "N")
    remedy = f"in pre-training, {skips} leaves out up to N corrupt records"
    return f"{error}. Make the file again; {remedy}"
  return None


def drop_corrupt(
  paths: Sequence[str], schema: Schema, folder: str, at_most: int
) -> dict[str, str]:
  """Copies the intact records of each file with corrupt records to a folder.

  Workers other than the chief, which call this later, use the chief's copies.
  Returns {path of a corrupt file: path of its copy}. Raises UserError if more
  than `at_most` records are corrupt, or if the length of a record is wrong.
  """
  by_path = {path: [*_errors(path, schema)] for path in paths}
  errors = [*chain.from_iterable(by_path.values())]
  lost = [error for error in errors if error.endswith(_WRONG_LENGTH)]
  if lost or len(errors) > at_most:
    first = [*lost, *errors][0]
    raise UserError(
      f"{number_of(len(errors), 'corrupt record')}, which "
      f"{setting('max_corrupt_records', at_most)} cannot leave out. Make the "
      f"file again: {first}"
    )
  copies = {}
  for path in filter(by_path.__getitem__, paths):
    for error in by_path[path]:
      logging.warning("left out: %s", error)
    # Files in different folders may have the same name.
    key = zlib.crc32(files.absolute(path).encode())
    copies[path] = f"{folder}/repaired-{key:08x}-{os.path.basename(path)}"
    if processes.is_chief() or not files.exists(copies[path]):
      _, vocabulary = read_index(path)
      with tfrecord.create(copies[path], vocabulary) as file:
        file.write(record.data for record in scan(path, schema) if record.data)
  return copies
