"""Candidate spans to answers in the graph, as tasks/squad/decoding.py.

Legend: B questions, C candidate spans, K n_best_size, A answers of a question
(A <= K), E entries of nbest_predictions.json. A ragged dimension is in
parentheses.
"""

from typing import NamedTuple

import tensorflow as tf

from tasks.squad.decoding import (
  LEAST_PROBABILITY,
  NO_ANSWER_ODDS,
  DecodingConfig,
)
from tasks.squad.paragraphs_ops import GraphAnswerText


def concat(*parts: NamedTuple, axis: int = 0) -> NamedTuple:
  """Concatenates the tensors of tuples of the same type."""
  columns = zip(*parts, strict=True)
  return type(parts[0])(*(tf.concat(column, axis) for column in columns))


class Candidates(NamedTuple):
  """Spans that could be answers, [C] each."""

  rows: tf.Tensor  # int64, index of the question
  first: tf.Tensor  # int64, index of the first token among all contexts'
  last: tf.Tensor  # int64, index of the last token
  start_logits: tf.Tensor  # float64: sums equal those of Python's floats
  end_logits: tf.Tensor  # float64

  @classmethod
  def empty(cls) -> "Candidates":
    types = (tf.int64,) * 3 + (tf.float64,) * 2
    return cls(*(tf.zeros([0], dtype) for dtype in types))


# Padding of the fields of Entries.
_PADDING = ("", -float("inf"), 0.0, -1, -1)


class Entries(NamedTuple):
  """Entries of nbest_predictions.json, best first, padded; [B, E] each."""

  texts: tf.Tensor  # string
  start_logits: tf.Tensor  # float64; -inf where there is no entry
  end_logits: tf.Tensor  # float64
  starts: tf.Tensor  # int64, first character in the context, or -1
  ends: tf.Tensor  # int64, behind the last character, or -1

  @property
  def scores(self) -> tf.Tensor:
    return self.start_logits + self.end_logits

  @classmethod
  def without_position(cls, text: str, scores: tf.Tensor) -> "Entries":
    """An entry for each question whose text is not in the context, E = 1."""
    scores = scores[:, None]
    position = tf.fill(tf.shape(scores), tf.constant(-1, tf.int64))
    texts = tf.where(scores > -float("inf"), text, "")
    return cls(texts, scores, tf.zeros_like(scores), position, position)

  def merge(self, more):
    """Sorts these and others by score; of equals these come first."""
    merged = concat(self, more, axis=1)
    return merged.highest(merged.scores.shape[1])

  def highest(self, number: int):
    """The entries that score most, best first, E = `number`."""
    _, order = tf.math.top_k(self.scores, number)
    return Entries(*(tf.gather(v, order, batch_dims=1) for v in self))

  def select(self, is_entry: tf.Tensor):
    """Replaces entries by padding where `is_entry`, [B, E] bool, is False."""
    pairs = zip(self, _PADDING, strict=True)
    return Entries(*(tf.where(is_entry, *pair) for pair in pairs))

  def limit(self, null: tf.Tensor):
    """Drops the K-th text if it scores less than no answer, [B] float64.

    No answer is among the K entries then; otherwise it follows them.
    """
    size = self.scores.shape[1]
    better = tf.cast(self.scores >= null[:, None], tf.int32)
    is_among = tf.reduce_sum(better, axis=1) < size
    number = tf.where(is_among, size - 1, size)
    return self.select(tf.sequence_mask(number, size))

  def outputs(self, all_entries) -> dict[str, tf.Tensor]:
    """Outputs of QuestionAnswering, [B, E]; softmax over `all_entries`."""
    total = tf.reduce_logsumexp(all_entries.scores, axis=1, keepdims=True)
    scores = tf.where(self.scores > -float("inf"), self.scores, 0.0)
    return {
      "answer": self.texts,
      "score": tf.cast(scores, tf.float32),
      "probability": tf.cast(tf.exp(self.scores - total), tf.float32),
      "start": tf.cast(self.starts, tf.int32),
      "end": tf.cast(self.ends, tf.int32),
    }


def n_best(
  candidates: Candidates,
  num_questions: tf.Tensor,
  answer_text: GraphAnswerText,
  n_best_size: int,
) -> Entries:
  """The best K texts of each question, or all if they are fewer."""
  ranked = _rank(candidates, num_questions)  # [B, (C)]
  step = 2 * n_best_size  # few texts occur twice: one step is mostly enough

  def is_incomplete(tried, texts):
    count = tf.math.unsorted_segment_sum(
      tf.ones_like(texts.rows), texts.rows, num_questions
    )
    return (count < n_best_size) & (tried < ranked.row_lengths())

  def try_more(tried, texts):
    rows = tf.where(is_incomplete(tried, texts))[:, 0]
    spans = tf.gather(ranked, rows)[:, tried : tried + step]
    begins, ends = answer_text.find(
      tf.gather(candidates.first, spans.values),
      tf.gather(candidates.last, spans.values),
    )
    rows = tf.gather(rows, spans.value_rowids())
    return tried + step, texts.append(
      rows, spans.values, begins, ends, answer_text
    )

  _, texts = tf.while_loop(
    lambda tried, texts: tf.reduce_any(is_incomplete(tried, texts)),
    try_more,
    (tf.constant(0, tf.int64), _Texts.empty()),
    (tf.TensorShape([]), _Texts(*[tf.TensorShape([None])] * 5)),
  )
  return _to_entries(texts, candidates, num_questions, answer_text, n_best_size)


def _to_entries(texts, candidates, num_questions, answer_text, n_best_size):
  """Groups texts by question, the best K of each: E = K."""
  order = tf.argsort(texts.rows, stable=True)
  best = tf.RaggedTensor.from_value_rowids(
    order, tf.gather(texts.rows, order), num_questions, validate=False
  )[:, :n_best_size]
  spans = tf.gather(texts.candidates, best)
  begins, ends = answer_text.characters(texts.begins, texts.ends)
  fields = (
    tf.gather(texts.texts, best),
    tf.gather(candidates.start_logits, spans),
    tf.gather(candidates.end_logits, spans),
    tf.gather(begins, best),
    tf.gather(ends, best),
  )
  pairs = zip(fields, _PADDING, strict=True)
  shape = [None, n_best_size]
  return Entries(*(value.to_tensor(pad, shape=shape) for value, pad in pairs))


def _rank(candidates, num_questions):
  """Indices of each question's candidates, best first, stable: [B, (C)]."""
  scores = candidates.start_logits + candidates.end_logits
  order = tf.argsort(-scores, stable=True)
  order = tf.gather(
    order, tf.argsort(tf.gather(candidates.rows, order), stable=True)
  )
  rows = tf.gather(candidates.rows, order)
  return tf.RaggedTensor.from_value_rowids(
    tf.cast(order, tf.int64), rows, num_questions, validate=False
  )


class _Texts(NamedTuple):
  """Distinct texts so far, [A of all questions] each."""

  rows: tf.Tensor  # int64, index of the question
  candidates: tf.Tensor  # int64, index of the candidate
  begins: tf.Tensor  # int64, offset in the contexts; see GraphAnswerText
  ends: tf.Tensor  # int64
  texts: tf.Tensor  # string

  @classmethod
  def empty(cls):
    return cls(*[tf.zeros([0], tf.int64)] * 4, tf.zeros([0], tf.string))

  def append(self, rows, candidates, begins, ends, answer_text):
    """Appends the texts of more spans that are new to their question."""
    # Offsets are compared first: the text of a span may be very long if a
    # context has no blanks.
    spans = _select_new(
      self._offset_keys(self.begins, self.ends),
      self._offset_keys(begins, ends),
      (rows, candidates, begins, ends),
    )
    texts = answer_text.texts(*spans[2:])
    more = _select_new(
      self._text_keys(self.rows, self.texts),
      self._text_keys(spans[0], texts),
      (*spans, texts),
    )
    return concat(self, _Texts(*more))

  @staticmethod
  def _offset_keys(begins, ends):
    return begins * 2**32 + ends

  @staticmethod
  def _text_keys(rows, texts):
    return tf.strings.join([tf.strings.as_string(rows), texts], separator=" ")


def _select_new(known, keys, columns):
  """Rows of columns whose keys are neither known nor occurred before."""
  _, ids = tf.unique(tf.concat([known, keys], axis=0), tf.int64)
  indices = tf.range(tf.size(ids, tf.int64))
  first = tf.math.unsorted_segment_min(indices, ids, tf.size(ids))
  is_first = indices == tf.gather(first, ids)
  return [tf.boolean_mask(v, is_first[tf.size(known) :]) for v in columns]


def combine(
  ranked: list[tuple[Entries, tf.Tensor | None]],
) -> tuple[Entries, tf.Tensor | None]:
  """The n best of an ensemble, as decoding.py combines them.

  `ranked` has those of each model, [B, K], and null scores, [B], or None.
  """
  parts, null_probs = [], []
  for texts, null in ranked:
    texts = texts if null is None else texts.limit(null)
    others = texts.scores[:, :0] if null is None else null[:, None]
    total = tf.reduce_logsumexp(
      tf.concat([texts.scores, others], axis=1), axis=1, keepdims=True
    )
    parts.append(texts._replace(start_logits=texts.scores - total))
    null_probs.append(tf.exp(others - total))
  merged = concat(*parts, axis=1)
  is_text = merged.start_logits > -float("inf")  # [B, models * K]
  is_same = merged.texts[:, :, None] == merged.texts[:, None]
  is_same &= is_text[:, :, None] & is_text[:, None]
  probs = tf.where(is_same, tf.exp(merged.start_logits)[:, None], 0.0)
  scores = _log_mean(tf.reduce_sum(probs, axis=2), len(ranked))
  first = tf.argmax(tf.cast(is_same, tf.int32), axis=2)
  is_first = is_text & (first == tf.range(first.shape[1], dtype=tf.int64))
  entries = merged._replace(
    start_logits=scores, end_logits=tf.zeros_like(scores)
  )
  entries = entries.select(is_first).highest(ranked[0][0].scores.shape[1])
  if ranked[0][1] is None:
    return entries, None
  return entries, _log_mean(tf.add_n(null_probs)[:, 0], len(ranked))


def _log_mean(total, number):
  return tf.math.log(tf.maximum(total / number, LEAST_PROBABILITY))


def best(texts: Entries, config: DecodingConfig) -> dict[str, tf.Tensor]:
  """Outputs of version 1.1; see QuestionAnswering.from_text."""
  # Without any text, "empty" is the only entry.
  has_none = texts.scores[:, 0] == -float("inf")
  empty = tf.where(has_none, tf.constant(0.0, tf.float64), -float("inf"))
  entries = texts.merge(Entries.without_position("empty", empty))
  return _first(entries.outputs(entries)) | _top(entries, config.export_top_k)


def best_with_null(
  texts: Entries, null: tf.Tensor, config: DecodingConfig
) -> dict[str, tf.Tensor]:
  """Outputs of version 2; `null`, [B] float64, is the score of no answer."""
  texts = texts.limit(null)
  no_answer = Entries.without_position("", null)
  entries = texts.merge(no_answer)
  best_text = Entries(*(values[:, :1] for values in texts))

  # Subtracted in the order of decoding.py.
  odds = null[:, None] - best_text.start_logits - best_text.end_logits
  has_text = best_text.scores > -float("inf")
  odds = tf.where(has_text, odds, NO_ANSWER_ODDS)
  is_text = has_text & (odds <= config.null_score_diff_threshold)
  pairs = zip(best_text, no_answer, strict=True)
  prediction = Entries(*(tf.where(is_text, *pair) for pair in pairs))
  return (
    _first(prediction.outputs(entries))
    | _first(best_text.outputs(entries), "best_")
    | {"null_odds": tf.cast(odds[:, 0], tf.float32)}
    | _top(entries, config.export_top_k)
  )


def _first(outputs, prefix=""):
  """Outputs of the first entry: [B, E] each -> [B]."""
  return {f"{prefix}{name}": values[:, 0] for name, values in outputs.items()}


def _top(entries, top_k):
  """Outputs of the best entries, [B, top_k or the most of a question] each."""
  if not top_k:
    return {}
  top = Entries(*(values[:, :top_k] for values in entries))
  is_entry = tf.cast(top.scores > -float("inf"), tf.int32)
  numbers = tf.reduce_sum(is_entry, axis=1)
  width = tf.reduce_max(tf.concat([[0], numbers], axis=0))
  values = [value[:, :width] for value in top.outputs(entries).values()]
  names = ("answers", "scores", "probabilities", "starts", "ends")
  outputs = dict(zip(names, values, strict=True))
  return outputs | {"num_answers": numbers}
