"""Answers of an exported SQuAD model equal predictions of run_squad.py."""

import dataclasses
import functools
import json
import random
import re

import pytest
import tensorflow as tf

from data import features
from data.tokenization import FullTokenizer
from serving.answers import TextConfig, TextModel
from tasks.squad import answers, records
from tasks.squad import examples as squad_examples
from tasks.squad.answers import Answers, DecodingConfig
from tasks.squad.records import WindowConfig
from tests.parity import golden_files
from tests.serving import stand_in

LENGTHS = WindowConfig(24, 6, 5)
V2 = {"version_2_with_negative": True}

# Parts of texts that tokenizers and alignments treat specially.
WORDS = """
  a b ab the Smith 's 1895 unaffable . , - ( ) [ ] # ## ##a [UNK] [SEP]
  é É e\u0301 Élan ß İ ﬁ Σ ΑΣ ʼ 한 🙂 中 文 \u200b \ufeff \0 \ufffd
"""
BLANKS = [*" \t\n\u202f\u00a0\u3000\u2028\x85", "  ", "\r\n"]
PARTS = [*WORDS.split(), *BLANKS, "the the", "x" * 201]


def text(rng, length):
  parts = rng.choices(PARTS, k=rng.randrange(length))
  return "".join(part + rng.choice(["", "", " "]) for part in parts)


def stand_in_model(levels):
  """Returns a model with logits that vary by row; few `levels` make ties."""

  def logits(inputs, training=False):
    ids = tf.cast(inputs["input_ids"], tf.int64)
    mask = tf.cast(inputs["input_mask"], tf.int64)
    positions = tf.range(tf.shape(ids)[1], dtype=tf.int64)
    row = tf.reduce_sum(ids * mask, axis=1, keepdims=True)

    def mixed(salt):
      number = ids * 7919 + positions * 104729 + row * 31 + salt
      number = (number * number + number // 97) % 100003 % levels
      return tf.cast(number, tf.float32) / 4

    return {"start_logits": mixed(1), "end_logits": mixed(15485863)}

  return logits


@functools.cache
def tokenizer(lower):
  return FullTokenizer(str(golden_files.GOLDEN / "vocab.txt"), lower)


def make_model(logits, lengths=LENGTHS, choice=None, lower=True, trim=False):
  config = TextConfig(tokenizer(lower), lengths.max_seq_length)
  choice = choice or DecodingConfig()
  model = Answers(config, vars(lengths), vars(choice), trim)
  return TextModel(model, stand_in.Engine("squad", logits))


def ask(model, pairs):
  return model([{"question": q, "context": c} for q, c in pairs])


def predicted(folder, pairs, logits, lengths, choice, lower, trim):
  """Returns the predictions of run_squad.py for questions and contexts."""
  paragraphs = [
    {"context": context, "qas": [{"id": str(number), "question": question}]}
    for number, (question, context) in enumerate(pairs)
  ]
  path = folder / "questions.json"
  path.write_text(json.dumps({"data": [{"paragraphs": paragraphs}]}))
  examples = squad_examples.read_examples([str(path)])
  windows = list(records.make_windows(examples, tokenizer(lower), lengths))
  schema = features.squad(lengths.max_seq_length, is_training=False)
  rows = list(records.rows(windows, schema))
  names = features.TOKENS
  inputs = {n: tf.constant([row[n] for row in rows], tf.int32) for n in names}
  outputs = {k: v.numpy() for k, v in logits(inputs).items()}
  ends = [len(window.ids) if trim else None for window in windows]
  spans = zip(outputs["start_logits"], outputs["end_logits"], ends, strict=True)
  values = [(s[:n], e[:n]) for s, e, n in spans]
  return answers.decode(examples, windows, values, tokenizer(lower), choice)


def check_entry(outputs, entry, context):
  """Compares an answer and its position with an entry of the n-best list."""
  answer, score, probability, start, end = outputs
  assert answer == entry["text"]
  assert score == entry["start_logit"] + entry["end_logit"]
  assert probability == entry["probability"]
  if start < 0:
    assert answer in ("", "empty") and start == end == -1
  else:
    assert answer == re.sub("[ \t\r\n\u202f]+", " ", context[start:end])


NAMES = ("answer", "score", "probability", "start", "end")
PLURAL = ("answers", "scores", "probabilities", "starts", "ends")


def check_answer(row, predictions, number, context, choice):
  """Compares all outputs for a question with the program's predictions."""
  entries = predictions.nbest[number]
  by_text = {entry["text"]: entry for entry in entries}
  outputs = [row[name] for name in NAMES]
  check_entry(outputs, by_text[predictions.answers[number]], context)
  count = min(len(entries), choice.export_top_k)
  assert row["num_answers"] == count
  columns = zip(*(row[name] for name in PLURAL), strict=True)
  for one, entry in zip(columns, entries[:count], strict=True):
    check_entry(one, entry, context)
  if not choice.version_2_with_negative:
    return
  assert row["null_odds"] == predictions.null_odds[number]
  best = [row[f"best_{name}"] for name in NAMES]
  if text := predictions.texts[number]:
    check_entry(best, by_text[text], context)
  else:
    assert best == ["", 0, 0, -1, -1]


CASES = [
  # Columns: lengths, choice, lower, trim, levels.
  (LENGTHS, DecodingConfig(5, 8), True, False, 7),
  (WindowConfig(24, 12, 100), DecodingConfig(20, 30), False, True, 100003),
  (LENGTHS, DecodingConfig(1, 8, **V2), True, False, 7),
  (WindowConfig(16, 3, 1), DecodingConfig(3, 30, True, 0.5), False, True, 3),
]


@pytest.mark.parametrize("number", range(len(CASES)))
def test_answers_equal_the_predictions_of_run_squad(number, tmp_path):
  lengths, choice, lower, trim, levels = CASES[number]
  rng = random.Random(f"{CASES[number]}")
  questions = ["", "", *(text(rng, 9) for _ in range(40))]
  contexts = ["", "\u200b \0", *(text(rng, 1 + 3 * i) for i in range(40))]
  pairs = [*zip(questions, contexts, strict=True)]
  logits = stand_in_model(levels)
  predictions = predicted(tmp_path, pairs, logits, lengths, choice, lower, trim)
  top_k = max(choice.n_best_size - 1, 1)
  choice = dataclasses.replace(choice, export_top_k=top_k)
  model = make_model(logits, lengths, choice, lower, trim)
  answers = ask(model, pairs)
  texts = [answer["answer"] for answer in answers]
  assert texts == list(predictions.answers.values())
  # Few different answers would compare little.
  assert len(set(texts)) > 15 or choice.version_2_with_negative
  for index, (row, pair) in enumerate(zip(answers, pairs, strict=True)):
    check_answer(row, predictions, str(index), pair[1], choice)
    assert ask(model, [pair]) == [row]


def test_numbers_of_a_model_without_finite_logits_are_null():
  def logits(inputs, training=False):
    nan = tf.fill(tf.shape(inputs["input_ids"]), float("nan"))
    return {"start_logits": nan, "end_logits": nan}

  [row] = ask(make_model(logits, choice=DecodingConfig(**V2)), [("who?", "a")])
  assert {row[k] for k in ("score", "best_probability", "null_odds")} == {None}


def test_answers_have_their_positions_in_the_context():
  smith = tokenizer(True).vocab["smith"]

  def logits(inputs, training=False):  # the answer is always the token smith
    result = tf.cast(inputs["input_ids"] == smith, tf.float32)
    return {"start_logits": result, "end_logits": result}

  model = make_model(logits, WindowConfig(128, 8, 64))
  examples = [
    ("Who? Smith", "Smith", 5, 10),
    ("It was\n Steve\u00a0Smith's", "Steve\u00a0Smith's", 8, 21),
    ("blacksmith-smith", "smith", 5, 10),  # the first place in the words
    ("中文smith中", "smith", 2, 7),
    ("Ａ e\u0301 Smith", "Smith", 5, 10),
    ("\0 \0Smith\0", "\0Smith\0", 2, 9),
    ("nobody", "nobody", 0, 6),
    ("  \u202f ", "empty", -1, -1),
  ]
  for context, answer, start, end in examples:
    [row] = ask(model, [("who?", context)])
    assert (row["answer"], row["start"], row["end"]) == (answer, start, end)
    assert "num_answers" not in row and "null_odds" not in row
