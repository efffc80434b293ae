"""What tokenization does to each code point, as arrays.

Made by asking the functions of tokenization.py and Python's own Unicode
database, so there is one statement of the rules. tokenization_ops.py bakes the
arrays into TensorFlow graphs.

Legend: C = 0x110000 code points.
"""

import dataclasses
import functools
import sys
import unicodedata

import numpy as np

from data import tokenization

CODE_POINTS = sys.maxunicode + 1
CAPITAL_SIGMA, SIGMA, FINAL_SIGMA = 0x3A3, 0x3C3, 0x3C2

# Kinds of code points.
REMOVED = 0  # leaves nothing: control characters and, lower-casing, accents
SPACE = 1  # separates words
ALONE = 2  # a word of its own: punctuation and CJK
KEPT = 3  # part of a word, as one code point
MARK = 4  # KEPT, but may change places with a neighbouring MARK (NFD)
EXPANDED = 5  # becomes several code points

# Casing, which decides the form of a lower-case sigma.
UNCASED, CASED, IGNORED = 0, 1, 2

# The combining class in `orders` of code points that do not take part.
NO_ORDER = 255


@dataclasses.dataclass(frozen=True)
class UnicodeTables:
  """The rules of one setting of do_lower_case.

  Attributes:
    kinds: [C] uint8, one of the kinds above.
    shifts: [C] int32, how far lower-casing and decomposing move a code point;
      of an EXPANDED one, its row in `expansions`.
    expansions: code points, one list for each EXPANDED code point.
    orders: [C] uint8, canonical combining class of the first code point of the
      decomposition, NO_ORDER for what the cleaning removes.
    casings: [C] uint8, UNCASED, CASED or IGNORED.
  """

  kinds: np.ndarray
  shifts: np.ndarray
  expansions: list[list[int]]
  orders: np.ndarray
  casings: np.ndarray


@functools.cache
def build(do_lower_case: bool) -> UnicodeTables:
  """Makes the tables; takes a good part of a second, once per setting."""
  kinds = np.full(CODE_POINTS, KEPT, np.uint8)
  shifts = np.zeros(CODE_POINTS, np.int32)
  orders = np.zeros(CODE_POINTS, np.uint8)
  casings = np.full(CODE_POINTS, UNCASED, np.uint8)
  expansions = []

  for first, last in tokenization.CJK_RANGES:  # also what is unassigned there
    kinds[first : last + 1] = ALONE
  for char in _assigned():
    code = ord(char)
    if tokenization.is_removed(char):
      kinds[code], orders[code] = REMOVED, NO_ORDER
      continue
    image = char
    if do_lower_case:
      image = tokenization.strip_accents(char.lower())
      orders[code] = _order(char)
      casings[code] = _casing(char)
    if len(image) > 1:
      kinds[code], shifts[code] = EXPANDED, len(expansions)
      expansions.append([ord(part) for part in image])
    elif image:
      kinds[code], shifts[code] = _kind(char, image), ord(image) - code
    else:
      kinds[code] = REMOVED

  if not do_lower_case:
    kinds[kinds == MARK] = KEPT
  return UnicodeTables(kinds, shifts, expansions, orders, casings)


def pages(*columns: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
  """Folds a table of all code points into pages of 256, each kept once.

  Args:
    *columns: [C] each.

  Returns:
    starts [C / 256] int32 and for each column cells [n], such that
    `column[c] == cells[starts[c // 256] + c % 256]`.
  """
  known = {}
  starts = [
    known.setdefault(
      tuple(column[begin : begin + 256].tobytes() for column in columns),
      256 * len(known),
    )
    for begin in range(0, CODE_POINTS, 256)
  ]
  cells = [
    np.frombuffer(b"".join(own), column.dtype)
    for column, own in zip(columns, zip(*known, strict=True), strict=True)
  ]
  return np.array(starts, np.int32), cells


def _assigned():
  """Characters; the rules leave unassigned and private code points alone."""
  for char in map(chr, range(CODE_POINTS)):
    if unicodedata.category(char) not in ("Cn", "Co", "Cs"):
      yield char


def _kind(char, image):
  if tokenization.is_whitespace(char) or image.isspace():
    return SPACE
  if tokenization.is_cjk(char) or tokenization.is_punctuation(image):
    return ALONE
  return MARK if unicodedata.combining(image) else KEPT


def _order(char):
  return unicodedata.combining(unicodedata.normalize("NFD", char.lower())[0])


def _casing(char):
  """Asks str.lower() which code points a sigma heeds."""
  if (char + "Σ").lower().endswith("ς"):
    return CASED
  return IGNORED if ("A" + char + "Σ").lower().endswith("ς") else UNCASED
