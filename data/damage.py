"""TFRecord files that are not whole: which record it is, and what is left.

Reading for training stops at the first record that cannot be read, and does not
say which one that is; this looks for it.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

import tensorflow as tf
from absl import logging

from data import files, tfrecord
from data.features import Schema

_BATCH = 256  # records whose checksums are computed together


class Found(NamedTuple):
  """A record of a file, or what is wrong with it.

  Attributes:
    data: the serialized record; None if it cannot be used.
    fault: what is wrong; None if nothing is.
  """

  data: bytes | None
  fault: str | None


def scan(path: str, schema: Schema) -> Iterator[Found]:
  """Reads all records of a file that there are, good or bad.

  Args:
    path: a TFRecord file.
    schema: what a record should hold.
  """
  frames = _frames(path)
  while batch := list(islice(frames, _BATCH)):
    whole = [frame for frame in batch if frame.fault is None]
    sums = tfrecord.masked_crc32c([frame.data for frame in whole])
    right = dict(zip(map(id, whole), sums, strict=True))
    for frame in batch:
      if frame.fault is not None:
        yield Found(None, frame.fault)
      elif right[id(frame)] != frame.checksum:
        yield Found(None, "its checksum is wrong")
      else:
        fault = _fault(frame.data, schema)
        yield Found(None if fault else frame.data, fault)


class _Frame(NamedTuple):
  data: bytes
  checksum: bytes
  fault: str | None


def _frames(path) -> Iterator[_Frame]:
  """Records as they lie in a file, up to where the next cannot be found."""
  left = files.size(path)
  with files.open_for_reading(path) as file:
    while head := file.read(12):
      length, checksum = head[:8], head[8:]
      if len(head) < 12:
        yield _Frame(b"", b"", "the file ends within it")
        return
      if tfrecord.masked_crc32c([length]) != [checksum]:
        fault = "its length is wrong, so that nothing behind it can be found"
        yield _Frame(b"", b"", fault)
        return
      size = int.from_bytes(length, "little")
      left -= size + 16
      if left < 0:
        yield _Frame(b"", b"", "the file ends within it")
        return
      data, checksum = file.read(size), file.read(4)
      if len(data) < 4:  # fewer than any field has
        yield _Frame(b"", b"", "it is empty")
        continue
      yield _Frame(data, checksum, None)


def _fault(data, schema):
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


def first(paths: Sequence[str], schema: Schema) -> str | None:
  """Says which record is the first that cannot be read.

  Args:
    paths: TFRecord files.
    schema: what a record should hold.

  Returns:
    File, number of the record from 0, what is wrong and what to do; None if
    all is well.
  """
  for path in paths:
    for number, found in enumerate(scan(path, schema)):
      if found.fault:
        return (
          f"{path}, record {number}: {found.fault}. Make the file anew, or go "
          "on without such records by --skip_bad_records"
        )
  return None


def without(
  paths: Sequence[str], schema: Schema, folder: str, at_most: int
) -> list[str]:
  """Leaves bad records out, after looking at all.

  Args:
    paths: TFRecord files.
    schema: what a record should hold.
    folder: where copies of damaged files go, without what is bad.
    at_most: how many bad records are tolerated, over all files.

  Returns:
    The files with copies in the place of damaged ones.

  Raises:
    ValueError: there are more, or nothing is left of a file.
  """
  faults = [
    (path, f"record {number}: {found.fault}")
    for path in paths
    for number, found in enumerate(scan(path, schema))
    if found.fault
  ]
  if len(faults) > at_most:
    raise ValueError(
      f"{len(faults)} records cannot be read, --skip_bad_records tolerates "
      f"{at_most}; the first is {faults[0][0]}, {faults[0][1]}"
    )
  for path, fault in faults:
    logging.warning("left out: %s, %s", path, fault)
  damaged = dict.fromkeys(path for path, _ in faults)
  copies = _copies(damaged, schema, folder)
  return [copies.get(path, path) for path in paths]


def _copies(damaged: Iterable[str], schema, folder) -> dict[str, str]:
  copies = {}
  for number, path in enumerate(damaged):
    name = f"repaired-{number}-{os.path.basename(path)}"
    copies[path] = os.path.join(folder, name)
    good = (found.data for found in scan(path, schema) if found.data)
    with files.open_for_writing(copies[path]) as file:
      if not tfrecord.write(file, good):
        raise ValueError(f"{path} has no record that can be read")
  return copies
