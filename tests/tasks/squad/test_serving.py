import dataclasses
import functools
import json
import random
import re
import resource

import pytest
import tensorflow as tf

from data import features
from data.tokenization import FullTokenizer
from data.tokenization_ops import GraphTokenizer
from tasks.squad import decoding, records
from tasks.squad import examples as squad_examples
from tasks.squad.decoding import DecodingConfig
from tasks.squad.records import WindowConfig
from tasks.squad.serving import QuestionAnswering
from tests.parity import golden_files

VOCAB = golden_files.GOLDEN / "vocab.txt"
LENGTHS = WindowConfig(24, 6, 5)
V2 = {"version_2_with_negative": True}

# What a text may be made of; nothing is as it seems.
PARTS = [
  *("a", "b", "ab", "the", "the the", "Smith", "'s", "1895", "unaffable"),
  *(".", ",", "-", "(", ")", "[", "]", "#", "##", "##a", "[UNK]", "[SEP]"),
  *(" ", "  ", "\t", "\n", "\r\n", "\u202f", "\u00a0", "\u3000", "\u2028"),
  *("é", "É", "e\u0301", "Élan", "ß", "İ", "ﬁ", "Σ", "ΑΣ", "ʼ", "한", "🙂"),
  *("中", "文", "\u200b", "\ufeff", "\0", "\x85", "\ufffd", "x" * 201),
]


def text(rng, length):
  parts = rng.choices(PARTS, k=rng.randrange(length))
  return "".join(part + rng.choice(["", "", " "]) for part in parts)


def model(levels, most_rows=32):
  """Stands in for a model: any logits, the same for the same row.

  Args:
    levels: how many different logits there are: the fewer, the more ties.
    most_rows: more at a time are an error.
  """

  def logits(inputs, training=False):
    ids = tf.cast(inputs["input_ids"], tf.int64)
    tf.debugging.assert_less_equal(tf.shape(ids)[0], most_rows)
    positions = tf.range(tf.shape(ids)[1], dtype=tf.int64)
    row = tf.reduce_sum(ids, axis=1, keepdims=True)

    def mixed(salt):
      number = ids * 7919 + positions * 104729 + row * 31 + salt
      number = (number * number + number // 97) % 100003 % levels
      return tf.cast(number, tf.float32) / 4

    return {"start_logits": mixed(1), "end_logits": mixed(15485863)}

  return logits


def spotlight(word):
  """Stands in for a model that knows one word: it is the answer."""

  def logits(inputs, training=False):
    result = tf.cast(inputs["input_ids"] == word, tf.float32)
    return {"start_logits": result, "end_logits": result}

  return logits


@functools.cache
def graph_tokenizer(lower):
  return GraphTokenizer(VOCAB, lower)


def asked(task, model):
  """The SavedModel's function, on lists of texts."""

  @tf.function(
    autograph=False, input_signature=[tf.TensorSpec([None], "string")] * 2
  )
  def answer(question, context):
    return task.from_text(model, question=question, context=context)

  def ask(questions, contexts):
    given = (tf.constant(texts, tf.string) for texts in (questions, contexts))
    return {name: v.numpy() for name, v in answer(*given).items()}

  return ask


def task(lengths=LENGTHS, choice=None, lower=True, trim=False):
  choice = choice or DecodingConfig()
  return QuestionAnswering(graph_tokenizer(lower), lengths, choice, trim)


def predicted(folder, questions, contexts, model, lengths, choice, lower, trim):
  """What run_squad.py predicts."""
  asked = enumerate(zip(questions, contexts, strict=True))
  paragraphs = [
    {"context": context, "qas": [{"id": str(number), "question": question}]}
    for number, (question, context) in asked
  ]
  path = folder / "questions.json"
  path.write_text(json.dumps({"data": [{"paragraphs": paragraphs}]}))
  tokenizer = FullTokenizer(VOCAB, lower)
  examples = squad_examples.read_examples([str(path)])
  windows = list(records.make_windows(examples, tokenizer, lengths))
  schema = features.squad(lengths.max_seq_length, is_training=False)
  rows = [records.row(window, schema)["input_ids"] for window in windows]
  rows = tf.reshape(tf.constant(rows, tf.int32), [-1, lengths.max_seq_length])
  outputs = {k: v.numpy() for k, v in model({"input_ids": rows}).items()}
  logits = records.window_logits(windows, outputs, trim)
  answer_text = decoding.AnswerText(tokenizer)
  return decoding.decode(examples, windows, logits, answer_text, choice)


def stands_there(answer, begin, end, context):
  """Whether offsets lead to an answer, but for the whitespace in it."""
  if begin < 0:
    return answer in ("", "empty") and begin == end == -1
  return answer == re.sub("[ \t\r\n\u202f]+", " ", context[begin:end])


def outputs(row, names=("answer", "score", "probability", "start", "end")):
  """Names the outputs of one question; the text comes first."""
  text, *numbers = (row[name] for name in names)
  return text.decode(), *numbers


def check_entry(outputs, entry, context):
  """One answer of an export is an entry of nbest_predictions.json."""
  answer, score, probability, start, end = outputs
  assert answer == entry["text"]
  assert score == entry["start_logit"] + entry["end_logit"]
  assert probability == pytest.approx(entry["probability"], rel=1e-5)
  assert stands_there(answer, start, end, context)


def check_answers(row, said, number, context, choice):
  """All outputs for a question are what the program wrote of it."""
  entries = said.nbest[str(number)]
  (entry,) = (e for e in entries if e["text"] == said.answers[str(number)])
  check_entry(outputs(row), entry, context)
  count = row["num_answers"]
  assert count == min(len(entries), choice.n_best_size)
  names = ("answers", "scores", "probabilities", "starts", "ends")
  listed = zip(*(row[name] for name in names), strict=True)
  for index, (answer, *numbers) in enumerate(listed):
    if index < count:
      check_entry((answer.decode(), *numbers), entries[index], context)
    else:
      assert [answer, *numbers] == [b"", 0, 0, -1, -1]
  if not choice.version_2_with_negative:
    return
  assert row["null_odds"] == said.null_odds[str(number)]
  names = [f"best_{name}" for name in ("answer", "score", "probability")]
  best = outputs(row, [*names, "best_start", "best_end"])
  text = said.texts[str(number)]
  if text:
    (entry,) = (e for e in entries if e["text"] == text)
    check_entry(best, entry, context)
  else:
    assert best == ("", 0, 0, -1, -1)


CASES = [
  # lengths, choice, lower-cased, trimmed, levels
  (LENGTHS, DecodingConfig(5, 8), True, False, 7),
  (WindowConfig(24, 12, 100), DecodingConfig(20, 30), False, True, 100003),
  (LENGTHS, DecodingConfig(1, 8, **V2), True, False, 7),
  (WindowConfig(16, 3, 1), DecodingConfig(3, 30, True, 0.5), False, True, 3),
  (WindowConfig(48, 6, 8), DecodingConfig(20, 5, True, -1.0), True, False, 40),
]


QUICK = (0, 1, 3)


@pytest.mark.parametrize(
  "number",
  [
    number if number in QUICK else pytest.param(number, marks=pytest.mark.slow)
    for number in range(len(CASES))
  ],
)
def test_answers_as_the_program_does(number, tmp_path):
  lengths, choice, lower, trim, levels = CASES[number]
  rng = random.Random(f"{CASES[number]}")
  questions = ["", "", *(text(rng, 9) for _ in range(40))]
  contexts = ["", "\u200b \0", *(text(rng, 1 + 3 * i) for i in range(40))]
  said = predicted(
    *(tmp_path, questions, contexts, model(levels, 10000)),
    *(lengths, choice, lower, trim),
  )
  top_k = dataclasses.replace(choice, export_top_k=choice.n_best_size)
  served = task(lengths, top_k, lower, trim)
  ask = asked(served, model(levels))
  result = ask(questions, contexts)
  answers = [answer.decode() for answer in result["answer"]]
  assert answers == list(said.answers.values())
  assert len(set(answers)) > 15 or choice.version_2_with_negative
  for number, context in enumerate(contexts):
    row = {name: values[number] for name, values in result.items()}
    check_answers(row, said, number, context, choice)
  # One by one it is the same.
  for some in (slice(5, 6), slice(-1, None), slice(0)):
    alone = ask(questions[some], contexts[some])
    for name, values in result.items():
      expected = values[some]
      if values.ndim > 1:  # as wide as the longest of these lists
        expected = expected[:, : max(alone["num_answers"], default=0)]
      assert alone[name].tolist() == expected.tolist()


@pytest.fixture(scope="module", name="known")
def _known():
  smith = FullTokenizer(VOCAB).vocab["smith"]
  return asked(task(WindowConfig(128, 8, 64)), spotlight(smith))


def test_worked_examples(known):
  examples = [
    ("Who? Smith", "Smith", 5, 10),
    ("It was\n Steve\u00a0Smith's", "Steve\u00a0Smith's", 8, 21),
    ("It was\t\tthe Smith-family.", "Smith", 12, 17),
    # The pieces' text is looked for from the word's beginning.
    ("blacksmith-smith", "smith", 5, 10),
    ("中文smith中", "smith", 2, 7),
    ("Ａ e\u0301 Smith", "Smith", 5, 10),
    (b"\xff\xf0 Smith", "Smith", 3, 8),
    ("\0 \0Smith\0", "\0Smith\0", 2, 9),
    ("nobody", "nobody", 0, 6),
    ("  \u202f ", "empty", -1, -1),
  ]
  contexts, *expected = (list(column) for column in zip(*examples, strict=True))
  result = known(["who?"] * len(examples), contexts)
  answers = [answer.decode() for answer in result["answer"]]
  offsets = result["start"].tolist(), result["end"].tolist()
  assert [answers, *offsets] == expected


def test_an_answer_in_a_megabyte(known):
  """Windows go through the model some at a time, texts are not piled up."""
  filler = "of the old mill, " * 30_000
  before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
  for long, blank in ((filler, " "), ("磨坊" * 90_000, "")):
    context = f"{long}{blank}Smith{blank}{long}"
    result = known(["who?"], [context])
    assert result["answer"].tolist() == [b"Smith"]
    assert result["start"][0] == len(long) + len(blank)
  after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
  assert after - before < 400_000  # kilobytes


def test_features_give_logits():
  rows = {name: tf.constant([[7, 8, 0]]) for name in task().schema}
  result = task().from_features(model(40), **rows)
  expected = model(40)(rows)
  assert list(result) == ["start_logits", "end_logits"]
  for name, values in result.items():
    assert values.numpy().tolist() == expected[name].numpy().tolist()
