"""Words to word pieces in a TensorFlow graph, the longest piece first.

Does what WordpieceTokenizer of tokenization.py does, for all words at once:
each round takes one piece off every word that is not used up. Made of
operations that every TensorFlow has, in half to two thirds of the time of
tensorflow_text's WordpieceTokenizer: lookups go in bulk.

Legend: D words, A words not yet used up, F pieces found so far, (T) pieces of a
word. A ragged dimension is in parentheses.
"""

import tensorflow as tf

JOINER = "##"
_TO_THE_END = 2**31 - 1


class WordpieceSplitter:
  """Splits words into pieces of a vocabulary.

  Args:
    ids: lookup table from pieces to ids, -1 for what is no piece.
    longest: characters of the longest piece, its "##" included.
    unk_token: stands for a word that cannot be pieced together.
  """

  def __init__(self, ids: tf.lookup.StaticHashTable, longest: int, unk_token):
    self._ids = ids
    self._longest = max(longest, len(JOINER) + 1)
    self._unk_token = unk_token

  def __call__(
    self, words: tf.Tensor
  ) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
    """Splits words.

    Args:
      words: [D] string, UTF-8, none empty.

    Returns:
      Ids [D, (T)] int64, and where in its word each piece ends, in characters:
      [D, (T)] int32.
    """
    # Most words are in the vocabulary as they are.
    whole = self._ids.lookup(words)  # [D]
    lengths = tf.strings.length(words, "UTF8_CHAR")
    known, others = (tf.where(mask)[:, 0] for mask in (whole >= 0, whole < 0))
    *_, rows, ids, limits = tf.while_loop(
      lambda rows, *_: tf.size(rows) > 0,
      self._take_a_piece,
      (
        others,
        tf.gather(words, others),
        tf.zeros_like(others, tf.int32),
        known,
        tf.gather(whole, known),
        tf.gather(lengths, known),
      ),
      shape_invariants=(tf.TensorShape([None]),) * 6,
    )
    # Of a word that is given up, only the mark for that stays.
    given_up = tf.scatter_nd(
      rows[:, None], tf.cast(ids < 0, tf.int32), tf.shape(words, tf.int64)
    )
    order = tf.argsort(rows, stable=True)
    order = tf.boolean_mask(
      order,
      (tf.gather(given_up, tf.gather(rows, order)) == 0)
      | (tf.gather(ids, order) < 0),
    )
    rows, ids, limits = (tf.gather(v, order) for v in (rows, ids, limits))
    ids = tf.where(ids < 0, self._ids.lookup(tf.constant(self._unk_token)), ids)
    splits = tf.RaggedTensor.from_value_rowids(
      ids, rows, tf.size(words, tf.int64), validate=False
    )
    return splits, splits.with_values(limits)

  def _take_a_piece(self, rows, rest, start, *found):
    """One round of the loop.

    Args:
      rows: [A] int64, the words that are not used up.
      rest: [A] string, what is left of them, with "##" unless it is all.
      start: [A] int32, how many characters are gone.
      *found: rows [F] int64, ids [F] int64 and limits [F] int32 of pieces; id
        -1 gives its word up.

    Returns:
      The same after taking the longest possible piece off each.
    """
    joiner = tf.where(start > 0, len(JOINER), 0)
    lengths = tf.strings.length(rest, "UTF8_CHAR")
    tries = tf.ragged.range(
      joiner + 1,
      tf.minimum(lengths, self._longest) + 1,
      row_splits_dtype=tf.int64,
    )  # [A, (lengths to try)]
    tries, try_rows = tries.values, tries.value_rowids()
    prefixes = _substrings(tf.gather(rest, try_rows), 0, tries)
    ids = self._ids.lookup(prefixes)
    places = tf.where(ids >= 0, tf.range(tf.size(ids)), -1)
    best = tf.math.segment_max(places, try_rows)  # [A]

    matched = best >= 0
    best = tf.maximum(best, 0)
    taken = tf.where(matched, tf.gather(tries, best), lengths)
    ids = tf.where(matched, tf.gather(ids, best), -1)
    limits = start + taken - joiner
    pairs = zip(found, (rows, ids, limits), strict=True)
    found = [tf.concat(pair, 0) for pair in pairs]

    left = tf.where(taken < lengths)[:, 0]
    rest, taken = tf.gather(rest, left), tf.gather(taken, left)
    rest = JOINER + _substrings(rest, taken, _TO_THE_END)
    return (tf.gather(rows, left), rest, tf.gather(limits, left), *found)


def _substrings(strings, starts, lengths):
  """Parts of strings, in characters; starts and lengths [n] or scalar."""
  zeros = tf.zeros_like(strings, tf.int32)
  return tf.strings.substr(
    strings, zeros + starts, zeros + lengths, unit="UTF8_CHAR"
  )
