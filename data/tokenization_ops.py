"""The tokenizer of tokenization.py as TensorFlow operations.

A batch is split at blanks into pieces; only distinct pieces are normalized
(normalization_ops.py), and only distinct words are split into word pieces
(wordpiece_ops.py). All operations are TensorFlow's own, so a SavedModel needs
no other library.

Legend: N texts, (M) pieces of a text, separated by blanks, P
distinct pieces, (W) words of a piece, D distinct words, (C) characters of a
word, (T) tokens. A ragged dimension is in parentheses.
"""

import os
import types
import uuid
from collections.abc import Mapping

import tensorflow as tf

from data import vocab
from data.graph.normalization_ops import Normalizer
from data.graph.wordpiece_ops import WordpieceSplitter

MAX_CHARS_PER_WORD = 200  # Longer words are unknown, as in the specification.


class GraphTokenizer(tf.Module):
  """Text to word pieces, as TensorFlow operations.

  Bytes that are not UTF-8 are dropped. Call the methods inside a tf.function or
  tf.data pipeline, with some thousand lines at a time, as repeated words cost
  little.

  In a SavedModel the vocabulary is an asset.

  Args:
    vocabulary: path of a vocabulary file, or ids by token.
    do_lower_case: whether to lower-case and to strip accents.

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
    """Ids of the tokens of each text.

    Args:
      texts: [N] string, UTF-8.

    Returns:
      [N, (T)] int32.
    """
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
      texts: [N] string, UTF-8.
      unit: unit of the offsets: "byte", or "char" for the characters of
        `text.decode("utf-8", "replace")`.

    Returns:
      Ids, starts and limits: [N, (T)] int32 each; a token is at
      `text[start:limit]`.
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

    Args:
      words: [W, (C)] int32 code points.

    Returns:
      Ids [W, (T)] int64; first and last, int64 indices into `words.values` for
      each of the ids' values.
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
