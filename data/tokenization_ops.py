"""The tokenizer, and the rows of features.py, as TensorFlow operations.

Legend: N texts, P distinct pieces between blanks, D distinct words, A words to
split, F matched word pieces. Ragged dimensions are in parentheses: (M) pieces
of a text, (W) words of a piece, (C) characters of a word, (T) tokens of a text,
piece or word.
"""

import types
import uuid

import tensorflow as tf

from data import vocab
from data.normalization_ops import Normalizer
from data.tokenization import JOINER, MAX_CHARS_PER_WORD, FullTokenizer

_TO_THE_END = 2**31 - 1


class GraphTokenizer(tf.Module):
  """Splits text by TensorFlow operations.

  Raises ValueError if the vocabulary lacks [UNK]. Drops bytes that are not
  UTF-8. Pass thousands of lines at a time, because repeated pieces and words
  cost little. A SavedModel stores the vocabulary as an asset.
  """

  def __init__(self, tokenizer: FullTokenizer):
    super().__init__(name="tokenizer")
    tokenizer.check("unknown")
    # tf.Module would wrap and track a dict, but not a read-only view.
    self.vocab = types.MappingProxyType(tokenizer.vocab)
    self.normalizer = Normalizer(tokenizer.do_lower_case)
    self._asset = _asset(self.vocab)
    self._ids = _table(self._asset, tf.string, tf.int64, -1)
    self._tokens = _table(self._asset, tf.int64, tf.string, vocab.UNK)
    self._longest = max(len(JOINER) + 1, *map(len, self.vocab))

  def tokenize(self, texts: tf.Tensor) -> tf.RaggedTensor:
    """Ids of the tokens of each text: [N] string -> [N, (T)] int32."""
    pieces = tf.strings.split(texts, " ")  # [N, (M)]
    distinct, index = tf.unique(pieces.values, tf.int64)  # [P], [N * (M)]
    words = self.normalizer(tf.strings.unicode_decode(distinct, "UTF-8"))
    spellings = tf.strings.unicode_encode(words.values, "UTF-8")  # [P * (W)]
    too_long = words.values.row_lengths() > MAX_CHARS_PER_WORD
    spellings = tf.where(too_long, vocab.UNK, spellings)
    spellings, word_index = tf.unique(spellings, tf.int64)
    tokens = self._wordpieces(spellings)  # [D, (T)]
    tokens = tf.gather(tokens, word_index)  # [P * (W), (T)]
    tokens = words.with_values(tokens).merge_dims(1, 2)  # [P, (T)]
    tokens = pieces.with_values(tf.gather(tokens, index))  # [N, (M), (T)]
    return tf.cast(tokens.merge_dims(1, 2), tf.int32)

  def tokens(self, ids: tf.Tensor | tf.RaggedTensor):
    """Tokens of ids: a string tensor of the same shape."""
    ids = tf.cast(ids, tf.int64)
    return tf.ragged.map_flat_values(self._tokens.lookup, ids)

  def _wordpieces(self, words):
    """Ids of the pieces of words: [D] string, none empty -> [D, (T)] int64.

    Each round of a loop matches the longest piece of every unfinished word.
    The loop takes half to two thirds of the time that tensorflow_text takes.
    """
    # Most words are a single piece.
    word_ids = self._ids.lookup(words)  # [D]
    known = tf.where(word_ids >= 0)[:, 0]
    unknown = tf.where(word_ids < 0)[:, 0]
    known_ids = tf.gather(word_ids, known)
    vector, scalar = tf.TensorShape([None]), tf.TensorShape([])
    *_, rows, ids = tf.while_loop(
      lambda rows, *_: tf.size(rows) > 0,
      self._match_pieces,
      (unknown, tf.gather(words, unknown), 0, known, known_ids),
      shape_invariants=(vector, vector, scalar, vector, vector),
    )
    # A word that cannot be split keeps only the id -1, and becomes [UNK] below.
    is_failed = tf.cast(ids < 0, tf.int32)
    failed = tf.scatter_nd(rows[:, None], is_failed, tf.shape(words, tf.int64))
    order = tf.argsort(rows, stable=True)
    rows, ids = tf.gather(rows, order), tf.gather(ids, order)
    is_used = (tf.gather(failed, rows) == 0) | (ids < 0)
    rows, ids = tf.boolean_mask(rows, is_used), tf.boolean_mask(ids, is_used)
    ids = tf.where(ids < 0, self._ids.lookup(tf.constant(vocab.UNK)), ids)
    number = tf.size(words, tf.int64)
    return tf.RaggedTensor.from_value_rowids(ids, rows, number, validate=False)

  def _match_pieces(self, rows, rest, joiner, piece_rows, piece_ids):
    """Matches the longest piece at the start of each unfinished word.

    `rows` [A] int64 are the words' indices. `rest` [A] are the unmatched ends.
    In the first round `joiner` is 0. Later every end begins with "##", and
    `joiner` is the length of "##". `piece_rows` [F] and `piece_ids` [F] are the
    word and the id of each match. The id is -1 for no match.
    """
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
    piece_rows = tf.concat([piece_rows, rows], 0)
    piece_ids = tf.concat([piece_ids, ids], 0)

    unfinished = tf.where(used < lengths)[:, 0]
    rows = tf.gather(rows, unfinished)
    rest, used = tf.gather(rest, unfinished), tf.gather(used, unfinished)
    rest = JOINER + _substrings(rest, used, _TO_THE_END)
    return rows, rest, len(JOINER), piece_rows, piece_ids


def _asset(vocabulary):
  """The vocabulary as a file in memory, without duplicate or blank lines."""
  tokens = {index: token for token, index in vocabulary.items()}
  # An id without a token gets a line with a leading blank, unlike any token.
  lines = [tokens.get(index) or f" {index}" for index in range(max(tokens) + 1)]
  folder = f"ram://vocabulary-{uuid.uuid4().hex}"
  tf.io.gfile.makedirs(folder)
  with tf.io.gfile.GFile(f"{folder}/vocab.txt", "w") as file:
    file.write("\n".join(lines) + "\n")
  return tf.saved_model.Asset(f"{folder}/vocab.txt")


def _table(asset, key_type, value_type, default):
  kinds = tf.lookup.TextFileIndex
  column = {tf.string: kinds.WHOLE_LINE, tf.int64: kinds.LINE_NUMBER}
  initializer = tf.lookup.TextFileInitializer(
    asset.asset_path, key_type, column[key_type], value_type, column[value_type]
  )
  return tf.lookup.StaticHashTable(initializer, default)


def _substrings(strings, starts, lengths):
  """Substrings in characters, [n]; starts and lengths are [n] or scalar."""
  zeros = tf.zeros_like(strings, tf.int32)
  return tf.strings.substr(
    strings, zeros + starts, zeros + lengths, unit="UTF8_CHAR"
  )


# --- Rows ------------------------------------------------------------------


def truncate_pair(
  first: tf.RaggedTensor, second: tf.RaggedTensor, limit: int
) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
  """Truncates each pair of texts, [N, (T)], to `limit` tokens, [] or [N]."""
  a, b = first.row_lengths(), second.row_lengths()
  # Each text gets half of the limit, and more if the other text is shorter.
  a = tf.minimum(a, tf.maximum(limit - b, (limit + 1) // 2))
  b = tf.minimum(b, limit - a)
  return _truncate_rows(first, a), _truncate_rows(second, b)


def _truncate_rows(ids, lengths):
  """Keeps the first `lengths` tokens of each row: [N, (T)], [N] -> [N, (T)]."""
  positions = tf.ragged.range(ids.row_lengths())
  is_inside = positions.values < tf.gather(lengths, positions.value_rowids())
  return tf.ragged.boolean_mask(ids, ids.with_values(is_inside))


def join(
  first: tf.RaggedTensor,
  second: tf.RaggedTensor | None,
  cls: int,
  sep: int,
  has_second: tf.Tensor | None = None,
) -> dict[str, tf.Tensor]:
  """Rows of [CLS] first [SEP], or of [CLS] first [SEP] second [SEP].

  Texts are [N, (T)] int32. `second` is None if no row has a second text;
  otherwise `has_second` [N] int64 is 1 for rows with a second text. Returns
  `input_ids`, `input_mask`, `segment_ids`: [N, T] int32, padded with zeros.
  """
  once = tf.ones([first.nrows()], tf.int64)
  parts = [repeat(cls, once), first, repeat(sep, once)]
  if second is not None:
    parts += [second, repeat(sep, has_second)]
  ids = tf.concat(parts, axis=1)
  padded = ids.to_tensor()
  # An empty batch gets the width of [CLS] [SEP].
  padded = tf.pad(padded, [[0, 0], [0, tf.maximum(2 - tf.shape(padded)[1], 0)]])
  width = tf.shape(padded)[1]
  mask = tf.sequence_mask(ids.row_lengths(), width, tf.int32)
  in_first = tf.sequence_mask(first.row_lengths() + 2, width, tf.int32)
  inputs = {"input_ids": padded, "input_mask": mask}
  return inputs | {"segment_ids": mask - in_first}


def repeat(token: int, counts: tf.Tensor) -> tf.RaggedTensor:
  """Rows that repeat a token `counts` times: [N] int64 -> [N, (T)] int32."""
  tokens = tf.fill([tf.reduce_sum(counts)], token)
  return tf.RaggedTensor.from_row_lengths(tokens, counts)
