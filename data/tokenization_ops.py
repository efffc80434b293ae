"""The tokenizer of tokenization.py as TensorFlow operations.

A batch is split at blanks into pieces; only distinct pieces are normalized
(normalization_ops.py), and only distinct words are split into word pieces. All
operations are TensorFlow's own, so a SavedModel needs no other library.

Legend: N texts, (M) pieces of a text, separated by blanks, P distinct pieces,
(W) words of a piece, D distinct words, A unfinished words, F word pieces
matched so far, (C) characters of a word, (T) tokens of a text, piece or word. A
ragged dimension is in parentheses.
"""

import os
import types
import uuid
from collections.abc import Mapping

import tensorflow as tf

from data import vocab
from data.normalization_ops import Normalizer

MAX_CHARS_PER_WORD = 200  # Longer words are unknown, as in the specification.
_JOINER = "##"
_TO_THE_END = 2**31 - 1


class GraphTokenizer(tf.Module):
  """Text to word pieces, as TensorFlow operations.

  Bytes that are not UTF-8 are dropped. Call the methods inside a tf.function or
  tf.data pipeline, with some thousand lines at a time, as repeated words cost
  little. In a SavedModel the vocabulary is an asset.

  Arguments:
    vocabulary: path of a vocabulary file, or ids by token.

  Attributes:
    vocab: ids by token.
    normalizer: Normalizer that `tokenize` uses.

  Raises:
    ValueError: the vocabulary lacks [UNK].
  """

  def __init__(
    self,
    vocabulary: str | os.PathLike | Mapping[str, int],
    do_lower_case: bool = True,
  ):
    super().__init__(name="tokenizer")
    if isinstance(vocabulary, Mapping):
      vocab.check_tokens(vocabulary, [vocab.UNK])
    else:
      path, vocabulary = vocabulary, vocab.load(vocabulary)
      vocab.check_tokens(vocabulary, [vocab.UNK], os.fspath(path))
    # A read-only view, as tf.Module would wrap and track a dict.
    self.vocab = types.MappingProxyType(dict(vocabulary))
    self.normalizer = Normalizer(do_lower_case)
    self._asset = _asset(vocabulary)
    self._ids = _table(self._asset, tf.string, tf.int64, -1)
    self._tokens = _table(self._asset, tf.int64, tf.string, vocab.UNK)
    longest = max(map(len, vocabulary))
    self._wordpieces = WordpieceSplitter(self._ids, longest, vocab.UNK)

  def tokenize(self, texts: tf.Tensor) -> tf.RaggedTensor:
    """Ids of the tokens of each text: [N] string -> [N, (T)] int32."""
    pieces = tf.strings.split(texts, " ")  # [N, (M)]
    distinct, index = tf.unique(pieces.values, tf.int64)  # [P], [N * (M)]
    words, _ = self.normalizer(tf.strings.unicode_decode(distinct, "UTF-8"))
    spellings, word_index = tf.unique(_spell(words.values), tf.int64)
    tokens, _ = self._wordpieces(spellings)  # [D, (T)]
    tokens = tf.gather(tokens, word_index)  # [P * (W), (T)]
    tokens = words.with_values(tokens).merge_dims(1, 2)  # [P, (T)]
    tokens = pieces.with_values(tf.gather(tokens, index))  # [N, (M), (T)]
    return tf.cast(tokens.merge_dims(1, 2), tf.int32)

  def tokenize_with_offsets(
    self, texts: tf.Tensor, unit: str = "char"
  ) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
    """Ids of the tokens and their spans in the original texts.

    A token's span is from the first to the last character that contributes to
    it. A separate accent is dropped and belongs to no token; a character that
    decomposes (Hangul) may belong to two.

    Args:
      texts: [N] string.
      unit: unit of the offsets: "byte", or "char" for the characters of
        `text.decode("utf-8", "replace")`.

    Returns:
      Ids, starts and limits, [N, (T)] int32 each: `text[start:limit]`.
    """
    if unit not in ("char", "byte"):
      raise ValueError(f'unit is {unit!r}; give "char" or "byte"')
    pieces = tf.strings.split(texts, " ")  # [N, (M)]
    distinct, index = tf.unique(pieces.values, tf.int64)
    chars, starts = tf.strings.unicode_decode_with_offsets(distinct, "UTF-8")
    if unit == "char":
      starts = tf.ragged.range(chars.row_lengths())
      lengths = chars.row_lengths()
    else:
      lengths = tf.cast(tf.strings.length(distinct), tf.int64)
    limits = tf.concat([starts, lengths[:, None]], axis=1)[:, 1:]

    words, sources = self.normalizer(chars)
    ids, first, last = self._spans(words.values)
    first = tf.gather(starts.values, tf.gather(sources, first))
    last = tf.gather(limits.values, tf.gather(sources, last))

    shift = _starts_in_line(pieces, tf.gather(lengths, index))

    def by_text(values, shift=None):
      values = words.with_values(ids.with_values(values)).merge_dims(1, 2)
      values = tf.gather(values, index)  # [N * (M), (T)]
      if shift is not None:
        values += tf.RaggedTensor.from_row_splits(
          tf.gather(shift, values.value_rowids()), values.row_splits
        )
      values = pieces.with_values(values).merge_dims(1, 2)
      return tf.cast(values, tf.int32)

    return by_text(ids.values), by_text(first, shift), by_text(last, shift)

  def tokens(self, ids: tf.Tensor | tf.RaggedTensor):
    """The tokens of ids: the same shape, string."""
    return tf.ragged.map_flat_values(
      lambda values: self._tokens.lookup(tf.cast(values, tf.int64)), ids
    )

  def _spans(self, words):
    """Ids of the pieces of each word, first and last character of each piece.

    Words are [W, (C)] int32 code points, ids [W, (T)] int64. First and last are
    int64 indices into `words.values` for each of the ids' values.
    """
    spellings, index = tf.unique(_spell(words), tf.int64)
    ids, limits = (tf.gather(v, index) for v in self._wordpieces(spellings))
    rows = ids.value_rowids()
    # A too long word is one piece, and not as long as "[UNK]".
    lengths = tf.gather(words.row_lengths(), rows)
    limits = tf.cast(limits.values, tf.int64)
    limits = tf.where(lengths > MAX_CHARS_PER_WORD, lengths, limits)
    # A piece starts where the one before it in the word ends.
    starts = tf.concat([[0], limits], axis=0)[:-1]
    starts = tf.where(rows == tf.concat([[-1], rows], 0)[:-1], starts, 0)
    word_starts = tf.gather(words.row_starts(), rows)
    return ids, word_starts + starts, word_starts + limits - 1


def _spell(words):
  """Words as strings, too long ones as [UNK]: [W, (C)] int32 -> [W]."""
  spellings = tf.strings.unicode_encode(words, "UTF-8")
  too_long = words.row_lengths() > MAX_CHARS_PER_WORD
  return tf.where(too_long, vocab.UNK, spellings)


def _starts_in_line(pieces, lengths):
  """Offset of each piece in its text, from the lengths of the pieces."""
  starts = tf.cumsum(lengths + 1, exclusive=True)  # 1 for the blank
  line_starts = tf.gather(pieces.row_starts(), pieces.value_rowids())
  return starts - tf.gather(starts, line_starts)


def _asset(vocabulary):
  """The vocabulary as a file in memory, one line for each id.

  The user's file may have duplicate lines or blanks around tokens, which lookup
  tables refuse, and may be removed before a model is saved.
  """
  # An id without a token gets a line that no token can equal.
  lines = [f" {index}" for index in range(max(vocabulary.values()) + 1)]
  for token, index in vocabulary.items():
    lines[index] = token or lines[index]
  folder = f"ram://vocabulary-{uuid.uuid4().hex}"
  tf.io.gfile.makedirs(folder)
  with tf.io.gfile.GFile(f"{folder}/vocab.txt", "w") as file:
    file.write("\n".join(lines) + "\n")
  return tf.saved_model.Asset(f"{folder}/vocab.txt")


def _table(asset, key_type, value_type, default):
  """A lookup table of a vocabulary file, from tokens to ids or back."""
  column = {
    tf.string: tf.lookup.TextFileIndex.WHOLE_LINE,
    tf.int64: tf.lookup.TextFileIndex.LINE_NUMBER,
  }
  return tf.lookup.StaticHashTable(
    tf.lookup.TextFileInitializer(
      asset.asset_path,
      key_dtype=key_type,
      key_index=column[key_type],
      value_dtype=value_type,
      value_index=column[value_type],
    ),
    default,
  )


class WordpieceSplitter:
  """WordpieceTokenizer of tokenization.py: the longest piece first.

  All words are split at once: each round of a loop matches the longest piece of
  every unfinished word, by one lookup. This takes half to two thirds of the
  time of tensorflow_text's WordpieceTokenizer.

  Arguments:
    ids: lookup table from pieces to ids, -1 if not in the vocabulary.
    longest: characters of the longest piece, including its "##".
    unk_token: piece of words that cannot be split.
  """

  def __init__(self, ids: tf.lookup.StaticHashTable, longest: int, unk_token):
    self._ids = ids
    self._longest = max(longest, len(_JOINER) + 1)
    self._unk_token = unk_token

  def __call__(
    self, words: tf.Tensor
  ) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
    """Splits words, [D] string, none of them empty.

    Returns:
      Ids [D, (T)] int64, and the end of each piece in its word, in
      characters, [D, (T)] int32.
    """
    # Most words are a single piece.
    word_ids = self._ids.lookup(words)  # [D]
    lengths = tf.strings.length(words, "UTF8_CHAR")
    known = tf.where(word_ids >= 0)[:, 0]
    unknown = tf.where(word_ids < 0)[:, 0]
    *_, rows, ids, limits = tf.while_loop(
      lambda rows, *_: tf.size(rows) > 0,
      self._match_pieces,
      (
        unknown,
        tf.gather(words, unknown),
        tf.zeros_like(unknown, tf.int32),
        known,
        tf.gather(word_ids, known),
        tf.gather(lengths, known),
      ),
      shape_invariants=(tf.TensorShape([None]),) * 6,
    )
    # Of a word that cannot be split, only the id -1 is used.
    failed = tf.scatter_nd(
      rows[:, None], tf.cast(ids < 0, tf.int32), tf.shape(words, tf.int64)
    )
    order = tf.argsort(rows, stable=True)
    order = tf.boolean_mask(
      order,
      (tf.gather(failed, tf.gather(rows, order)) == 0)
      | (tf.gather(ids, order) < 0),
    )
    rows, ids, limits = (tf.gather(v, order) for v in (rows, ids, limits))
    ids = tf.where(ids < 0, self._ids.lookup(tf.constant(self._unk_token)), ids)
    splits = tf.RaggedTensor.from_value_rowids(
      ids, rows, tf.size(words, tf.int64), validate=False
    )
    return splits, splits.with_values(limits)

  def _match_pieces(self, rows, rest, start, *pieces):
    """Matches the longest piece at the start of each unfinished word.

    Args:
      rows: [A] int64, indices of the words.
      rest: [A] string, their unmatched ends, with "##" behind a matched start.
      start: [A] int32, the number of matched characters.
      *pieces: rows [F] int64, ids [F] int64 and limits [F] int32 of matched
        pieces; id -1 marks a word that cannot be split.

    Returns arguments of the next round.
    """
    joiner = tf.where(start > 0, len(_JOINER), 0)
    lengths = tf.strings.length(rest, "UTF8_CHAR")
    tries = tf.ragged.range(
      joiner + 1,
      tf.minimum(lengths, self._longest) + 1,
      row_splits_dtype=tf.int64,
    )  # [A, (lengths to try)]
    tries, try_rows = tries.values, tries.value_rowids()
    prefixes = _substrings(tf.gather(rest, try_rows), 0, tries)
    ids = self._ids.lookup(prefixes)
    indices = tf.where(ids >= 0, tf.range(tf.size(ids)), -1)
    best = tf.math.segment_max(indices, try_rows)  # [A]

    matched = best >= 0
    best = tf.maximum(best, 0)
    used = tf.where(matched, tf.gather(tries, best), lengths)
    ids = tf.where(matched, tf.gather(ids, best), -1)
    limits = start + used - joiner
    pairs = zip(pieces, (rows, ids, limits), strict=True)
    pieces = [tf.concat(pair, 0) for pair in pairs]

    unfinished = tf.where(used < lengths)[:, 0]
    rest, used = tf.gather(rest, unfinished), tf.gather(used, unfinished)
    rest = _JOINER + _substrings(rest, used, _TO_THE_END)
    rows, start = tf.gather(rows, unfinished), tf.gather(limits, unfinished)
    return (rows, rest, start, *pieces)


def _substrings(strings, starts, lengths):
  """Substrings in characters, [n]; starts and lengths are [n] or scalar."""
  zeros = tf.zeros_like(strings, tf.int32)
  return tf.strings.substr(
    strings, zeros + starts, zeros + lengths, unit="UTF8_CHAR"
  )
