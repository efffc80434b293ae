"""Small random changes to file contents, for fuzzing."""

from collections.abc import Sequence
from random import Random

# Single bytes and longer strings that parsers often mishandle.
_BYTES = b"\0\r\n\t\"'\\, {}[]:-\x80\xc3"
_LONGER = rb"1e999 NaN null true \ud800 -DOCSTART- [CLS] ## ..".split()
_LONGER += [b"9" * 30, b"\r\n", b"\xef\xbb\xbf", b"\xff\xfe", b"\xff" * 8]
_LONGER += [b"||| ", b"Mr. ", "\u2028\u0130\ufffd\U0001f989".encode()]
_LONGER += ["e\u0301\u4e2d".encode()]
_PIECES = [*(bytes([value]) for value in _BYTES), *_LONGER]


def mutated(contents: Sequence[bytes], rng: Random) -> bytes:
  """Returns one of the contents after a few random changes."""
  content = rng.choice(contents)
  for _ in range(rng.choice((1, 1, 2, 3, 8))):
    start = rng.randint(0, len(content))
    end = start + rng.choice((1, 2, 8, 64, 1024))
    head, part, tail = content[:start], content[start:end], content[end:]
    other = rng.choice(contents)
    times = rng.choice((2, 2, 3, 10, 100)) if rng.random() < 0.99 else 10_000
    flipped = [byte ^ 1 << rng.randrange(8) for byte in part[:1]]
    change = rng.choice("flip insert delete repeat splice cut random".split())
    content = {
      "flip": head + bytes(flipped) + part[1:] + tail,
      "insert": head + rng.choice(_PIECES) + part + tail,
      "delete": head + tail,
      "repeat": head + part * (times if change == "repeat" else 1) + tail,
      "splice": head + other[rng.randint(0, len(other)) :],
      "cut": head,
      "random": head + rng.randbytes(len(part)) + tail,
    }[change]
  return content
