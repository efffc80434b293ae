"""BasicTokenizer of tokenization.py as TensorFlow operations.

Cleaning, lower-casing, accent stripping, splitting at whitespace and
punctuation, by tables of code points.

Legend: P pieces of text without U+0020, K code points of all pieces (their
number changes from step to step), (W) words of a piece, (C) characters of a
word. A ragged dimension is in parentheses.
"""

import itertools
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from data.graph import unicode_tables as unicode


class _Chars(NamedTuple):
  """Code points of all pieces, concatenated.

  Attributes:
    codes: [K] int32.
    kinds: [K] uint8, as in unicode_tables.
    rows: [K] int64, index of the piece.
    sources: [K] int64, index of the original code point in the input.
  """

  codes: tf.Tensor
  kinds: tf.Tensor
  rows: tf.Tensor
  sources: tf.Tensor

  def gather(self, indices):
    return _Chars(*(tf.gather(values, indices) for values in self))


class Normalizer:
  """Splits code points into words.

  Args:
    do_lower_case: lower-case and strip accents.
  """

  def __init__(self, do_lower_case: bool):
    tables = unicode.build(do_lower_case)
    self._do_lower_case = do_lower_case
    self._kinds_and_shifts = _Table(tables.kinds, tables.shifts)
    self._orders = _Table(tables.orders)
    self._casings = _Table(tables.casings)
    self._expanded = np.array([*itertools.chain(*tables.expansions)], np.int32)
    self._lengths = [len(expansion) for expansion in tables.expansions]

  def __call__(
    self, pieces: tf.RaggedTensor
  ) -> tuple[tf.RaggedTensor, tf.Tensor]:
    """Splits pieces of text into words.

    Args:
      pieces: [P, (K)] int32 code points.

    Returns:
      Words [P, (W), (C)] int32, and for each of their flat values the index of
      the original one in `pieces.values`, int64.
    """
    codes = pieces.values
    kinds, shifts = self._kinds_and_shifts(codes)
    sources = tf.range(tf.size(codes, tf.int64))
    chars = _Chars(codes, kinds, _rows(pieces), sources)
    chars, shifts = _drop_kind(unicode.REMOVED, chars, shifts)
    if self._do_lower_case:
      chars = self._lower(chars, shifts)
      chars = _if_any(chars.kinds == unicode.EXPANDED, self._expand, chars)
      chars = _if_any(
        chars.kinds == unicode.MARK,
        lambda chars: self._reorder(chars, codes),
        chars,
      )
    return _split(chars, pieces.nrows())

  def _lower(self, chars, shifts):
    """Lower-cases and decomposes code points.

    EXPANDED ones become the row of their expansion.
    """
    lowered = chars._replace(
      codes=tf.where(
        chars.kinds == unicode.EXPANDED, shifts, chars.codes + shifts
      )
    )
    return _if_any(
      chars.codes == unicode.CAPITAL_SIGMA,
      lambda lowered: self._finish_sigmas(lowered, chars),
      lowered,
    )

  def _finish_sigmas(self, lowered, chars):
    """Gives sigmas their final form at the end of a word, as str.lower() does.

    A sigma is final after a cased character and not before one, in the same
    piece and skipping characters that casing ignores.
    """
    (casings,) = self._casings(chars.codes)
    indices = tf.where(casings != unicode.IGNORED)[:, 0]
    near = chars.gather(indices)
    cased = tf.gather(casings, indices) == unicode.CASED
    same_row = near.rows[1:] == near.rows[:-1]
    after_cased = tf.concat([[False], same_row & cased[:-1]], axis=0)
    before_cased = tf.concat([same_row & cased[1:], [False]], axis=0)
    final = (near.codes == unicode.CAPITAL_SIGMA) & after_cased & ~before_cased
    indices = tf.boolean_mask(indices, final)
    return lowered._replace(
      codes=tf.tensor_scatter_nd_update(
        lowered.codes,
        indices[:, None],
        tf.fill(tf.shape(indices), unicode.FINAL_SIGMA),
      )
    )

  def _expand(self, chars):
    """Replaces EXPANDED code points by their expansions."""
    expansions = tf.RaggedTensor.from_row_lengths(
      self._expanded, self._lengths, validate=False
    )
    singles = tf.RaggedTensor.from_tensor(chars.codes[:, None])
    expanded = tf.gather(
      tf.concat([expansions, singles], axis=0),
      tf.where(
        chars.kinds == unicode.EXPANDED,
        tf.cast(chars.codes, tf.int64),
        expansions.nrows() + tf.range(singles.nrows()),
      ),
    )
    codes = expanded.values
    kinds, _ = self._kinds_and_shifts(codes)
    return chars.gather(expanded.value_rowids())._replace(
      codes=codes, kinds=kinds
    )

  def _reorder(self, chars, codes):
    """Sorts consecutive MARKs by their combining class (NFD).

    Args:
      chars: characters without accents.
      codes: [K] code points of the input; its accents separate MARKs too.
    """
    (orders,) = self._orders(codes)
    starters = tf.cumsum(tf.cast(orders == 0, tf.int64))
    runs = tf.gather(starters, chars.sources) + chars.rows
    (orders,) = self._orders(chars.codes)
    keys = 256 * runs + tf.cast(orders, tf.int64)
    order = tf.argsort(keys, stable=True)
    return chars._replace(
      codes=tf.gather(chars.codes, order), kinds=tf.gather(chars.kinds, order)
    )


class _Table:
  """Columns [0x110000] of integers, indexed by code point, as constants."""

  def __init__(self, *columns):
    self._starts, self._cells = unicode.pages(*columns)

  def __call__(self, codes):
    """Values of code points: [K] int32 -> for each column [K] of its type."""
    indices = tf.gather(self._starts, codes // 256) + codes % 256
    return [tf.gather(cells, indices) for cells in self._cells]


def _if_any(mask, function, values):
  """`function(values)` if any of the mask is true, else `values`."""
  return tf.cond(tf.reduce_any(mask), lambda: function(values), lambda: values)


def _drop_kind(kind, chars, other):
  """Drops characters of a rare kind, and the values of `other` [K] for them."""

  def drop(values):
    rest = tf.where(chars.kinds != kind)[:, 0]
    return tf.nest.map_structure(lambda value: tf.gather(value, rest), values)

  return _if_any(chars.kinds == kind, drop, (chars, other))


def _rows(ragged):
  """`ragged.value_rowids()`, without its [rows, longest row] intermediate."""
  size = tf.size(ragged.values)
  begins = tf.cast(ragged.row_splits[1:-1], tf.int32)
  counts = tf.math.bincount(begins, minlength=size, maxlength=size)
  return tf.cumsum(tf.cast(counts, tf.int64))


def _split(chars, num_pieces):
  """Groups characters into words; each ALONE one is a word."""
  joins = (chars.kinds != unicode.SPACE) & (chars.kinds != unicode.ALONE)
  joined = tf.concat(
    [[False], joins[:-1] & (chars.rows[1:] == chars.rows[:-1])], axis=0
  )
  begins = ~(joins & joined[: tf.size(joins)])
  chars, begins = _drop_kind(unicode.SPACE, chars, begins)
  starts = tf.where(begins)[:, 0]
  words = tf.RaggedTensor.from_row_starts(chars.codes, starts, validate=False)
  words = tf.RaggedTensor.from_value_rowids(
    words, tf.gather(chars.rows, starts), num_pieces, validate=False
  )
  return words, chars.sources
