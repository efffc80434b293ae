"""Code points to words in a TensorFlow graph, by the tables of Unicode.

Does what BasicTokenizer of tokenization.py does: cleaning, lower-casing,
accent stripping, splitting at whitespace and punctuation.

Legend: P pieces of text without U+0020, K code points of all pieces, which
shrinks and grows on the way, (W) words of a piece, (C) characters of a word.
A ragged dimension is in parentheses.
"""

import itertools
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from data.graph import unicode_tables as unicode


class _Chars(NamedTuple):
  """Code points of many pieces in a row.

  Attributes:
    codes: [K] int32.
    kinds: [K] uint8, as in unicode_tables.
    rows: [K] int64, the piece each belongs to.
    sources: [K] int64, the place of what it comes from in the input.
  """

  codes: tf.Tensor
  kinds: tf.Tensor
  rows: tf.Tensor
  sources: tf.Tensor

  def gather(self, indices):
    return _Chars(*(tf.gather(values, indices) for values in self))


class Normalizer:
  """Splits code points into words, lower-cased and without accents if asked.

  Args:
    do_lower_case: whether to lower-case and to strip accents.
  """

  def __init__(self, do_lower_case: bool):
    tables = unicode.build(do_lower_case)
    self._do_lower_case = do_lower_case
    self._images = _Table(tables.kinds, tables.shifts)
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
      the flat value of `pieces` it comes from, int64.
    """
    codes = pieces.values
    kinds, shifts = self._images(codes)
    sources = tf.range(tf.size(codes, tf.int64))
    chars = _Chars(codes, kinds, _rows(pieces), sources)
    chars, shifts = _without(unicode.REMOVED, chars, shifts)
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
    """Moves each code point to what lower-casing and decomposing make of it.

    EXPANDED ones come out as the row of their expansion.
    """
    moved = chars._replace(
      codes=tf.where(
        chars.kinds == unicode.EXPANDED, shifts, chars.codes + shifts
      )
    )
    return _if_any(
      chars.codes == unicode.CAPITAL_SIGMA,
      lambda moved: self._finish_sigmas(moved, chars),
      moved,
    )

  def _finish_sigmas(self, moved, chars):
    """Gives sigmas their final form at the end of a word, as str.lower().

    That is: after a cased character and not before one, both looked for in
    the same piece and beyond the characters that casing ignores.
    """
    (casings,) = self._casings(chars.codes)
    places = tf.where(casings != unicode.IGNORED)[:, 0]
    near = chars.gather(places)
    cased = tf.gather(casings, places) == unicode.CASED
    together = near.rows[1:] == near.rows[:-1]
    after_cased = tf.concat([[False], together & cased[:-1]], axis=0)
    before_cased = tf.concat([together & cased[1:], [False]], axis=0)
    final = (near.codes == unicode.CAPITAL_SIGMA) & after_cased & ~before_cased
    places = tf.boolean_mask(places, final)
    return moved._replace(
      codes=tf.tensor_scatter_nd_update(
        moved.codes,
        places[:, None],
        tf.fill(tf.shape(places), unicode.FINAL_SIGMA),
      )
    )

  def _expand(self, chars):
    """Puts the code points of its expansion in place of each EXPANDED one."""
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
    kinds, _ = self._images(codes)
    return chars.gather(expanded.value_rowids())._replace(
      codes=codes, kinds=kinds
    )

  def _reorder(self, chars, codes):
    """Sorts MARKs that follow each other by their combining class.

    Args:
      chars: without the accents.
      codes: [K] code points of the input: also accents keep MARKs apart.
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
  """A table of all code points, baked into the graph.

  Args:
    *columns: [0x110000] of some integer type each.
  """

  def __init__(self, *columns):
    self._starts, self._cells = unicode.pages(*columns)

  def __call__(self, codes):
    """Values of code points: [K] int32 -> for each column [K] of its type."""
    place = tf.gather(self._starts, codes // 256) + codes % 256
    return [tf.gather(cells, place) for cells in self._cells]


def _if_any(mask, function, values):
  """`function(values)` if the mask is true anywhere, else `values`."""
  return tf.cond(tf.reduce_any(mask), lambda: function(values), lambda: values)


def _without(kind, chars, other):
  """Leaves out characters of a kind, which are rare, and the same of other."""

  def drop(values):
    kept = tf.where(chars.kinds != kind)[:, 0]
    return tf.nest.map_structure(lambda one: tf.gather(one, kept), values)

  return _if_any(chars.kinds == kind, drop, (chars, other))


def _rows(ragged):
  """As `value_rowids`, without its table of all rows by the longest one."""
  size = tf.size(ragged.values)
  begins = tf.cast(ragged.row_splits[1:-1], tf.int32)
  counts = tf.math.bincount(begins, minlength=size, maxlength=size)
  return tf.cumsum(tf.cast(counts, tf.int64))


def _split(chars, num_pieces):
  """Gathers characters that touch into words; ALONE ones touch no other."""
  joins = (chars.kinds != unicode.SPACE) & (chars.kinds != unicode.ALONE)
  joined = tf.concat(
    [[False], joins[:-1] & (chars.rows[1:] == chars.rows[:-1])], axis=0
  )
  begins = ~(joins & joined[: tf.size(joins)])
  chars, begins = _without(unicode.SPACE, chars, begins)
  starts = tf.where(begins)[:, 0]
  words = tf.RaggedTensor.from_row_starts(chars.codes, starts, validate=False)
  words = tf.RaggedTensor.from_value_rowids(
    words, tf.gather(chars.rows, starts), num_pieces, validate=False
  )
  return words, chars.sources
