"""Sentences to the tags of their words, as run_ner.py has them.

Legend: B sentences, W words of the longest one, N words of all, P windows, T
tokens, L tags. A ragged dimension is in parentheses.
"""

from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf

from data import features, vocab
from data.tokenization_ops import GraphTokenizer
from serving import packing_ops, portions


class Tagging(tf.Module):
  """What a SavedModel of a tagger does.

  Words are what blanks (U+0020), tabs and line breaks separate; other blanks
  are parts of words, as in data/tasks/conll.py. A sentence that is too long is
  cut into windows, each with context from the sentence (data/tasks/tagging.py);
  it is its own document also for a model that was trained with --max_context.

  Arguments:
    tokenizer: text to ids.
    seq_length: most tokens of a window.
    tags: L names, in the order of the model's.

  Attributes:
    texts: what `from_text` takes, by name.
    schema: of the records that `from_features` takes.

  Raises:
    ValueError: the vocabulary lacks a special token.
  """

  def __init__(
    self, tokenizer: GraphTokenizer, seq_length: int, tags: Sequence[str]
  ):
    super().__init__(name="tagging")
    vocab.require(tokenizer.vocab, (vocab.CLS, vocab.SEP, vocab.UNK))
    self.texts = {"tokens": tf.TensorSpec([None], tf.string)}
    self.schema = features.Schema(*features.tokens(seq_length))
    self._tokenizer = tokenizer
    self._room = seq_length - 2
    self._tags = tags
    self._cls = tokenizer.vocab[vocab.CLS]
    self._sep = tokenizer.vocab[vocab.SEP]
    self._unk = tokenizer.vocab[vocab.UNK]

  def from_text(self, model, tokens: tf.Tensor) -> dict[str, tf.Tensor]:
    """Tags of the words of sentences.

    Args:
      model: from a dict of inputs to `logits` [P, T, L].
      tokens: [B] string; sentences, their words separated by blanks.

    Returns:
      `words` and `tags` [B, W], filled up with ""; `probabilities` [B, W, L];
      `labels` [B, L], the tags they are of; `begin` and `end` [B, W], where in
      the sentence a word is, in characters, filled up with -1; `num_words` [B].
    """
    words, begin, end = split(tokens)
    pieces = self._pieces(words.values)
    rows, window, position = windows(
      pieces, tf.cast(words.row_splits, tf.int64), self._room
    )
    inputs = packing_ops.join(rows, None, self._cls, self._sep)
    logits = portions.of_tokens(model, inputs, len(self._tags))
    places = tf.stack([window, 1 + position], axis=1)
    of_words = self._answers(tf.gather_nd(logits, places))
    answers = {
      name: words.with_values(values).to_tensor()
      for name, values in of_words.items()
    }
    return answers | {
      "labels": self._labels(words.nrows()),
      "words": words.to_tensor(),
      "begin": begin.to_tensor(-1),
      "end": end.to_tensor(-1),
      "num_words": tf.cast(words.row_lengths(), tf.int32),
    }

  def from_features(self, model, **inputs: tf.Tensor) -> dict[str, tf.Tensor]:
    """Tags of tokens, of which only the first of each word was trained.

    Args:
      model: as in `from_text`.
      inputs: `input_ids`, `input_mask`, `segment_ids`, [P, T] int32 each.

    Returns:
      `tags` [P, T], `probabilities` [P, T, L], `labels` [P, L].
    """
    logits = model(inputs, training=False)["logits"]
    labels = self._labels(tf.shape(logits)[0])
    return self._answers(logits) | {"labels": labels}

  def _pieces(self, words):
    """Ids of words, at least one and at most as many as fit: [N, (T)]."""
    ids = packing_ops.truncate(self._tokenizer.tokenize(words), self._room)
    nothing = tf.cast(ids.row_lengths() == 0, tf.int64)
    unknown = tf.RaggedTensor.from_row_lengths(
      tf.fill([tf.reduce_sum(nothing)], self._unk), nothing
    )
    return tf.concat([ids, unknown], axis=1)

  def _answers(self, logits):
    best = tf.argmax(logits, axis=-1)
    return {
      "tags": tf.gather(tf.constant(self._tags), best),
      "probabilities": tf.nn.softmax(logits),
    }

  def _labels(self, number):
    return tf.tile(tf.constant(self._tags)[None], [number, 1])


def split(
  sentences: tf.Tensor,
) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
  """Words of sentences, as they stand there.

  Args:
    sentences: [B] string.

  Returns:
    Words [B, (W)] string; where they begin and end, [B, (W)] int32, in
    characters of `sentence.decode("utf-8", "replace")`.
  """
  sentences = tf.strings.regex_replace(sentences, "[\t\r\n]", " ")
  pieces = tf.strings.split(sentences, " ")  # [B, (W and empty ones)]
  chars = tf.strings.unicode_decode(pieces.values, "UTF-8")
  lengths = tf.cast(chars.row_lengths(), tf.int32)
  begin = tf.cumsum(lengths + 1, exclusive=True)  # 1 for the blank
  first = tf.gather(pieces.row_starts(), pieces.value_rowids())
  begin -= tf.gather(begin, first)
  is_word = pieces.with_values(tf.strings.length(pieces.values) > 0)
  found = (pieces.values, begin, begin + lengths)
  words, begin, end = (
    tf.ragged.boolean_mask(pieces.with_values(values), is_word)
    for values in found
  )
  return words, begin, end


class Windows(NamedTuple):
  """Sentences cut into what a model takes.

  Attributes:
    pieces: [P, (T)] int32 ids, those of context included.
    window: [N] int64, which of them a word belongs to.
    position: [N] int64, where in it the word's first piece is.
  """

  pieces: tf.RaggedTensor
  window: tf.Tensor
  position: tf.Tensor


def windows(pieces: tf.RaggedTensor, splits: tf.Tensor, room: int) -> Windows:
  """Cuts sentences as tagging.Builder does, each its own document.

  Args:
    pieces: [N, (T)] int32 ids of words, each with one piece at least and
      `room` at most.
    splits: [B + 1] int64, numbers of the words with which sentences begin; and
      the end.
    room: number of pieces that a window can have.
  """
  starts = pieces.row_splits  # [N + 1], of words, in pieces
  borders = tf.gather(starts, splits)  # [B + 1], of sentences, in pieces
  sentence = _last_up_to(tf.range(pieces.nrows() + 1), splits)  # [N + 1]
  begin = _begins(starts, splits, borders, sentence, room)  # [P]
  end = tf.concat([begin[1:], splits[-1:]], axis=0)
  inside = tf.gather(sentence, begin)
  left, right = _around(
    tf.gather(starts, begin),
    tf.gather(starts, end),
    tf.gather(borders, inside),
    tf.gather(borders, inside + 1),
    room,
  )
  window = tf.repeat(tf.range(tf.size(begin, tf.int64)), end - begin)
  return Windows(
    tf.gather(pieces.values, tf.ragged.range(left, right)),
    window,
    starts[:-1] - tf.gather(left, window),
  )


def _begins(starts, splits, borders, sentence, room):
  """The words with which windows begin, as tagging.cut has it: [P] int64."""
  words = tf.size(starts, tf.int64) - 1
  total = borders[1:] - borders[:-1]  # [B]
  parts = tf.maximum(-(-total // room), 1)
  target = tf.concat([-(-total // parts), [0]], axis=0)  # [B + 1]
  # How far a window would reach that begins with this word.
  reach = starts + tf.gather(target, sentence)
  following = _last_up_to(reach, starts)  # [N + 1]
  following = tf.maximum(following, tf.range(words + 1) + 1)
  ends = tf.concat([splits[1:], [words]], axis=0)
  return _path(tf.minimum(following, tf.gather(ends, sentence)))


def _last_up_to(values, ascending):
  """Where in `ascending` the last one is that exceeds no value: [n] -> [n]."""
  return tf.searchsorted(ascending, values, "right", tf.int64) - 1


def _path(following):
  """Where one comes by from place 0 on, the last place left out.

  Args:
    following: [n] int64, to where one goes from each place: a later one; from
      the last place, to itself.

  Returns:
    [any] int64 places, ascending.
  """
  end = tf.size(following, tf.int64) - 1

  def go_as_far_again(places, following):
    farther = tf.gather(following, places)
    return tf.concat([places, farther], 0), tf.gather(following, following)

  places, _ = tf.while_loop(
    lambda places, _: places[-1] < end,
    go_as_far_again,
    (tf.zeros([1], tf.int64), following),
    shape_invariants=(tf.TensorShape([None]),) * 2,
  )
  return tf.boolean_mask(places, places < end)


def _around(begin, end, first, last, room):
  """As tagging.around, of parts from `begin` to `end` of `first` to `last`."""
  spare = room - (end - begin)
  after = last - end
  left = tf.minimum(begin - first, tf.maximum(spare // 2, spare - after))
  right = tf.minimum(after, spare - left)
  return begin - left, end + right
