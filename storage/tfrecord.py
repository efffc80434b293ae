"""Writes TFRecord files and parses tf.train.Examples without TensorFlow.

Programs that only prepare data start sooner without TensorFlow, and serialize
records faster than with protocol buffers.
"""

import json
import math
import os
import shutil
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, BinaryIO

import google_crc32c
from absl import logging

from storage import files

# --- Schemas ---------------------------------------------------------------


@dataclass(frozen=True)
class Feature:
  """A field of a record: a dense array of fixed shape."""

  name: str  # key in the tf.train.Example
  shape: tuple[int, ...]  # of one record's value
  dtype: str = "int64"  # or "float32"

  @property
  def size(self) -> int:
    return math.prod(self.shape)


class Schema(dict):
  """The fields of a record by name, in the order of writing."""

  def __init__(self, *features: Feature):
    super().__init__((feature.name, feature) for feature in features)


# --- tf.train.Example ------------------------------------------------------


class _Varints(dict):
  """Cache of integers encoded as base-128 varints."""

  def __missing__(self, value: int) -> bytes:
    if not -(1 << 63) <= value < 1 << 63:
      raise ValueError(f"{value} does not fit into int64")
    rest = value % (1 << 64)  # a negative number takes ten bytes
    encoded = bytearray()
    while rest > 127:
      encoded.append(rest & 127 | 128)
      rest >>= 7
    encoded.append(rest)
    if 0 <= value < 1 << 20:  # caches ids and lengths, not any number
      self[value] = bytes(encoded)
    return bytes(encoded)


_varint = _Varints().__getitem__


def _int64s(values: Sequence[int]) -> bytes:
  try:
    short = bytes(values)
    if short.isascii():  # numbers under 128 are one byte each
      return short
  except ValueError:
    pass
  return b"".join(map(_varint, values))


def encode_field(number: int, content: bytes) -> bytes:
  return bytes((number << 3 | 2,)) + _varint(len(content)) + content


def _feature_encoder(feature: Feature) -> Callable[[Sequence], bytes]:
  """Makes a function that encodes values as an entry of Features.feature."""
  is_float = feature.dtype == "float32"
  kind = 2 if is_float else 3  # float_list, int64_list
  key = encode_field(1, feature.name.encode())

  # Most features have only a few different lengths in bytes.
  @cache
  def head(length: int) -> bytes:
    content = bytes(length)
    values = encode_field(kind, encode_field(1, content))
    entry = encode_field(1, key + encode_field(2, values))
    return entry.removesuffix(content)

  def encode(values: Sequence) -> bytes:
    if is_float:
      packed = struct.pack(f"<{len(values)}f", *values)
    else:
      packed = _int64s(values)
    return head(len(packed)) + packed

  return encode


class ExampleEncoder:
  """Serializes the fields of a record, flat sequences, as a tf.train.Example.

  Raises ValueError for a missing or unknown field, a wrong length or type.
  """

  def __init__(self, schema: Schema):
    self._schema = schema
    features = schema.values()
    self._features = [(f.name, f.size, _feature_encoder(f)) for f in features]

  def __call__(self, fields: Mapping[str, Sequence[float]]) -> bytes:
    if fields.keys() != self._schema.keys():
      expected = [*self._schema]
      raise ValueError(f"the record has the fields {[*fields]}, not {expected}")
    entries = []
    for name, size, encode in self._features:
      values = fields[name]
      if len(values) != size:
        raise ValueError(f"{name}: expected {size} values, got {len(values)}")
      if hasattr(values, "tolist"):  # an array
        values = values.tolist()
      try:
        entries.append(encode(values))
      except (TypeError, ValueError, struct.error, OverflowError) as error:
        raise ValueError(f"{name}: {error}") from error
    return encode_field(1, b"".join(entries))


# --- Parsing -----------------------------------------------------------------

# Fields of each message that TensorFlow writes, numbered from 1. "*" marks a
# repeated field.
_MESSAGES = {
  # tf.train.Example; Entry is an entry of the map Features.feature.
  "BytesList": ["bytes value*"],
  "FloatList": ["float value*"],
  "Int64List": ["int64 value*"],
  "Feature": ["BytesList bytes", "FloatList floats", "Int64List int64s"],
  "Entry": ["string name", "Feature feature"],
  "Features": ["Entry entries*"],
  "Example": ["Features features"],
  # A tensor in the index of a checkpoint.
  "Dim": ["int64 size"],
  "Shape": ["int64 unused", "Dim dim*"],
  "BundleEntryProto": ["int64 dtype", "Shape shape"],
}


@cache
def _message_classes() -> tuple[dict[str, Any], type[Exception]]:
  """Classes of _MESSAGES, and the exception for bytes that do not parse."""
  # Programs that only write records start sooner without this import.
  from google.protobuf import (  # noqa: PLC0415
    descriptor_pb2,
    descriptor_pool,
    message,
    message_factory,
  )

  file = descriptor_pb2.FileDescriptorProto(name="messages", syntax="proto3")
  kinds = descriptor_pb2.FieldDescriptorProto.Type
  for name, fields in _MESSAGES.items():
    descriptor = file.message_type.add(name=name)
    for number, field in enumerate(fields, 1):
      kind, field_name = field.split()
      added = descriptor.field.add(name=field_name.rstrip("*"), number=number)
      added.label = 3 if field.endswith("*") else 1  # repeated, optional
      if kind in _MESSAGES:
        added.type_name = kind
      else:
        added.type = kinds.Value(f"TYPE_{kind.upper()}")
  # Not the default pool, where TensorFlow defines the same names.
  pool = descriptor_pool.DescriptorPool()
  pool.Add(file)
  classes = message_factory.GetMessageClassesForFiles(["messages"], pool)
  return classes, message.DecodeError


def parse(kind: str, data: bytes) -> Any:
  """Parses bytes as a message of _MESSAGES; ValueError for other bytes."""
  classes, decode_error = _message_classes()
  try:
    return classes[kind].FromString(data)
  except decode_error as error:
    raise ValueError(f"it is not a {kind}") from error


def features(data: bytes) -> dict:
  """Returns a serialized Example's `Feature`s by name; may raise ValueError."""
  entries = parse("Example", data).features.entries
  return {entry.name: entry.feature for entry in entries}


def parse_example(data: bytes) -> dict[str, list]:
  return {
    name: [*lists.bytes.value, *lists.floats.value, *lists.int64s.value]
    for name, lists in features(data).items()
  }


# --- Files -----------------------------------------------------------------

BLOCK = 256  # records of a block; the last block of a file may have fewer
_END_BYTES = 4096  # hashed by `identity` at each end of a file


def masked_crc32c(data: bytes) -> bytes:
  crc = google_crc32c.value(data)
  masked = (crc >> 15 | crc << 17) + 0xA282EAD8
  return struct.pack("<I", masked & 0xFFFFFFFF)


def frame(record: bytes) -> bytes:
  """A serialized record with length and checksums, as in a TFRecord file."""
  length = struct.pack("<Q", len(record))
  parts = length, masked_crc32c(length), record, masked_crc32c(record)
  return b"".join(parts)


class RecordFile:
  """A TFRecord file that is being written; see `create`."""

  def __init__(self, file: BinaryIO):
    self._file, self._size = file, 0
    self.records = 0  # number of records so far
    self.blocks: list[int] = []  # byte at which each block begins

  def write(self, records: Iterable[bytes]) -> int:
    before = self.records
    for record in records:
      framed = frame(record)
      self._file.write(framed)
      self._count(len(framed))
    return self.records - before

  def append(self, frames: BinaryIO, sizes: Iterable[int]) -> None:
    """Appends a file of frames; `sizes` has the size of each frame in bytes."""
    shutil.copyfileobj(frames, self._file)
    for size in sizes:
      self._count(size)

  def _count(self, size):
    if self.records % BLOCK == 0:
      self.blocks.append(self._size)
    self.records += 1
    self._size += size


@contextmanager
def create(path: str, vocabulary: str | None = None) -> Iterator[RecordFile]:
  """Opens a TFRecord file to write. The complete file appears, then its index.

  With the index, record_scan.load_index need not scan the file. The index also
  has the fingerprint of `vocabulary`. A file without an index is valid, too.
  """
  with files.open_for_writing(path) as file:
    written = RecordFile(file)
    yield written
  try:
    index = {"records": written.records, "blocks": written.blocks}
    index |= {"vocabulary": vocabulary} if vocabulary else {}
    text = json.dumps(identity(path) | index, separators=(",", ":"))
    files.write_text(index_path(path), text)
  except Exception as error:  # remote files raise more than OSErrors
    logging.warning("%s gets no index: %s", path, error)


def index_path(path: str) -> str:
  """Path of the index of a TFRecord file: a hidden file beside it."""
  path = path if files.is_remote(path) else os.path.realpath(path)
  folder, name = os.path.split(path)
  return os.path.join(folder, f".{name}.blocks")


def identity(path: str) -> dict[str, int]:
  """Identifies a file's content: its size, and a checksum of both ends."""
  size = files.size(path)
  with files.open_for_reading(path) as file:
    ends = file.read(_END_BYTES)
    file.seek(max(0, size - _END_BYTES))
    ends += file.read(_END_BYTES)
  return {"block": BLOCK, "size": size, "ends": google_crc32c.value(ends)}


def save(
  path: str, schema: Schema, rows: Iterable[Mapping[str, Sequence[float]]]
) -> int:
  """Serializes and writes records, see `create`; returns the record count."""
  with create(path) as file:
    return file.write(map(ExampleEncoder(schema), rows))
