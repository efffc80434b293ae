"""Protocol buffer messages that TensorFlow writes, read without TensorFlow."""

from typing import Any

from google.protobuf import (
  descriptor_pb2,
  descriptor_pool,
  message,
  message_factory,
)

DecodeError = message.DecodeError
# Fields of each message, numbered from 1. "*" marks a list.
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


def _message_classes() -> dict[str, Any]:
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
  # TensorFlow defines the same names in the default pool.
  pool = descriptor_pool.DescriptorPool()
  pool.Add(file)
  return message_factory.GetMessageClassesForFiles(["messages"], pool)


_CLASSES = _message_classes()
BundleEntryProto = _CLASSES["BundleEntryProto"]


def features(data: bytes) -> dict:
  """The `Feature`s of a serialized Example, by name; raises DecodeError."""
  example = _CLASSES["Example"].FromString(data)
  return {entry.name: entry.feature for entry in example.features.entries}


def parse_example(data: bytes) -> dict[str, list]:
  return {
    name: [*lists.bytes.value, *lists.floats.value, *lists.int64s.value]
    for name, lists in features(data).items()
  }
