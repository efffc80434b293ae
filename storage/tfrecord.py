"""Writes TFRecord files and parses tf.train.Examples without TensorFlow.

Programs that only prepare data start sooner without TensorFlow.
"""

import json
import math
import os
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, BinaryIO

import google_crc32c

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
    super().__init__({feature.name: feature for feature in features})


# --- Messages --------------------------------------------------------------

# Protocol buffers of TensorFlow, in the syntax of their .proto files.
_MESSAGES = {
  # tf.train.Example; Entry is an entry of the map Features.feature.
  "BytesList": ["repeated bytes value = 1"],
  "FloatList": ["repeated float value = 1"],
  "Int64List": ["repeated int64 value = 1"],
  "Feature": [
    "optional BytesList bytes = 1",
    "optional FloatList floats = 2",
    "optional Int64List int64s = 3",
  ],
  "Entry": ["optional string name = 1", "optional Feature feature = 2"],
  "Features": ["repeated Entry entries = 1"],
  "Example": ["optional Features features = 1"],
  # A tensor in the index of a checkpoint.
  "Dim": ["optional int64 size = 1"],
  "Shape": ["repeated Dim dim = 2"],
  "BundleEntryProto": ["optional Shape shape = 2"],
  # A request in the log of TensorFlow Serving; Input is an entry of a map.
  "ModelSpec": ["optional string signature_name = 3"],
  "Input": ["optional string name = 1", "optional bytes tensor = 2"],
  "PredictRequest": [
    "optional ModelSpec spec = 1",
    "repeated Input inputs = 2",
  ],
  "PredictLog": ["optional PredictRequest request = 1"],
  "PredictionLog": ["optional PredictLog predict_log = 6"],
}


@cache
def messages() -> dict[str, Any]:
  """Makes the classes of _MESSAGES, by name."""
  # Programs show their help sooner without this import.
  from google.protobuf import (  # noqa: PLC0415
    descriptor_pb2,
    descriptor_pool,
    message_factory,
  )

  file = descriptor_pb2.FileDescriptorProto(name="messages", syntax="proto3")
  kinds = descriptor_pb2.FieldDescriptorProto
  for message_name, fields in _MESSAGES.items():
    descriptor = file.message_type.add(name=message_name)
    for field in fields:
      label, kind, name, _, number = field.split()
      added = descriptor.field.add(name=name, number=int(number))
      added.label = kinds.Label.Value(f"LABEL_{label.upper()}")
      if kind in _MESSAGES:
        added.type_name = kind
      else:
        added.type = kinds.Type.Value(f"TYPE_{kind.upper()}")
  # Not the default pool, where TensorFlow defines the same names.
  pool = descriptor_pool.DescriptorPool()
  pool.Add(file)
  return message_factory.GetMessageClassesForFiles(["messages"], pool)


def parse(kind: str, data: bytes) -> Any:
  """Parses bytes as a message of _MESSAGES; ValueError if they do not parse."""
  from google.protobuf.message import DecodeError  # noqa: PLC0415, as above

  try:
    return messages()[kind].FromString(data)
  except DecodeError as error:
    raise ValueError(f"it is not a {kind}") from error


def parse_example(data: bytes) -> dict[str, list]:
  """Parses a record's fields; ValueError if it is no tf.train.Example."""
  features = {
    x.name: x.feature for x in parse("Example", data).features.entries
  }
  return {
    name: [*lists.bytes.value, *lists.floats.value, *lists.int64s.value]
    for name, lists in features.items()
  }


class ExampleEncoder:
  """Serializes a record's fields, flat sequences, as a tf.train.Example."""

  def __init__(self, schema: Schema):
    self._example = messages()["Example"]()  # reused, which is faster
    entries = self._example.features.entries
    kinds = {"int64": "int64s", "float32": "floats"}
    self._lists = {
      name: getattr(entries.add(name=name).feature, kinds[feature.dtype]).value
      for name, feature in schema.items()
    }

  def __call__(self, fields: Mapping[str, Sequence[float]]) -> bytes:
    for name, encoded in self._lists.items():
      encoded[:] = fields[name]
    return self._example.SerializeToString()


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

  def write(self, records: Iterable[bytes]) -> None:
    for record in records:
      self.append(frame(record))

  def append(self, framed: bytes) -> None:
    """Writes a record that `frame` has framed."""
    if self.records % BLOCK == 0:
      self.blocks.append(self._size)
    self._file.write(framed)
    self.records += 1
    self._size += len(framed)


@contextmanager
def create(path: str, vocabulary: str | None = None) -> Iterator[RecordFile]:
  """Opens a TFRecord file to write. The complete file appears, then its index.

  With the index, record_scan.load_index need not scan the file. The index also
  has `vocabulary`, a tokenizer's fingerprint. A file without an index is valid.
  """
  with files.open_for_writing(path) as file:
    written = RecordFile(file)
    yield written
  index = {"records": written.records, "blocks": written.blocks}
  index |= {"vocabulary": vocabulary} if vocabulary else {}
  text = json.dumps(identity(path) | index, separators=(",", ":"))
  files.write_text(index_path(path), text)


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
) -> None:
  """Serializes and writes records; see `create`."""
  with create(path) as file:
    file.write(map(ExampleEncoder(schema), rows))
