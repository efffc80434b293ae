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

  def highest(self, number: int):
    """The entries that score most, best first, E = `number`."""
    _, order = tf.math.top_k(self.scores, number)
    return Entries(*(tf.gather(v, order, batch_dims=1) for v in self))

  def select(self, is_entry: tf.Tensor):
    """Replaces entries by padding where `is_entry`, [B, E] bool, is False."""
    pairs = zip(self, _PADDING, strict=True)
    return Entries(*(tf.where(is_entry, *pair) for pair in pairs))

  def find_first(self, is_match: tf.Tensor):
    """The first entry of each question in `is_match`, [B, E] bool: E = 1."""
    index = tf.argmax(tf.cast(is_match, tf.int32), axis=1)[:, None]
    matches = self.select(is_match)
    return Entries(*(tf.gather(v, index, batch_dims=1) for v in matches))

  def insert(self, text: str, scores: tf.Tensor):
    """Adds a text that is not in the context, behind equals: E + 1.

    `scores` are [B] float64, -inf for the questions that do not get it.
    """
    scores = scores[:, None]
    position = tf.fill(tf.shape(scores), tf.constant(-1, tf.int64))
    texts = tf.where(scores > -float("inf"), text, "")
    more = Entries(texts, scores, tf.zeros_like(scores), position, position)
    merged = concat(self, more, axis=1)
    return merged.highest(merged.scores.shape[1])

  def insert_null(self, null: tf.Tensor):
    """Adds no answer, whose scores are [B] float64: E = K + 1.

    It replaces the K-th text if that scores less.
    """
    size = self.scores.shape[1]
    better = tf.cast(self.scores >= null[:, None], tf.int32)
    is_among = tf.reduce_sum(better, axis=1) < size
    number = tf.where(is_among, size - 1, size)
    return self.select(tf.sequence_mask(number, size)).insert("", null)

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
  no_texts = _Texts(*[tf.zeros([0], tf.int64)] * 4, tf.zeros([0], tf.string))

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
    more = _Texts(
      tf.gather(rows, spans.value_rowids()),
      *(spans.values, begins, ends, answer_text.texts(begins, ends)),
    )
    return tried + step, texts.append(more)

  _, texts = tf.while_loop(
    lambda tried, texts: tf.reduce_any(is_incomplete(tried, texts)),
    try_more,
    (tf.constant(0, tf.int64), no_texts),
    (tf.TensorShape([]), _Texts(*[tf.TensorShape([None])] * 5)),
  )
  return _to_entries(texts, candidates, num_questions, answer_text, n_best_size)


def _to_entries(texts, candidates, num_questions, answer_text, n_best_size):
  """Groups texts by question, the best K of each: E = K."""
  best = _group(texts.rows, num_questions)[:, :n_best_size]
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
  grouped = _group(tf.gather(candidates.rows, order), num_questions)
  return tf.cast(tf.gather(order, grouped), tf.int64)


def _group(rows, num_questions):
  """Indices of the items of each question, in order: [n] -> [B, (items)]."""
  order = tf.argsort(rows, stable=True)
  return tf.RaggedTensor.from_value_rowids(
    order, tf.gather(rows, order), num_questions, validate=False
  )


class _Texts(NamedTuple):
  """Distinct texts so far, [A of all questions] each."""

  rows: tf.Tensor  # int64, index of the question
  candidates: tf.Tensor  # int64, index of the candidate
  begins: tf.Tensor  # int64, offset in the contexts; see GraphAnswerText
  ends: tf.Tensor  # int64
  texts: tf.Tensor  # string

  def append(self, more):
    """Appends those of more texts that are new to their question."""
    merged = concat(self, more)
    rows = tf.strings.as_string(merged.rows)
    keys = tf.strings.join([rows, merged.texts], separator=" ")
    distinct, ids = tf.unique(keys)
    first = tf.math.unsorted_segment_min(
      tf.range(tf.size(ids)), ids, tf.size(distinct)
    )
    return _Texts(*(tf.gather(column, first) for column in merged))


def combine(ranked: list[Entries], config: DecodingConfig) -> Entries:
  """The n best of an ensemble, as decoding.py combines those of its models."""
  log_probs = [
    entries.scores - tf.reduce_logsumexp(entries.scores, axis=1, keepdims=True)
    for entries in ranked
  ]
  merged = concat(*ranked, axis=1)  # [B, models * E]
  probs = tf.exp(tf.concat(log_probs, axis=1))
  is_entry = merged.scores > -float("inf")
  is_same = merged.texts[:, :, None] == merged.texts[:, None]
  is_same &= is_entry[:, :, None] & is_entry[:, None]
  total = tf.reduce_sum(tf.where(is_same, probs[:, None], 0.0), axis=2)
  scores = tf.math.log(tf.maximum(total / len(ranked), LEAST_PROBABILITY))
  first = tf.argmax(tf.cast(is_same, tf.int32), axis=2)
  is_first = is_entry & (first == tf.range(first.shape[1], dtype=tf.int64))
  entries = merged._replace(
    start_logits=scores, end_logits=tf.zeros_like(scores)
  ).select(is_first)
  is_text = entries.texts != ""
  texts = entries.select(is_text).highest(config.n_best_size)
  if not config.version_2_with_negative:
    return texts
  null = tf.where(
    is_text, tf.constant(-float("inf"), tf.float64), entries.scores
  )
  return texts.insert_null(tf.reduce_max(null, axis=1))


def predictions(
  entries: Entries, config: DecodingConfig
) -> dict[str, tf.Tensor]:
  """Outputs of QuestionAnswering.from_text; in version 2 with no answer."""
  if not config.version_2_with_negative:
    # Without any text, "empty" is the only entry.
    has_text = tf.reduce_any(entries.scores > -float("inf"), axis=1)
    empty = tf.where(has_text, tf.constant(-float("inf"), tf.float64), 0.0)
    entries = entries.insert("empty", empty)
    return _first(entries.outputs(entries)) | _top(entries, config.export_top_k)
  text = entries.find_first(entries.texts != "")
  no_answer = entries.find_first(
    (entries.texts == "") & (entries.scores > -float("inf"))
  )
  # Subtracted in the order of decoding.py.
  odds = no_answer.scores - text.start_logits - text.end_logits  # [B, 1]
  has_text = text.scores > -float("inf")
  odds = tf.where(has_text, odds, NO_ANSWER_ODDS)
  is_text = has_text & (odds <= config.null_score_diff_threshold)
  pairs = zip(text, no_answer, strict=True)
  prediction = Entries(*(tf.where(is_text, *pair) for pair in pairs))
  return (
    _first(prediction.outputs(entries))
    | _first(text.outputs(entries), "best_")
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
