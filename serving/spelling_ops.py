"""From tokens back to text in the graph, as evaluation/squad_text.py does it.

The text that some tokens make is looked for among the characters of their
words, as the tokenizer splits these. All contexts of a batch are laid out one
after the other, once, and sums over them answer every question about a stretch
of them: how many characters that are not blank it has, and whether it is equal
to a text (by a hash of 64 bits).

Legend: B contexts, W words of all contexts, U distinct words, S characters of
all contexts as the tokenizer splits them, M spans of tokens, L characters of a
span. A ragged dimension is in parentheses.
"""

import tensorflow as tf

from data import vocab
from data.tokenization_ops import GraphTokenizer
from serving.paragraphs_ops import Paragraphs

_BLANK = ord(" ")
# Odd, so that no power of it modulo 2 ** 64 is 0.
_BASE = 0x2545F4914F6CDD1D
# Places that are looked at in one go: bounds the memory of a search.
_AT_ONCE = 4096


class Speller:
  """Finds the texts of spans of tokens.

  A place is a number of characters that are not blank, counted through all
  contexts.

  Arguments:
    paragraphs: what the tokens are of.
    tokenizer: what they were made with.
  """

  def __init__(self, paragraphs: Paragraphs, tokenizer: GraphTokenizer):
    self._paragraphs = paragraphs
    self._tokenizer = tokenizer
    chars = tf.strings.unicode_decode(paragraphs.spellings, "UTF-8")
    split = _with_blanks(tokenizer.normalizer(chars)[0])  # [U, (S)]
    words = paragraphs.words.values
    self._chars = _sums(tf.gather(chars.row_lengths(), words))  # [W + 1]
    split = tf.gather(split, words)  # [W, (S)]
    self._splits = split.row_splits  # [W + 1]
    self._visible = _sums(tf.cast(split.values != _BLANK, tf.int64))  # [S + 1]
    base = tf.fill([tf.size(split.values) + 1], tf.constant(_BASE, tf.int64))
    self._powers = tf.math.cumprod(base, exclusive=True)  # [S + 1]
    codes = tf.cast(split.values, tf.int64)
    self._hashes = _sums(codes * self._powers[:-1])  # [S + 1]

  def find(self, first, last) -> tuple[tf.Tensor, tf.Tensor]:
    """Where the contexts spell spans of tokens.

    Args:
      first: [M] int64, number of the first token, through all contexts.
      last: [M] int64, number of the last, in the same context.

    Returns:
      Places where they begin and end, [M] int64 each: those of their words; of
      the first and the last word what the tokens say, or all of them where
      that cannot be told.
    """
    owners = self._paragraphs.owners
    word, beyond = tf.gather(owners, first), tf.gather(owners, last) + 1
    begin, end = (tf.gather(self._chars, at) for at in (word, beyond))
    split_begin, split_end = (
      tf.gather(self._splits, at) for at in (word, beyond)
    )
    tokens = tf.strings.unicode_decode(self._join(first, last), "UTF-8")
    start = self._search(tokens, split_begin, split_end)

    before = self._count(split_begin, tf.maximum(start, 0))
    blanks = tf.cast(tokens == _BLANK, tf.int64)
    length = tokens.row_lengths() - tf.reduce_sum(blanks, axis=1)
    countable = self._count(split_begin, split_end) == end - begin
    is_part = countable & (start >= 0)
    begin = tf.where(is_part, begin + before, begin)
    return begin, tf.where(is_part, begin + length, end)

  def texts(self, begin: tf.Tensor, end: tf.Tensor) -> tf.Tensor:
    """What is between places, with one blank between words: [M] string."""
    first, last = self._words(begin, end)
    words = tf.gather(
      self._paragraphs.words.values, tf.ragged.range(first, last + 1)
    )
    words = tf.gather(self._paragraphs.spellings, words)
    return tf.strings.substr(
      tf.strings.reduce_join(words, axis=1, separator=" "),
      begin - tf.gather(self._chars, first),
      end - begin + last - first,
      unit="UTF8_CHAR",
    )

  def characters(self, begin, end) -> tuple[tf.Tensor, tf.Tensor]:
    """The same two places in characters of their context: [M] int64 each."""
    words = self._words(begin, end)
    return tuple(
      tf.gather(self._paragraphs.starts, word)
      + place
      - tf.gather(self._chars, word)
      for word, place in zip(words, (begin, end), strict=True)
    )

  def _words(self, begin, end):
    """The words of the first and last character between places: [M] int64."""
    return tuple(
      tf.searchsorted(self._chars, place, side="right", out_type=tf.int64) - 1
      for place in (begin, end - 1)
    )

  def _join(self, first, last):
    """The text of tokens, pieces of a word without blanks between: [M]."""
    ids = tf.gather(
      self._paragraphs.ids.values, tf.ragged.range(first, last + 1)
    )
    texts = tf.strings.reduce_join(
      self._tokenizer.tokens(ids), axis=1, separator=" "
    )
    texts = tf.strings.regex_replace(texts, " ##", "")
    texts = tf.strings.regex_replace(texts, "##", "")
    # Brackets are words of their own: "[UNK]" is never found.
    is_unknown = tf.reduce_any(ids == self._tokenizer.vocab[vocab.UNK], axis=1)
    return tf.where(is_unknown, "", texts)

  def _count(self, begin, end):
    """Characters that are not blank, as the tokenizer splits: [M]."""
    return tf.gather(self._visible, end) - tf.gather(self._visible, begin)

  def _search(self, texts, begin, end):
    """Where texts first occur in the characters as the tokenizer splits them.

    Args:
      texts: [M, (L)] int32 code points.
      begin: [M] int64, where to begin.
      end: [M] int64, where to end.

    Returns:
      [M] int64, -1 where it is nowhere or there is no text.
    """
    size = tf.size(self._visible, tf.int64) - 1
    lengths = texts.row_lengths()
    powers = tf.gather(
      self._powers, tf.minimum(tf.ragged.range(lengths).values, size)
    )
    wanted = texts.with_values(tf.cast(texts.values, tf.int64) * powers)
    wanted = tf.reduce_sum(wanted, axis=1)[:, None]
    last = tf.where(lengths > 0, end - lengths, -1)
    nowhere = tf.int64.max
    at_once = tf.clip_by_value(tf.reduce_max(last - begin) + 1, 1, _AT_ONCE)

    def go_on(found, place):
      places = place[:, None] + tf.range(at_once)  # [M, places]
      starts = tf.minimum(places, size)
      limits = tf.minimum(places + lengths[:, None], size)
      sums = tf.gather(self._hashes, limits) - tf.gather(self._hashes, starts)
      same = sums == wanted * tf.gather(self._powers, starts)
      same &= places <= last[:, None]
      places = tf.where(same, places, nowhere)
      return tf.minimum(found, tf.reduce_min(places, axis=1)), place + at_once

    found, _ = tf.while_loop(
      lambda found, place: tf.reduce_any((found == nowhere) & (place <= last)),
      go_on,
      (tf.fill(tf.shape(begin), nowhere), begin),
    )
    return tf.where(found == nowhere, tf.constant(-1, tf.int64), found)


def _with_blanks(words):
  """Words with a blank behind each: [U, (words), (C)] -> [U, (S)] int32."""
  count = words.values.nrows()
  blanks = tf.RaggedTensor.from_uniform_row_length(
    tf.fill([count], _BLANK), 1, count
  )
  closed = tf.concat([words.values, blanks], axis=1)
  return words.with_values(closed).merge_dims(1, 2)


def _sums(values):
  """Sums of the first 0, 1, ... values: [n] int64 -> [n + 1]."""
  return tf.concat([[0], tf.cumsum(values)], axis=0)
