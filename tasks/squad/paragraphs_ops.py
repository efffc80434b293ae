"""Contexts to tokens and windows in the graph, and spans of tokens to text.

Legend: B contexts, M words, U distinct words, N tokens, W windows, D tokens of
the context in a window, S split characters, P spans of tokens. (M) is a ragged
dimension: the words of one context; [M] are the words of all contexts.
"""

from typing import NamedTuple

import tensorflow as tf

from data import vocab
from data.tokenization_ops import GraphTokenizer
from serving import packing_ops
from tasks.squad.examples import WHITESPACE

_BLANK = ord(" ")
# Odd, so that no power of it modulo 2 ** 64 is 0.
_BASE = 0x2545F4914F6CDD1D
# Start indices compared in one step: bounds the memory of a search.
_SEARCH_STEP = 4096


class Paragraphs(NamedTuple):
  """Contexts, split at whitespace and tokenized word by word."""

  words: tf.RaggedTensor  # [B, (M)] int64, indices of distinct words
  distinct_words: tf.Tensor  # [U] string, valid UTF-8
  starts: tf.Tensor  # [M] int64, first character of a word in its context
  ids: tf.RaggedTensor  # [B, (N)] int32
  token_word_ids: tf.Tensor  # [N] int64, index of a token's word among all


def read_paragraphs(
  contexts: tf.Tensor, tokenizer: GraphTokenizer
) -> Paragraphs:
  """Splits and tokenizes contexts, [B] string; U+FFFD for other than UTF-8."""
  contexts = tf.strings.unicode_transcode(contexts, "UTF-8", "UTF-8")
  words, starts, _ = packing_ops.split_words(contexts, WHITESPACE)
  distinct_words, index = tf.unique(words.values, tf.int64)
  ids = tf.gather(tokenizer.tokenize(distinct_words), index)  # [M, (tokens)]
  return Paragraphs(
    words=words.with_values(index),
    distinct_words=distinct_words,
    starts=tf.cast(starts.values, tf.int64),
    ids=words.with_values(ids).merge_dims(1, 2),
    token_word_ids=ids.value_rowids(),
  )


class Windows(NamedTuple):
  """Parts of contexts, in their order."""

  rows: tf.Tensor  # [W] int64, index of the context
  tokens: tf.RaggedTensor  # [W, (D)] int64, among the tokens of all contexts
  # [W, (D)] bool, True in the one window in which a token has most context.
  is_max_context: tf.RaggedTensor


def cut_windows(
  tokens: tf.RaggedTensor, max_length: tf.Tensor, doc_stride: int
) -> Windows:
  """Splits contexts into overlapping windows; none for one without tokens.

  `tokens` [B, (N)] are of any type, `max_length` [B] int64 bounds a window's
  part. If `doc_stride` exceeds it, windows adjoin.
  """
  lengths = tokens.row_lengths()
  stride = tf.minimum(tf.constant(doc_stride, tf.int64), max_length)
  further = -(-tf.maximum(lengths - max_length, 0) // stride)
  numbers = tf.ragged.range(tf.where(lengths > 0, further + 1, 0))
  rows = numbers.value_rowids()
  begin = numbers.values * tf.gather(stride, rows)
  end = tf.minimum(
    begin + tf.gather(max_length, rows), tf.gather(lengths, rows)
  )
  shift = tf.gather(tokens.row_starts(), rows)
  parts = tf.ragged.range(begin + shift, end + shift)
  count = tf.size(tokens.values, tf.int64)
  return Windows(rows, parts, _is_max_context(parts, count))


def _is_max_context(tokens, count):
  """Windows.is_max_context, by their tokens; `count` is N."""
  windows, length = tokens.value_rowids(), tokens.row_lengths()
  left = tf.ragged.range(length).values
  length = tf.gather(length, windows)
  context = tf.cast(tf.minimum(left, length - 1 - left), tf.float64)
  # The same float64 operations as in records.py: there are ties.
  context += tf.constant(0.01, tf.float64) * tf.cast(length, tf.float64)
  best = tf.math.unsorted_segment_max(context, tokens.values, count)
  best = context == tf.gather(best, tokens.values)
  first = tf.math.unsorted_segment_min(
    tf.where(best, windows, windows.dtype.max), tokens.values, count
  )
  return tokens.with_values(windows == tf.gather(first, tokens.values))


class GraphAnswerText:
  """Texts of spans of tokens.

  The tokens of a span are searched in the characters of their words as the
  basic tokenizer splits these. An offset is a number of characters other than
  blanks, counted through all contexts. Prefix sums give the number of these
  between any two split characters, and a hash of 64 bits to compare with.
  """

  def __init__(self, paragraphs: Paragraphs, tokenizer: GraphTokenizer):
    self._paragraphs = paragraphs
    self._tokenizer = tokenizer
    chars = tf.strings.unicode_decode(paragraphs.distinct_words, "UTF-8")
    split = _append_blanks(tokenizer.normalizer(chars))  # [U, (S)]
    words = paragraphs.words.values
    split = tf.gather(split, words)  # [M, (S)]
    # Of words, [M + 1]: first offset, and index of the first split character.
    self._offsets = _prefix_sums(tf.gather(chars.row_lengths(), words))
    self._splits = split.row_splits
    # Of split characters, [S + 1]: counts, powers of the hash, hashes.
    self._visible = _prefix_sums(tf.cast(split.values != _BLANK, tf.int64))
    base = tf.fill([tf.size(split.values) + 1], tf.constant(_BASE, tf.int64))
    self._powers = tf.math.cumprod(base, exclusive=True)
    codes = tf.cast(split.values, tf.int64)
    self._hashes = _prefix_sums(codes * self._powers[:-1])

  def find(
    self, first: tf.Tensor, last: tf.Tensor
  ) -> tuple[tf.Tensor, tf.Tensor]:
    """Locates the text of spans, from tokens `first` to `last`, [P] int64 each.

    Returns begin and end offsets, [P] int64: of the tokens' characters within
    their words, or of these words where the tokens are not found.
    """
    word_ids = self._paragraphs.token_word_ids
    words = tf.gather(word_ids, first), tf.gather(word_ids, last) + 1
    begin, end = (tf.gather(self._offsets, word) for word in words)
    split_begin, split_end = (tf.gather(self._splits, word) for word in words)
    tokens = tf.strings.unicode_decode(self._join(first, last), "UTF-8")
    start = self._search(tokens, split_begin, split_end)

    before = self._count(split_begin, tf.maximum(start, 0))
    blanks = tf.cast(tokens == _BLANK, tf.int64)
    length = tokens.row_lengths() - tf.reduce_sum(blanks, axis=1)
    counts_agree = self._count(split_begin, split_end) == end - begin
    is_part = counts_agree & (start >= 0)
    begin = tf.where(is_part, begin + before, begin)
    return begin, tf.where(is_part, begin + length, end)

  def texts(self, begin: tf.Tensor, end: tf.Tensor) -> tf.Tensor:
    """Texts between offsets, with one blank between words: [P] string."""
    first, last = self._words(begin, end)
    words = tf.gather(
      self._paragraphs.words.values, tf.ragged.range(first, last + 1)
    )
    words = tf.gather(self._paragraphs.distinct_words, words)
    return tf.strings.substr(
      tf.strings.reduce_join(words, axis=1, separator=" "),
      begin - tf.gather(self._offsets, first),
      end - begin + last - first,
      unit="UTF8_CHAR",
    )

  def characters(
    self, begin: tf.Tensor, end: tf.Tensor
  ) -> tuple[tf.Tensor, tf.Tensor]:
    """Offsets to characters of their context: [P] int64 each."""
    words = self._words(begin, end)
    return tuple(
      tf.gather(self._paragraphs.starts, word)
      + offset
      - tf.gather(self._offsets, word)
      for word, offset in zip(words, (begin, end), strict=True)
    )

  def _words(self, begin, end):
    """Words of the first and last character between offsets: [P] int64."""
    return tuple(
      tf.searchsorted(self._offsets, offset, "right", tf.int64) - 1
      for offset in (begin, end - 1)
    )

  def _join(self, first, last):
    """Text of tokens, pieces of a word without blanks between: [P]."""
    ids = tf.gather(
      self._paragraphs.ids.values, tf.ragged.range(first, last + 1)
    )
    texts = tf.strings.reduce_join(
      self._tokenizer.tokens(ids), axis=1, separator=" "
    )
    texts = tf.strings.regex_replace(texts, " ##", "")
    texts = tf.strings.regex_replace(texts, "##", "")
    # Brackets are words of their own: "[UNK]" never occurs in a text.
    is_unknown = tf.reduce_any(ids == self._tokenizer.vocab[vocab.UNK], axis=1)
    return tf.where(is_unknown, "", texts)

  def _count(self, begin, end):
    """Split characters other than blanks between indices: [P]."""
    return tf.gather(self._visible, end) - tf.gather(self._visible, begin)

  def _search(self, texts, begin, end):
    """First occurrence of texts among split characters `begin` to `end`.

    `texts` are [P, (characters)] int32 code points, the others and the result
    [P] int64, -1 where a text is empty or does not occur.
    """
    size = tf.size(self._visible, tf.int64) - 1
    lengths = texts.row_lengths()
    powers = tf.gather(
      self._powers, tf.minimum(tf.ragged.range(lengths).values, size)
    )
    expected = texts.with_values(tf.cast(texts.values, tf.int64) * powers)
    expected = tf.reduce_sum(expected, axis=1)[:, None]
    last = tf.where(lengths > 0, end - lengths, -1)
    nowhere = tf.int64.max
    step = tf.clip_by_value(tf.reduce_max(last - begin) + 1, 1, _SEARCH_STEP)

    def search_step(result, start):
      indices = start[:, None] + tf.range(step)  # [P, step]
      starts = tf.minimum(indices, size)
      limits = tf.minimum(indices + lengths[:, None], size)
      sums = tf.gather(self._hashes, limits) - tf.gather(self._hashes, starts)
      same = sums == expected * tf.gather(self._powers, starts)
      same &= indices <= last[:, None]
      indices = tf.where(same, indices, nowhere)
      return tf.minimum(result, tf.reduce_min(indices, axis=1)), start + step

    result, _ = tf.while_loop(
      lambda result, start: tf.reduce_any(
        (result == nowhere) & (start <= last)
      ),
      search_step,
      (tf.fill(tf.shape(begin), nowhere), begin),
    )
    return tf.where(result == nowhere, tf.constant(-1, tf.int64), result)


def _append_blanks(words):
  """Appends a blank to each word: [U, (words), (C)] -> [U, (S)] int32."""
  count = words.values.nrows()
  blanks = tf.RaggedTensor.from_uniform_row_length(
    tf.fill([count], _BLANK), 1, count
  )
  closed = tf.concat([words.values, blanks], axis=1)
  return words.with_values(closed).merge_dims(1, 2)


def _prefix_sums(values):
  """Sums of the first 0, 1, ... values: [n] int64 -> [n + 1]."""
  return tf.concat([[0], tf.cumsum(values)], axis=0)
