"""Selection among candidate answers in the graph: order, ties, outputs.

Texts and logits are typed by hand; test_serving.py compares with the program.
"""

import math

import pytest
import tensorflow as tf

from tasks.squad import answers_ops
from tasks.squad.answers_ops import Candidates, Entries
from tasks.squad.decoding import DecodingConfig


def _entries(*rows):
  """The two best texts of questions: lists of (text, score), best first."""
  rows = [[*row, *[("", -float("inf"))] * (2 - len(row))] for row in rows]
  starts = [
    [10 * i if text else -1 for i, (text, _) in enumerate(row)] for row in rows
  ]
  scores = [[score for _, score in row] for row in rows]
  return Entries(
    tf.constant([[text for text, _ in row] for row in rows]),
    tf.constant(scores, tf.float64) - 0.25,
    tf.fill([len(rows), 2], tf.constant(0.25, tf.float64)),
    tf.constant(starts, tf.int64),
    tf.constant(
      [[start + (start >= 0) for start in row] for row in starts], tf.int64
    ),
  )


def _config(threshold, top_k=0):
  return DecodingConfig(2, 30, True, threshold, top_k)


def _plain(outputs):
  return {name: value.numpy().tolist() for name, value in outputs.items()}


def test_of_equal_candidates_the_first_comes_first():
  number = 64  # too many to keep their order by chance
  rows = tf.range(number, dtype=tf.int64) % 2
  tokens = tf.zeros([number], tf.int64)
  logits = tf.zeros([number], tf.float64)
  result = Candidates(rows, tokens, tokens, logits, logits)
  ranked = answers_ops._rank(result, tf.constant(2, tf.int64))
  assert ranked.to_list() == [[*range(0, number, 2)], [*range(1, number, 2)]]


def test_no_answer_comes_behind_texts_that_are_as_good():
  answers = _entries([("a", 5.0), ("b", 3.0)], [("a", 5.0), ("b", 2.0)])
  null = tf.constant([3.0, 3.0], tf.float64)
  result = _plain(
    answers_ops.predictions(answers.insert_null(null), _config(0.0, 2))
  )
  # Of two entries no answer is the third, or it is the second.
  assert result["answers"] == [[b"a", b"b"], [b"a", b""]]
  assert result["starts"] == [[0, 10], [0, -1]]
  assert result["num_answers"] == [2, 2]


def test_all_outputs_belong_to_the_same_answer():
  answers = _entries([("a", 5.0)], [("a", 5.0)], [])
  null = tf.constant([4.0, 6.0, 1.0], tf.float64)
  result = _plain(
    answers_ops.predictions(answers.insert_null(null), _config(0.5))
  )
  assert result["answer"] == [b"a", b"", b""]
  assert result["score"] == [5.0, 6.0, 1.0]
  assert result["start"] == [0, -1, -1]
  assert result["end"] == [1, -1, -1]
  assert result["probability"][1] > 0.5 > result["best_probability"][1] > 0.0
  assert result["probability"][2] == 1.0
  assert result["best_answer"] == [b"a", b"a", b""]
  assert result["best_score"] == [5.0, 5.0, 0.0]
  assert result["best_start"] == [0, 0, -1]
  assert result["best_end"] == [1, 1, -1]
  assert result["null_odds"] == [-1.0, 1.0, 1_000_000.0]


def test_an_ensemble_has_the_mean_of_its_models_probabilities():
  # Of "a", "b" and no answer: 1/2, 1/4, 1/4 and 1/4, 1/2, 1/4.
  log = math.log
  ranked = [
    _entries([("a", log(2)), ("b", 0.0)]),
    _entries([("b", log(2)), ("a", 0.0)]),
  ]
  null = tf.constant([0.0], tf.float64)
  ranked = [entries.insert_null(null) for entries in ranked]
  combined = answers_ops.combine(ranked, _config(0.0, 2))
  result = _plain(answers_ops.predictions(combined, _config(0.0, 2)))
  assert result["answers"] == [[b"a", b"b"]]
  assert result["probabilities"][0] == pytest.approx([3 / 8, 3 / 8])
  assert result["null_odds"] == pytest.approx([log(2 / 3)])
  without = DecodingConfig(2, 30)
  texts = answers_ops.combine([_entries([("a", 1.0)])] * 2, without)
  assert _plain(answers_ops.predictions(texts, without))["answer"] == [b"a"]
