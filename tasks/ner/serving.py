"""Sentences to tags of their words in the graph.

Legend: B sentences, W words of the longest one, N words of all, P windows, T
tokens, L tags. A ragged dimension is in parentheses.
"""

from collections.abc import Sequence

import tensorflow as tf

from data import vocab
from data.tokenization_ops import GraphTokenizer
from serving import packing_ops
from tasks.ner import records


class TokenClassification(packing_ops.PackedTexts):
  """Serving task (serving.export.Task) of run_ner.py.

  Words are separated by blanks (U+0020), tabs and line breaks. A sentence of
  more than T tokens is split into windows with context from the sentence, which
  is its own document. `tags` are in the order of the logits.
  """

  def __init__(
    self, tokenizer: GraphTokenizer, seq_length: int, tags: Sequence[str]
  ):
    texts = {"tokens": tf.TensorSpec([None], tf.string)}
    tokens = (vocab.CLS, vocab.SEP, vocab.UNK)
    super().__init__(tokenizer, seq_length, texts, tokens)
    self._max_pieces = seq_length - 2
    self._tags = tags
    self._unk = tokenizer.vocab[vocab.UNK]

  def from_text(self, model, tokens: tf.Tensor) -> dict[str, tf.Tensor]:
    """Tags of the words of sentences, [B] string, by `logits` [P, T, L].

    Returns `words` and `tags` [B, W], padded with ""; `probabilities` [B, W,
    L]; `labels` [B, L], names of the tags; `start` and `end` [B, W], of words
    in characters of the sentence, padded with -1; `num_words` [B].
    """
    words, begin, end = packing_ops.split_words(tokens, " \t\r\n")
    pieces = self._pieces(words.values)
    windows, window, position = _word_windows(
      pieces, tf.cast(words.row_splits, tf.int64), self._max_pieces
    )
    inputs = packing_ops.join(windows, None, *self._ends)
    logits = packing_ops.token_logits(model, inputs, len(self._tags))
    positions = tf.stack([window, 1 + position], axis=1)
    outputs = {
      name: words.with_values(values).to_tensor()
      for name, values in self._outputs(tf.gather_nd(logits, positions)).items()
    }
    return outputs | {
      "labels": self._labels(words.nrows()),
      "words": words.to_tensor(),
      "start": begin.to_tensor(-1),
      "end": end.to_tensor(-1),
      "num_words": tf.cast(words.row_lengths(), tf.int32),
    }

  def from_features(self, model, **inputs: tf.Tensor) -> dict[str, tf.Tensor]:
    """`tags` [P, T], `probabilities` [P, T, L], `labels` [P, L] of tokens."""
    logits = model(inputs, training=False)["logits"]
    return self._outputs(logits) | {"labels": self._labels(tf.shape(logits)[0])}

  def _pieces(self, words):
    """Ids of words, truncated; [UNK] for a word without any: [N, (T)]."""
    ids = self._tokenizer.tokenize(words)[:, : self._max_pieces]
    is_empty = tf.cast(ids.row_lengths() == 0, tf.int64)
    return tf.concat([ids, packing_ops.repeat(self._unk, is_empty)], axis=1)

  def _outputs(self, logits):
    best = tf.argmax(logits, axis=-1)
    return {
      "tags": tf.gather(tf.constant(self._tags), best),
      "probabilities": tf.nn.softmax(logits),
    }

  def _labels(self, rows):
    return tf.tile(tf.constant(self._tags)[None], [rows, 1])


def _word_windows(pieces, splits, max_pieces):
  """Splits sentences as TagRecordBuilder does, each its own document.

  `pieces` [N, (T)] are ids of words, 1 to `max_pieces` each, `splits` [B + 1]
  int64 the first word of each sentence, and N. Returns ids of windows with
  their context, [P, (T)]; index of each word's window, and of its first piece
  there, [N].
  """
  starts = pieces.row_splits  # [N + 1], of words, in pieces
  borders = tf.gather(starts, splits)  # [B + 1], of sentences, in pieces
  sentence = _last_index(tf.range(pieces.nrows() + 1), splits)  # [N + 1]
  begin = _window_starts(starts, splits, borders, sentence, max_pieces)  # [P]
  end = tf.concat([begin[1:], splits[-1:]], axis=0)
  inside = tf.gather(sentence, begin)
  first, last = tf.gather(borders, inside), tf.gather(borders, inside + 1)
  left, right = records.add_context(
    *(tf.gather(starts, begin) - first, tf.gather(starts, end) - first),
    *(last - first, max_pieces, tf.minimum, tf.maximum),
  )
  window = tf.repeat(tf.range(tf.size(begin, tf.int64)), end - begin)
  return (
    tf.gather(pieces.values, tf.ragged.range(first + left, first + right)),
    window,
    starts[:-1] - tf.gather(first + left, window),
  )


def _window_starts(starts, splits, borders, sentence, max_pieces):
  """First words of windows, as records.split_long: [P] int64."""
  num_words = tf.size(starts, tf.int64) - 1
  total = borders[1:] - borders[:-1]  # [B]
  parts = tf.maximum(-(-total // max_pieces), 1)
  target = tf.concat([-(-total // parts), [0]], axis=0)  # [B + 1]
  # End, in pieces, of a window that begins with this word.
  limit = starts + tf.gather(target, sentence)
  following = _last_index(limit, starts)  # [N + 1]
  following = tf.maximum(following, tf.range(num_words + 1) + 1)
  ends = tf.concat([splits[1:], [num_words]], axis=0)
  return _follow(tf.minimum(following, tf.gather(ends, sentence)))


def _last_index(values, ascending):
  """Index of the last of `ascending` not above each value: [n] -> [n]."""
  return tf.searchsorted(ascending, values, "right", tf.int64) - 1


def _follow(following):
  """Indices visited from 0 on, by the next one of each, without the last."""
  end = tf.size(following, tf.int64) - 1

  def double(indices, following):
    farther = tf.gather(following, indices)
    return tf.concat([indices, farther], 0), tf.gather(following, following)

  indices, _ = tf.while_loop(
    lambda indices, _: indices[-1] < end,
    double,
    (tf.zeros([1], tf.int64), following),
    shape_invariants=(tf.TensorShape([None]),) * 2,
  )
  return tf.boolean_mask(indices, indices < end)
