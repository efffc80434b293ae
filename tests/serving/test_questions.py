import functools
import json
import random
import re
import resource

import pytest
import tensorflow as tf

from data import features
from data.tasks import squad, squad_windows
from data.tasks.squad_windows import Settings as Lengths
from data.tokenization import FullTokenizer
from data.tokenization_ops import GraphTokenizer
from evaluation import squad as evaluation
from evaluation.squad import Settings as Choice
from serving.questions import Questions
from tests.parity import golden_files

VOCAB = golden_files.GOLDEN / "vocab.txt"
LENGTHS = Lengths(24, 6, 5)
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
    places = tf.range(tf.shape(ids)[1], dtype=tf.int64)
    row = tf.reduce_sum(ids, axis=1, keepdims=True)

    def mixed(salt):
      number = ids * 7919 + places * 104729 + row * 31 + salt
      number = (number * number + number // 97) % 100003 % levels
      return tf.cast(number, tf.float32) / 4

    return {"start_logits": mixed(1), "end_logits": mixed(15485863)}

  return logits


def spotlight(word):
  """Stands in for a model that knows one word: it is the answer."""

  def logits(inputs, training=False):
    found = tf.cast(inputs["input_ids"] == word, tf.float32)
    return {"start_logits": found, "end_logits": found}

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
  return Questions(graph_tokenizer(lower), lengths, choice or Choice(), trim)


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
  examples = squad.read([str(path)])
  windows = list(squad_windows.windows(examples, tokenizer, lengths))
  schema = features.squad(lengths.max_seq_length, is_training=False)
  rows = [squad_windows.row(window, schema)["input_ids"] for window in windows]
  rows = tf.reshape(tf.constant(rows, tf.int32), [-1, lengths.max_seq_length])
  outputs = {k: v.numpy() for k, v in model({"input_ids": rows}).items()}
  logits = evaluation.logits_of(windows, outputs, trim)
  return evaluation.decode(examples, windows, logits, tokenizer, choice)


def stands_there(answer, begin, end, context):
  """Whether offsets lead to an answer, but for the whitespace in it."""
  if begin < 0:
    return answer in ("", "empty") and begin == end == -1
  return answer == re.sub("[ \t\r\n\u202f]+", " ", context[begin:end])


CASES = [
  # lengths, choice, lower-cased, trimmed, levels
  (LENGTHS, Choice(5, 8), True, False, 7),
  (Lengths(24, 12, 100), Choice(20, 30), False, True, 100003),
  (LENGTHS, Choice(1, 8, **V2), True, False, 7),
  (Lengths(16, 3, 1), Choice(3, 30, True, 0.5), False, True, 3),
  (Lengths(48, 6, 8), Choice(20, 5, True, -1.0), True, False, 40),
]


@pytest.mark.parametrize("case", CASES, ids=range(len(CASES)))
def test_answers_as_the_program_does(case, tmp_path):
  lengths, choice, lower, trim, levels = case
  rng = random.Random(f"{case}")
  questions = ["", "", *(text(rng, 9) for _ in range(40))]
  contexts = ["", "\u200b \0", *(text(rng, 1 + 3 * i) for i in range(40))]
  said = predicted(
    *(tmp_path, questions, contexts, model(levels, 10000)),
    *(lengths, choice, lower, trim),
  )
  ask = asked(task(lengths, choice, lower, trim), model(levels))
  found = ask(questions, contexts)
  answers = [answer.decode() for answer in found["answer"]]
  assert answers == list(said.answers.values())
  spans = zip(answers, found["begin"], found["end"], contexts, strict=True)
  assert all(stands_there(*span) for span in spans)
  assert len(set(answers)) > 15 or choice.version_2_with_negative
  for number, entries in enumerate(said.nbest.values()):
    (entry,) = (e for e in entries if e["text"] == answers[number])
    assert found["probability"][number] == pytest.approx(
      entry["probability"], rel=1e-5
    )
    if answers[number]:
      score = entry["start_logit"] + entry["end_logit"]
      assert found["score"][number] == score
  if choice.version_2_with_negative:
    texts = [answer.decode() for answer in found["best_answer"]]
    assert texts == list(said.texts.values())
    assert found["null_odds"].tolist() == list(said.null_odds.values())
  # One by one it is the same.
  for some in (slice(5, 6), slice(-1, None), slice(0)):
    alone = ask(questions[some], contexts[some])
    for name, values in found.items():
      assert alone[name].tolist() == values[some].tolist()


@pytest.fixture(scope="module", name="known")
def _known():
  smith = FullTokenizer(VOCAB).vocab["smith"]
  return asked(task(Lengths(128, 8, 64)), spotlight(smith))


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
  contexts, *wanted = (list(column) for column in zip(*examples, strict=True))
  found = known(["who?"] * len(examples), contexts)
  answers = [answer.decode() for answer in found["answer"]]
  places = found["begin"].tolist(), found["end"].tolist()
  assert [answers, *places] == wanted


def test_an_answer_in_a_megabyte(known):
  """Windows go through the model some at a time, texts are not piled up."""
  filler = "of the old mill, " * 30_000
  before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
  for long, blank in ((filler, " "), ("磨坊" * 90_000, "")):
    context = f"{long}{blank}Smith{blank}{long}"
    found = known(["who?"], [context])
    assert found["answer"].tolist() == [b"Smith"]
    assert found["begin"][0] == len(long) + len(blank)
  after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
  assert after - before < 400_000  # kilobytes


def test_features_give_logits():
  rows = {name: tf.constant([[7, 8, 0]]) for name in task().schema}
  found = task().from_features(model(40), **rows)
  wanted = model(40)(rows)
  assert list(found) == ["start_logits", "end_logits"]
  for name, values in found.items():
    assert values.numpy().tolist() == wanted[name].numpy().tolist()
