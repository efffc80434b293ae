"""BasicTokenizer of tokenization.py as TensorFlow operations.

Legend: P pieces of text without U+0020, K code points of all pieces (K changes
from step to step). Ragged dimensions are in parentheses: (W) words of a piece,
(C) characters of a word.
"""

import functools
import itertools
import sys
import unicodedata
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from data import tokenization

# --- Tables ----------------------------------------------------------------

_CODE_POINTS = sys.maxunicode + 1
_CAPITAL_SIGMA, _FINAL_SIGMA = 0x3A3, 0x3C2

# Kinds of code points.
_REMOVED = 0  # dropped: control characters and, when lower-casing, accents
_SPACE = 1  # separates words
_ALONE = 2  # a word of its own: punctuation and CJK
_WORD_CHAR = 3  # part of a word, as one code point
_MARK = 4  # a _WORD_CHAR that NFD may swap with adjacent marks
_EXPANDED = 5  # becomes several code points

# Casing, which decides the form of a lower-case sigma.
_UNCASED, _CASED, _IGNORED = 0, 1, 2


@functools.cache
def _unicode_tables(do_lower_case: bool) -> tuple:
  """Rules for each code point, computed in less than a second.

  Returns three tables (kinds and shifts, orders, casings), and the code points
  that replace each _EXPANDED code point.
  """
  kinds = np.full(_CODE_POINTS, _WORD_CHAR, np.uint8)
  # What to add to a code point to lower-case and decompose it. For _EXPANDED
  # code points, the index in `expansions`.
  shifts = np.zeros(_CODE_POINTS, np.int32)
  # Canonical combining class of the decomposition's first code point. It is 255
  # for code points that cleaning removes: they do not end a run of marks.
  orders = np.zeros(_CODE_POINTS, np.uint8)
  casings = np.full(_CODE_POINTS, _UNCASED, np.uint8)
  expansions: list[list[int]] = []

  for first, last in tokenization.CJK_RANGES:  # also unassigned code points
    kinds[first : last + 1] = _ALONE
  for code, char in enumerate(map(chr, range(_CODE_POINTS))):
    if unicodedata.category(char) in ("Cn", "Co", "Cs"):
      continue  # unassigned, private or a surrogate
    if tokenization.is_removed(char):
      kinds[code], orders[code] = _REMOVED, 255
      continue
    text = char
    if do_lower_case:
      text = tokenization.strip_accents(char.lower())
      decomposed = unicodedata.normalize("NFD", char.lower())
      orders[code] = unicodedata.combining(decomposed[0])
      # The effect of a character on a sigma behind it in str.lower().
      if (char + "Σ").lower().endswith("ς"):
        casings[code] = _CASED
      elif ("A" + char + "Σ").lower().endswith("ς"):
        casings[code] = _IGNORED
    if not text:
      kinds[code] = _REMOVED
    elif len(text) > 1:
      kinds[code], shifts[code] = _EXPANDED, len(expansions)
      expansions.append([ord(part) for part in text])
    else:
      shifts[code] = ord(text) - code
      if tokenization.is_whitespace(char) or text.isspace():
        kinds[code] = _SPACE
      elif tokenization.is_punctuation(text):
        kinds[code] = _ALONE
      elif unicodedata.combining(text):
        kinds[code] = _MARK
  return _Table(kinds, shifts), _Table(orders), _Table(casings), expansions


# --- Operations ------------------------------------------------------------


class _Chars(NamedTuple):
  """Code points of all pieces, concatenated."""

  codes: tf.Tensor  # [K] int32
  kinds: tf.Tensor  # [K] int32, _REMOVED to _EXPANDED
  rows: tf.Tensor  # [K] int64, index of the piece
  sources: tf.Tensor  # [K] int64, index of the original code point in the input

  def gather(self, indices):
    return _Chars(*(tf.gather(values, indices) for values in self))


class Normalizer:
  """Splits code points into words; `do_lower_case` also strips accents."""

  def __init__(self, do_lower_case: bool):
    tables = _unicode_tables(do_lower_case)
    self._do_lower_case = do_lower_case
    self._kinds_and_shifts, self._orders, self._casings, expansions = tables
    self._expanded = np.array([*itertools.chain(*expansions)], np.int32)
    self._lengths = [len(expansion) for expansion in expansions]

  def __call__(self, pieces: tf.RaggedTensor) -> tf.RaggedTensor:
    """Splits text into words: [P, (K)] int32 code points -> [P, (W), (C)]."""
    codes = pieces.values
    kinds, shifts = self._kinds_and_shifts(codes)
    # Like pieces.value_rowids(), without its tensor [rows, longest row].
    size, begins = tf.size(codes), tf.cast(pieces.row_splits[1:-1], tf.int32)
    counts = tf.math.bincount(begins, minlength=size, maxlength=size)
    rows = tf.cumsum(tf.cast(counts, tf.int64))
    chars = _Chars(codes, kinds, rows, tf.range(tf.size(codes, tf.int64)))
    chars, shifts = _drop_kind(_REMOVED, chars, shifts)
    if self._do_lower_case:
      # Lower-case and decompose. An EXPANDED code point becomes the number of
      # its row in the expansions.
      lower = tf.where(chars.kinds == _EXPANDED, shifts, chars.codes + shifts)
      lowered = chars._replace(codes=lower)
      finish = functools.partial(self._finish_sigmas, chars=chars)
      chars = _if_any(chars.codes == _CAPITAL_SIGMA, finish, lowered)
      chars = _if_any(chars.kinds == _EXPANDED, self._expand, chars)
      reorder = functools.partial(self._reorder, codes=codes)
      chars = _if_any(chars.kinds == _MARK, reorder, chars)
    return _split(chars, pieces.nrows())

  def _finish_sigmas(self, lowered, chars):
    """Gives sigmas at the end of a word the final form, like str.lower()."""
    (casings,) = self._casings(chars.codes)
    indices = tf.where(casings != _IGNORED)[:, 0]
    near = chars.gather(indices)
    cased = tf.gather(casings, indices) == _CASED
    same_row = near.rows[1:] == near.rows[:-1]
    after_cased = tf.concat([[False], same_row & cased[:-1]], axis=0)
    before_cased = tf.concat([same_row & cased[1:], [False]], axis=0)
    final = (near.codes == _CAPITAL_SIGMA) & after_cased & ~before_cased
    indices = tf.boolean_mask(indices, final)
    finals = tf.fill(tf.shape(indices), _FINAL_SIGMA)
    codes = tf.tensor_scatter_nd_update(lowered.codes, indices[:, None], finals)
    return lowered._replace(codes=codes)

  def _expand(self, chars):
    make = tf.RaggedTensor.from_row_lengths
    expansions = make(self._expanded, self._lengths, validate=False)
    singles = tf.RaggedTensor.from_tensor(chars.codes[:, None])
    others = expansions.nrows() + tf.range(singles.nrows())
    own = tf.cast(chars.codes, tf.int64)
    rows = tf.where(chars.kinds == _EXPANDED, own, others)
    expanded = tf.gather(tf.concat([expansions, singles], axis=0), rows)
    kinds, _ = self._kinds_and_shifts(expanded.values)
    chars = chars.gather(expanded.value_rowids())
    return chars._replace(codes=expanded.values, kinds=kinds)

  def _reorder(self, chars, codes):
    """Sorts runs of MARKs by combining class; `codes` is the unchanged text."""
    (orders,) = self._orders(codes)
    starters = tf.cumsum(tf.cast(orders == 0, tf.int64))
    runs = tf.gather(starters, chars.sources) + chars.rows
    (orders,) = self._orders(chars.codes)
    keys = 256 * runs + tf.cast(orders, tf.int64)
    order = tf.argsort(keys, stable=True)
    codes, kinds = (tf.gather(x, order) for x in (chars.codes, chars.kinds))
    return chars._replace(codes=codes, kinds=kinds)


class _Table:
  """Constant columns [0x110000] of integers, indexed by code point.

  Equal pages of 256 code points are stored once.
  """

  def __init__(self, *columns):
    table = np.stack(columns, axis=1)
    pages = [page.tobytes() for page in np.split(table, _CODE_POINTS // 256)]
    starts = {page: 256 * i for i, page in enumerate(dict.fromkeys(pages))}
    self._starts = np.array([starts[page] for page in pages], np.int32)
    cells = np.frombuffer(b"".join(starts), table.dtype)
    self._cells = cells.reshape(-1, len(columns))

  def __call__(self, codes):
    """Values of code points: [K] int32 -> [K] for each column."""
    indices = tf.gather(self._starts, codes // 256) + codes % 256
    return tf.unstack(tf.gather(self._cells, indices), axis=1)


def _if_any(mask, function, values):
  """`function(values)` if the mask is true anywhere, else `values`."""
  return tf.cond(tf.reduce_any(mask), lambda: function(values), lambda: values)


def _drop_kind(kind, chars, other):
  """Drops characters of a rare kind, and their values in `other` [K]."""

  def drop(values):
    rest = tf.where(chars.kinds != kind)[:, 0]
    return tf.nest.map_structure(lambda value: tf.gather(value, rest), values)

  return _if_any(chars.kinds == kind, drop, (chars, other))


def _split(chars, num_pieces):
  """Groups characters into words. Each ALONE character is a word."""
  joins = (chars.kinds != _SPACE) & (chars.kinds != _ALONE)
  same_row = chars.rows[1:] == chars.rows[:-1]
  joined = tf.concat([[False], joins[:-1] & same_row], axis=0)
  begins = ~(joins & joined[: tf.size(joins)])
  chars, begins = _drop_kind(_SPACE, chars, begins)
  starts = tf.where(begins)[:, 0]
  words = tf.RaggedTensor.from_row_starts(chars.codes, starts, validate=False)
  return tf.RaggedTensor.from_value_rowids(
    words, tf.gather(chars.rows, starts), num_pieces, validate=False
  )
