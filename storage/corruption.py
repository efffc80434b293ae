"""Corrupt records of TFRecord files: located, reported, left out.

TensorFlow stops at the first record that it cannot read and does not say which
one that is; this module reads the files again to find it.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

import tensorflow as tf
from absl import logging

from storage import files, tfrecord
from storage.schema import Schema

_BATCH = 256  # records whose checksums are computed together


class ScannedRecord(NamedTuple):
  """A record of a file, or its error.

  Attributes:
    data: the serialized record; None if it is corrupt.
    error: description of the error; None if the record is intact.
  """

  data: bytes | None
  error: str | None


def scan(path: str, schema: Schema) -> Iterator[ScannedRecord]:
  """Reads all records of a TFRecord file, intact and corrupt ones."""
  frames = _frames(path)
  while batch := list(islice(frames, _BATCH)):
    intact = [frame for frame in batch if frame.error is None]
    checksums = iter(tfrecord.masked_crc32c([frame.data for frame in intact]))
    for frame in batch:
      error = frame.error
      if error is None and next(checksums) != frame.checksum:
        error = "its checksum is wrong"
      error = error or _content_error(frame.data, schema)
      yield ScannedRecord(None if error else frame.data, error)


class _Frame(NamedTuple):
  data: bytes
  checksum: bytes
  error: str | None


def _frames(path) -> Iterator[_Frame]:
  """Framed records of a file, up to the first whose end is unknown."""
  left = files.size(path)
  with files.open_for_reading(path) as file:
    while head := file.read(12):
      length, checksum = head[:8], head[8:]
      if len(head) < 12:
        yield _Frame(b"", b"", "the file ends within it")
        return
      if tfrecord.masked_crc32c([length]) != [checksum]:
        error = "its length is wrong, so that nothing behind it can be found"
        yield _Frame(b"", b"", error)
        return
      size = int.from_bytes(length, "little")
      left -= size + 16
      if left < 0:
        yield _Frame(b"", b"", "the file ends within it")
        return
      data, checksum = file.read(size), file.read(4)
      if len(data) < 4:  # any field takes more
        yield _Frame(b"", b"", "it is empty")
        continue
      yield _Frame(data, checksum, None)


def _content_error(data, schema) -> str | None:
  try:
    fields = tf.train.Example.FromString(data).features.feature
  except Exception:  # protobuf's DecodeError is not public in every version
    return "it is no tf.train.Example"
  for feature in schema.values():
    kind = "float_list" if feature.dtype == "float32" else "int64_list"
    number = len(getattr(fields[feature.name], kind).value)
    if number != feature.size:
      return f"{feature.name} has {number} values, expected {feature.size}"
  return None


def first_corrupt(paths: Sequence[str], schema: Schema) -> str | None:
  """Describes the first corrupt record of TFRecord files.

  Returns:
    File, number of the record from 0, error and remedy; None if all records
    are intact.
  """
  for path in paths:
    for number, result in enumerate(scan(path, schema)):
      if result.error:
        return (
          f"{path}, record {number}: {result.error}. Make the file anew, or go "
          "on without such records by --max_corrupt_records"
        )
  return None


def drop_corrupt(
  paths: Sequence[str], schema: Schema, folder: str, at_most: int
) -> list[str]:
  """Copies files that have corrupt records, without these.

  Args:
    paths: TFRecord files.
    schema: schema of the records.
    folder: folder for the copies.
    at_most: limit of the number of corrupt records in all files.

  Returns:
    The paths, with those of the copies instead of the corrupt files.

  Raises:
    ValueError: there are more corrupt records, or all of a file are.
  """
  errors = [
    (path, f"record {number}: {result.error}")
    for path in paths
    for number, result in enumerate(scan(path, schema))
    if result.error
  ]
  if len(errors) > at_most:
    raise ValueError(
      f"{len(errors)} records cannot be read, --max_corrupt_records tolerates "
      f"{at_most}; the first is {errors[0][0]}, {errors[0][1]}"
    )
  for path, error in errors:
    logging.warning("left out: %s, %s", path, error)
  corrupt = dict.fromkeys(path for path, _ in errors)
  copies = _copy_intact(corrupt, schema, folder)
  return [copies.get(path, path) for path in paths]


def _copy_intact(corrupt: Iterable[str], schema, folder) -> dict[str, str]:
  """Writes the intact records of files; returns copies by path."""
  copies = {}
  for number, path in enumerate(corrupt):
    name = f"repaired-{number}-{os.path.basename(path)}"
    copies[path] = os.path.join(folder, name)
    records = (result.data for result in scan(path, schema) if result.data)
    with files.open_for_writing(copies[path]) as file:
      if not tfrecord.write(file, records):
        raise ValueError(f"{path} has no record that can be read")
  return copies
