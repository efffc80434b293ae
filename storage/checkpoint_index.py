"""Names and shapes in a checkpoint's .index file, read without TensorFlow.

The file is a table of LevelDB: blocks of sorted keys, each stored without the
prefix that it shares with the key before, and a block of the blocks' positions.
A value is a message BundleEntryProto (tensorflow/core/protobuf).
"""

from collections.abc import Iterator

from storage import files
from storage.protobuf import ERRORS, fields, varint

_MAGIC = bytes.fromhex("57fb808b247547db")
_FOOTER_BYTES = 48


def shapes(path: str) -> dict[str, tuple[int, ...]]:
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
        result[name.decode()] = _shape(entry)
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


def _shape(entry) -> tuple[int, ...]:
  dims = fields(dict(fields(entry)).get(2, b""))
  return tuple(dict(fields(dim)).get(1, 0) for n, dim in dims if n == 2)
