"""Protocol buffers read without TensorFlow, which takes seconds to import."""

from collections.abc import Iterator
from typing import Any

import numpy as np

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
