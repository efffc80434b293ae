"""Protocol buffers and checkpoints' indexes, read without TensorFlow.

It takes seconds to import. A checkpoint's .index file is a table of LevelDB:
blocks of sorted keys, each stored without the prefix that it shares with the
key before, and a block of the blocks' positions. A value is a message
BundleEntryProto (tensorflow/core/protobuf).
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from storage import files

_MAGIC = bytes.fromhex("57fb808b247547db")  # at the end of a table
_FOOTER_BYTES = 48
# What reading a corrupt message may raise.
ERRORS = (IndexError, KeyError, TypeError, ValueError)


def varint(data: bytes, at: int) -> tuple[int, int]:
  """A base-128 number and the position after it."""
  value = shift = 0
  while True:
    byte = data[at]
    value |= (byte & 127) << shift
    at, shift = at + 1, shift + 7
    if byte < 128:
      return value, at


def fields(message: bytes) -> Iterator[tuple[int, Any]]:
  """Numbers and values, int or bytes, of a message's fields."""
  at = 0
  value: Any
  while at < len(message):
    tag, at = varint(message, at)
    if tag & 7 == 5:  # four bytes
      value, at = message[at : at + 4], at + 4
    else:
      value, at = varint(message, at)
    if tag & 7 == 2:  # of this length
      if at + value > len(message):
        raise ValueError("a field ends behind its message")
      value, at = message[at : at + value], at + value
    yield tag >> 3, value


def example(message: bytes) -> dict[str, list]:
  """Fields of a tf.train.Example; see ERRORS."""
  result = {}
  for _, features in fields(message):
    for _, entry in fields(features):
      pair = dict(fields(entry))
      [(kind, values)] = fields(pair[2])
      name = pair[1].decode()
      result[name] = [x for _, v in fields(values) for x in _values(kind, v)]
  return result


def _values(kind, value) -> list:
  """Values in a bytes_list, float_list or int64_list, 1 to 3; packed or not."""
  if kind == 1:
    return [value]
  if kind == 2:
    return np.frombuffer(value, "<f4").tolist()
  at, numbers = 0, [] if isinstance(value, bytes) else [value]
  while not isinstance(value, int) and at < len(value):
    number, at = varint(value, at)
    numbers.append(number)
  return [number - (number >> 63 << 64) for number in numbers]


def checkpoint_shapes(path: str) -> dict[str, tuple[int, ...]]:
  """Shapes of the tensors by their names; none for another kind of file."""
  with files.open_for_reading(path) as file:
    table = file.read()
  if not table.endswith(_MAGIC):
    return {}
  footer = table[-_FOOTER_BYTES:]
  _, at = _block_position(footer, 0)  # of metadata, which is empty
  result = {}
  try:
    for _, position in _entries(table, footer, at):
      for name, entry in _entries(table, position, 0):
        dims = fields(dict(fields(entry)).get(2, b""))
        shape = [dict(fields(dim)).get(1, 0) for n, dim in dims if n == 2]
        result[name.decode()] = tuple(shape)
  except ERRORS:  # corrupt: TensorFlow says so
    return {}
  result.pop("", None)  # the header
  return result


def _block_position(data, at):
  offset, at = varint(data, at)
  size, at = varint(data, at)
  return (offset, size), at


def _entries(table, data, at) -> Iterator[tuple[bytes, bytes]]:
  """Keys and values of the block whose position is in `data`."""
  (begin, size), _ = _block_position(data, at)
  block = table[begin : begin + size]
  end = size - 4 * (1 + int.from_bytes(block[-4:], "little"))
  at, key = 0, b""
  while at < end:
    shared, at = varint(block, at)
    length, at = varint(block, at)
    value_length, at = varint(block, at)
    key = key[:shared] + block[at : at + length]
    at += length + value_length
    yield key, block[at - value_length : at]
