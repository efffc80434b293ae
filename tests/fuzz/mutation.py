"""Small random changes to file contents, where atheris is not installed."""

from collections.abc import Sequence
from random import Random

# Single bytes and longer strings that parsers often mishandle.
_BYTES = b"\0\r\n\t\"'\\, {}[]:-\x80\xc3"
_LONGER = (
  b"\r\n",
  b"1e999",
  b"NaN",
  b"null",
  b"true",
  b"9" * 30,
  b"\xef\xbb\xbf",
  b"\xff\xfe",
  b"\xff" * 8,
  b"\\ud800",
  "\u2028\u0130\ufffd\U0001f989".encode(),
  "e\u0301\u4e2d".encode(),
  b"-DOCSTART-",
  b"[CLS]",
  b"##",
  b"||| ",
  b"..",
  b"Mr. ",
)
_PIECES = [*(bytes([value]) for value in _BYTES), *_LONGER]


def mutated(contents: Sequence[bytes], rng: Random) -> bytes:
  """Returns one of the contents after a few random changes."""
  content = rng.choice(contents)
  for _ in range(rng.choice((1, 1, 2, 3, 8))):
    change = rng.choice(_CHANGES)
    content = change(content, contents, rng)
  return content


def _position(content, rng):
  return rng.randint(0, len(content))


def _range(content, rng):
  start = _position(content, rng)
  return start, min(len(content), start + rng.choice((1, 2, 8, 64, 1024)))


def _flip(content, others, rng):
  if not content:
    return content
  changed = bytearray(content)
  changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
  return bytes(changed)


def _insert(content, others, rng):
  position = _position(content, rng)
  return content[:position] + rng.choice(_PIECES) + content[position:]


def _delete(content, others, rng):
  start, end = _range(content, rng)
  return content[:start] + content[end:]


def _repeat(content, others, rng):
  start, end = _range(content, rng)
  times = rng.choice((2, 2, 3, 10, 100)) if rng.random() < 0.99 else 10_000
  return content[:start] + content[start:end] * times + content[end:]


def _splice(content, others, rng):
  other = rng.choice(others)
  return content[: _position(content, rng)] + other[_position(other, rng) :]


def _cut(content, others, rng):
  return content[: _position(content, rng)]


def _random(content, others, rng):
  start, end = _range(content, rng)
  return content[:start] + rng.randbytes(end - start) + content[end:]


_CHANGES = (_flip, _insert, _delete, _repeat, _splice, _cut, _random)
