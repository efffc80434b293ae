"""Tokenization rules of each code point, as arrays for TensorFlow graphs.

Computed from the functions of tokenization.py and Python's Unicode database.

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
REMOVED = 0  # dropped: control characters and, when lower-casing, accents
SPACE = 1  # separates words
ALONE = 2  # a word of its own: punctuation and CJK
WORD_CHAR = 3  # part of a word, as one code point
MARK = 4  # as WORD_CHAR, but NFD may reorder adjacent ones
EXPANDED = 5  # becomes several code points

# Casing, which decides the form of a lower-case sigma.
UNCASED, CASED, IGNORED = 0, 1, 2

# Combining class in `orders` of code points that are not reordered.
NO_ORDER = 255


@dataclasses.dataclass(frozen=True)
class UnicodeTables:
  """Rules for a value of do_lower_case.

  Attributes:
    kinds: [C] uint8, one of the kinds above.
    shifts: [C] int32, difference between the lower-cased and decomposed code
      point and the original; the row in `expansions` of an EXPANDED one.
    expansions: code points, one list for each EXPANDED code point.
    orders: [C] uint8, canonical combining class of the first code point of the
      decomposition, NO_ORDER of code points that cleaning removes.
    casings: [C] uint8, UNCASED, CASED or IGNORED.
  """

  kinds: np.ndarray
  shifts: np.ndarray
  expansions: list[list[int]]
  orders: np.ndarray
  casings: np.ndarray


@functools.cache
def build(do_lower_case: bool) -> UnicodeTables:
  """Computes the tables, in less than a second."""
  kinds = np.full(CODE_POINTS, WORD_CHAR, np.uint8)
  shifts = np.zeros(CODE_POINTS, np.int32)
  orders = np.zeros(CODE_POINTS, np.uint8)
  casings = np.full(CODE_POINTS, UNCASED, np.uint8)
  expansions = []

  for first, last in tokenization.CJK_RANGES:  # also unassigned code points
    kinds[first : last + 1] = ALONE
  for char in _assigned():
    code = ord(char)
    if tokenization.is_removed(char):
      kinds[code], orders[code] = REMOVED, NO_ORDER
      continue
    text = char
    if do_lower_case:
      text = tokenization.strip_accents(char.lower())
      orders[code] = _order(char)
      casings[code] = _casing(char)
    if len(text) > 1:
      kinds[code], shifts[code] = EXPANDED, len(expansions)
      expansions.append([ord(part) for part in text])
    elif text:
      kinds[code], shifts[code] = _kind(char, text), ord(text) - code
    else:
      kinds[code] = REMOVED

  if not do_lower_case:
    kinds[kinds == MARK] = WORD_CHAR
  return UnicodeTables(kinds, shifts, expansions, orders, casings)


def pages(*columns: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
  """Compresses columns [C] into pages of 256 code points, without repeats.

  Returns:
    starts [C / 256] int32 and for each column cells [n], such that
    `column[c] == cells[starts[c // 256] + c % 256]`.
  """
  distinct = {}
  starts = [
    distinct.setdefault(
      tuple(column[begin : begin + 256].tobytes() for column in columns),
      256 * len(distinct),
    )
    for begin in range(0, CODE_POINTS, 256)
  ]
  cells = [
    np.frombuffer(b"".join(cells), column.dtype)
    for column, cells in zip(columns, zip(*distinct, strict=True), strict=True)
  ]
  return np.array(starts, np.int32), cells


def _assigned():
  """Yields all characters but unassigned, private and surrogate ones."""
  for char in map(chr, range(CODE_POINTS)):
    if unicodedata.category(char) not in ("Cn", "Co", "Cs"):
      yield char


def _kind(char, text):
  if tokenization.is_whitespace(char) or text.isspace():
    return SPACE
  if tokenization.is_cjk(char) or tokenization.is_punctuation(text):
    return ALONE
  return MARK if unicodedata.combining(text) else WORD_CHAR


def _order(char):
  return unicodedata.combining(unicodedata.normalize("NFD", char.lower())[0])


def _casing(char):
  """Effect of a character on a sigma behind it, as str.lower() has it."""
  if (char + "Σ").lower().endswith("ς"):
    return CASED
  return IGNORED if ("A" + char + "Σ").lower().endswith("ς") else UNCASED
