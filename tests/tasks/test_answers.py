"""The answers that each task gives to texts, in Python and in a graph."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from data.features import TOKENS
from data.tokenization import FullTokenizer
from serving import answers as serving_answers
from serving.answers import TextConfig, TextModel, sigmoid, softmax, to_list
from storage import UserError
from tasks.classification import answers as classification
from tasks.classification.examples import TextExample, TextRecordBuilder
from tasks.classification.task import TextClassification
from tasks.features import answers as features
from tasks.features.task import FeatureExtraction
from tasks.multiple_choice import answers as multiple_choice
from tasks.multiple_choice.examples import ChoiceExample, ChoiceRecordBuilder
from tasks.ner import answers as ner
from tasks.ner import records as ner_records
from tasks.ner.answers import split_words
from tasks.ner.examples import BLANK, Sentence
from tasks.pretraining import answers as pretraining
from tests.serving import stand_in, tasks
from tests.tasks.ner.test_records import word_values

LENGTHS = st.sampled_from((5, 9))
_text = st.one_of(
  st.text(alphabet="abcde ", max_size=12),
  st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
  st.sampled_from(["", "\u200b", "\0", "[SEP]", "a" * 201, "Σ", "a ||| b"]),
  st.lists(st.sampled_from(["[MASK]", "[[MASK]", "b "]), max_size=6).map(
    "".join
  ),
)


# --- Texts become the rows that the training program makes -------------------


def _pair_rows(tokenizer, length, text_a, text_b):
  build = TextRecordBuilder(tokenizer, length, tasks.LABELS)
  return [build(TextExample("", text_a, text_b))[0]]


def _choice_rows(tokenizer, length, sent1, sent2, choices):
  build = ChoiceRecordBuilder(tokenizer, length)
  return [build(ChoiceExample(sent1, sent2, tuple(choices)))[0]]


def _tag_rows(tokenizer, length, tokens):
  words = tokens
  if isinstance(tokens, str):
    words = [tokens[begin:end] for begin, end in split_words(tokens)[1]]
  build = ner_records.TagRecordBuilder(tokenizer, length, tasks.TAGS)
  return [row for row, _ in build([Sentence(words, None)] * bool(words))]


def _tagger(length):
  return ner.Answers(tasks.text_config(tasks.TAGS, length))


# Columns: functions that make Answers for a length, an example from texts, and
# the rows of the training program for an example.
CASES = {
  "pairs": (
    lambda n: classification.Answers(tasks.text_config(tasks.LABELS, n), True),
    lambda t: {"text_a": t[0], "text_b": t[1]},
    _pair_rows,
  ),
  "choices": (
    lambda n: multiple_choice.Answers(tasks.text_config(length=n)),
    lambda t: {"sent1": t[0], "sent2": t[1], "choices": [*t[2:]]},
    _choice_rows,
  ),
  "tags": (_tagger, lambda t: {"tokens": t[0]}, _tag_rows),
  "tags of a list": (
    _tagger,
    lambda t: {"tokens": [*filter(None, t)]},
    _tag_rows,
  ),
}


@pytest.mark.parametrize("name", CASES)
@given(st.lists(_text, min_size=3, max_size=5), LENGTHS)
def test_answers_make_the_rows_of_training(name, tokenizer, texts, length):
  make_answers, make_example, make_rows = CASES[name]
  example = make_example(texts)
  rows = make_answers(length).encode(example).rows
  expected = make_rows(tokenizer, length, **example)
  for row, record in zip(rows, expected, strict=True):
    size = row["input_ids"].shape[-1]
    for field, value in row.items():
      complete = np.array(record[field]).reshape(*value.shape[:-1], length)
      np.testing.assert_array_equal(value, complete[..., :size])
      assert not complete[..., size:].any()  # only padding is left out
    # No column is padding in every choice.
    assert row["input_mask"].any(-2 if row["input_mask"].ndim > 1 else 0).all()


def test_a_line_is_split_into_two_texts_only_if_pairs_is_true(graph_tokenizer):
  for pairs in (True, False):
    answers = features.Answers(tasks.text_config(length=8), "mean", pairs)
    [row] = answers.encode({"text": "ab ||| ab"}).rows
    assert row["segment_ids"].any() == pairs

    def model(inputs, training):
      return {"values": tf.cast(inputs["segment_ids"], tf.float32)[:, None]}

    text = FeatureExtraction(graph_tokenizer, answers)
    result = text.from_text(model, tf.constant(["ab ||| ab"]))["sentence"]
    assert np.any(result) == pairs


# --- The graph gives the same answers as Python ------------------------------

STAND_INS = {
  "classification": stand_in.classifier(2),
  "classification of pairs": stand_in.classifier(2),
  "several labels": stand_in.classifier(2),
  "scores": stand_in.classifier(1),
  "choices": stand_in.chooser(),
  # The model has more ids than the vocabulary.
  "masks": stand_in.filler(len(stand_in.WORDS) + 4),
  "vectors": stand_in.encoder(2, 3),
}


@pytest.fixture(name="graph_and_python", scope="module")
def _graph_and_python(every_task, graph_tokenizer):
  """Maps a task's name to two functions that answer: graph and Python."""

  def make(name):
    served, model = every_task[name], STAND_INS[name]
    text = served.in_graph(graph_tokenizer, served.answers)
    engine = stand_in.Engine(served.answers.task, model)
    return stand_in.in_graph(text, model), TextModel(served.answers, engine)

  return tasks.OnDemand(make)


def check_row(result, expected, name):
  """Compares a row of the graph's padded output with Python's answer."""
  value = np.asarray(result[name])
  if value.dtype.kind in "OS":  # bytes
    value = np.vectorize(bytes.decode, otypes=[object])(value)
  size = len(expected[name]) if value.ndim else None
  inside = value[:size] if value.ndim else value
  if value.dtype.kind in "OU":
    assert [*inside.ravel()] == [*np.ravel(np.array(expected[name], object))]
  elif size != 0:
    np.testing.assert_allclose(inside, expected[name], atol=1e-5)
  if value.ndim:
    assert not any(value[size:].ravel())


def _has_ties(answer):
  """True if two probabilities are so close that rounding may swap them."""
  rows = np.atleast_2d(answer.get("probabilities", [[0.0]]))
  return bool((np.abs(np.diff(np.sort(rows))) < 1e-5).any())


@pytest.mark.parametrize("name", tasks.IN_GRAPH)
@given(st.lists(_text, min_size=1, max_size=4))
def test_the_graph_gives_the_answers_of_python(graph_and_python, name, texts):
  in_graph, in_python = graph_and_python[name]
  examples = tasks.make_examples(in_python.answers, texts)
  outputs = in_graph(examples)
  for row, expected in enumerate(in_python(examples)):
    result = {key: value[row] for key, value in outputs.items()}
    assert result.keys() == expected.keys()
    for key in expected:
      is_ranked = key in ("choice", "text", "tokens") and name != "vectors"
      if not (is_ranked and _has_ties(expected)):
        check_row(result, expected, key)


def test_the_graph_returns_the_cls_vector_or_the_vector_that_the_model_pooled(
  graph_tokenizer,
):
  answers = features.Answers(tasks.text_config(length=9), "cls")
  text = FeatureExtraction(graph_tokenizer, answers)
  line, model = tf.constant(["a ||| b c"]), stand_in.encoder(2, 3)
  result = text.from_text(model, text=line)
  values = result["token_vectors"]
  np.testing.assert_array_equal(result["sentence"], values[:, 0])

  def pooled(inputs, training):
    return {"values": model(inputs, training)["values"][:, 1]}

  [(name, value)] = text.from_text(pooled, text=line).items()
  assert name == "sentence"
  np.testing.assert_array_equal(value, values[:, 1])


# --- Worked examples of answers ----------------------------------------------


def _decode(model, texts, **outputs):
  arrays = {name: np.array(v, np.float32) for name, v in outputs.items()}
  encoded = model.encode(texts)
  return model.decode(encoded, [arrays] * len(encoded.rows))


def test_logits_of_a_classifier_become_a_label_or_a_score():
  config = tasks.text_config(("no", "yes"), 9)
  model = classification.Answers(config, pairs=False)
  answer = {"label": "yes", "labels": ["no", "yes"]}
  answer["probabilities"] = [0.25, 0.75]
  assert _decode(model, {"text": "a"}, logits=[0.0, np.log(3)]) == answer
  score = classification.Answers(tasks.text_config(length=9), pairs=True)
  answer = _decode(score, {"text_a": "a", "text_b": ""}, logits=[0.2])
  assert answer == {"score": 0.2}  # and not 0.20000000298023224


@pytest.mark.parametrize("labels", [None, ("a", "b", "c")])
def test_the_model_must_have_as_many_labels_as_outputs(labels):
  model = classification.Answers(tasks.text_config(labels), pairs=False)
  with pytest.raises(UserError, match="the model has 2 outputs, but labels"):
    _decode(model, {"text": "a"}, logits=[0.0, 1.0])


def test_a_label_is_predicted_if_its_probability_reaches_its_threshold():
  config = tasks.text_config(("a", "b", "c"), 9)
  model = classification.Answers(config, False, (0.5, 0.75, 0.2))
  logits = [0.0, np.log(3) - 1e-3, -1.0]  # 0.5, just below 0.75, 0.27
  answer = _decode(model, {"text": "a"}, logits=logits)
  assert (answer["predicted"], answer["num_predicted"]) == (["a", "c"], 2)
  graph = TextClassification(config.tokenizer.in_graph(), model)
  outputs = {"logits": tf.constant([logits], tf.float32)}
  answers = graph.from_text(lambda *_, **__: outputs, text=tf.constant(["a"]))
  assert answers["predicted"].numpy().tolist() == [[b"a", b"c"]]
  # In float32, the first label's probability equals its threshold.
  near = classification.Answers(config, False, (0.73105854, 0.9, 0.9))
  answer_near = _decode(near, {"text": "a"}, logits=[1.0, 0.0, 0.0])
  assert answer_near["predicted"] == ["a"]
  np.testing.assert_allclose(
    answer["probabilities"], sigmoid(np.array(logits)), rtol=1e-6
  )


def test_logits_of_multiple_choice_become_a_choice():
  model = multiple_choice.Answers(tasks.text_config(length=9))
  texts = {"sent1": "a", "sent2": "b", "choices": ["c", "d", "e"]}
  answer = _decode(model, texts, logits=[0.0, np.log(2), 0.0])
  assert (answer["choice"], answer["text"]) == (1, "d")
  assert answer["probabilities"] == [0.25, 0.5, 0.25]
  # A row has at most 32 choices.
  encoded = model.encode(texts | {"choices": ["c", "d"] * 35})
  assert [len(row["input_ids"]) for row in encoded.rows] == [32, 32, 6]
  parts = np.split(np.arange(70), [32, 64])
  answer = model.decode(encoded, [{"logits": part} for part in parts])
  assert answer["choice"] == 69
  assert len(answer["probabilities"]) == 70


def _tag(texts, tags, labels=tasks.TAGS, odds=9.0):
  """Returns the answer of a model that predicts `tags` for the words.

  `tags` are indices into `labels`. `odds` is the logit of each predicted tag:
  a number, or a list with a number for each word.
  """
  model = ner.Answers(tasks.text_config(labels, 32))
  logits = np.zeros((32, len(labels)), np.float32)
  for position, odd in enumerate(np.broadcast_to(odds, len(tags)), 1):
    logits[position, tags[position - 1]] = odd
  return _decode(model, {"tokens": texts}, logits=logits)


def test_words_and_punctuation_have_their_positions_in_the_text():
  answer = _tag("  a,\tc \r\nd  é\u00a0x ", [1, 2, 0, 0, 0, 0])
  assert answer["words"] == ["a", ",", "c", "d", "é", "x"]
  assert answer["start"] == [2, 3, 5, 9, 12, 14]
  assert answer["end"] == [3, 4, 6, 10, 13, 15]
  assert answer["num_words"] == 6
  assert answer["tags"] == ["B-X", "I-X", "O", "O", "O", "O"]


def test_an_entity_has_its_positions_in_the_text():
  text = "(😀e\u0301  b), c"
  answer = _tag(text, [0, 0, 1, 2, 0, 0, 2], odds=[9, 9, 2, 1, 9, 9, 0.5])
  first, second = answer["entities"]
  assert (first["start"], first["end"]) == (2, 7)
  assert first["text"] == text[2:7] == "e\u0301  b"
  assert (second["label"], second["text"]) == ("X", "c")
  # An entity has the probability of its least certain word, which has two other
  # logits, both 0.
  for entity, odd in ((first, 1), (second, 0.5)):
    expected = np.exp(odd) / (np.exp(odd) + 2)
    assert entity["probability"] == pytest.approx(expected, abs=1e-6)
    assert text[entity["start"] : entity["end"]] == entity["text"]
  assert sorted(first) == ["end", "label", "probability", "start", "text"]


def test_a_list_of_words_is_not_split():
  answer = _tag(["a b", "c.", " ", "d"], [0, 0, 1, 2, 2, 2])
  assert answer["words"] == ["a b", "c.", " ", "d"]
  assert answer["start"] == [0, 4, 7, 9]  # one blank between words
  assert [e["text"] for e in answer["entities"]] == ["c.   d"]
  assert _tag([], []) == _tag("", []) == _tag(" \n", [])


def test_a_word_of_whitespace_becomes_the_symbol_for_a_blank(tmp_path):
  path = tmp_path / "vocab.txt"
  path.write_text("\n".join([*stand_in.WORDS, BLANK]))
  model = ner.Answers(TextConfig(FullTokenizer(path), 9, tasks.TAGS))
  [row] = model.encode({"tokens": ["a", " ", "b"]}).rows
  assert row["input_ids"][2] == len(stand_in.WORDS)


@pytest.mark.parametrize(
  ("labels", "outside"), [("B-X O", "O"), ("B-X -", "-"), ("NOUN VERB", None)]
)
def test_an_answer_names_the_tag_of_words_outside_of_entities(labels, outside):
  labels = labels.split()
  answer = _tag("a b", [1, 1], labels)
  assert (answer["outside"], answer["entities"]) == (outside, [])
  assert answer["tags"] == [labels[1]] * 2


def test_a_sentence_of_several_windows_has_the_tags_of_run_ner(tokenizer):
  engine = stand_in.Engine("ner", stand_in.tagger(3))
  model = TextModel(ner.Answers(tasks.text_config(tasks.TAGS, 7)), engine)
  sentences = [
    ["abc"[: 1 + (i * n) % 3] for i in range(n)] for n in (1, 5, 30, 70)
  ]
  answers = model([{"tokens": " ".join(words)} for words in sentences])
  build = ner_records.TagRecordBuilder(tokenizer, 7, tasks.TAGS)
  for words, answer in zip(sentences, answers, strict=True):
    rows, windows = zip(*build([Sentence(words, None)]), strict=True)
    inputs = {name: np.array([row[name] for row in rows]) for name in TOKENS}
    outputs = stand_in.tagger(3)(inputs, training=False)
    logits = word_values(outputs["logits"].numpy(), windows)
    assert answer["tags"] == [tasks.TAGS[i] for i in logits.argmax(-1)]
    result = answer["probabilities"]
    np.testing.assert_allclose(result, softmax(logits), atol=1e-5)


def test_a_pair_has_the_mask_tokens_of_both_texts_and_a_next_sentence_answer():
  model = pretraining.Answers(tasks.text_config(length=9), top_k=2)
  texts = {"text": "a [MASK] b", "text_pair": "[MASK] c"}
  [row] = model.encode(texts).rows
  tokens = model.config.tokenizer.convert_ids_to_tokens(row["input_ids"])
  assert " ".join(tokens) == "[CLS] a [MASK] b [SEP] [MASK] c [SEP]"
  assert row["segment_ids"].tolist() == [0, 0, 0, 0, 0, 1, 1, 1]
  assert row["masked_lm_positions"].tolist() == [2, 5]
  logits = np.zeros((2, len(stand_in.WORDS) + 4))
  # The vocabulary has no token for the last logit.
  logits[0, 5], logits[1, 6], logits[0, -1] = 3, 4, 9
  outputs = {"next_sentence_logits": [np.log(3), 0.0]}
  answer = _decode(model, texts, masked_lm_logits=logits, **outputs)
  assert [words[0] for words in answer["tokens"]] == ["a", "b"]
  assert (answer["is_next"], answer["is_next_probability"]) == (True, 0.75)
  assert _decode(model, texts, masked_lm_logits=logits)["is_next"] is None
  # An empty second text is no text.
  for texts in ({"text": "a"}, {"text": "a", "text_pair": ""}):
    alone = _decode(model, texts, masked_lm_logits=logits[:1], **outputs)
    assert alone == {"num_masks": 0, "probabilities": [], "tokens": []}


@given(st.lists(st.sampled_from((0.0, 1.0, 2.0, np.nan)), min_size=7))
def test_the_best_tokens_are_first_in_a_stable_order_with_nan_last(values):
  model = pretraining.Answers(tasks.text_config(length=9), top_k=3)
  row = np.resize(values, len(model.vocab_ids))
  outputs = {"masked_lm_logits": row[None], "next_sentence_logits": [np.nan]}
  answer = _decode(model, {"text": "[MASK]", "text_pair": "a"}, **outputs)
  best = np.argsort(-row, kind="stable")[:3].tolist()
  tokens = model.config.tokenizer.convert_ids_to_tokens(best)
  assert (answer["tokens"], answer["is_next"]) == ([tokens], None)


def test_top_k_is_at_most_the_size_of_the_vocabulary(tmp_path):
  words = "\n".join([*stand_in.WORDS, "", "last"])  # a blank line has no token
  (tmp_path / "vocab.txt").write_text(words)
  config = TextConfig(FullTokenizer(tmp_path / "vocab.txt"), 9)
  model = pretraining.Answers(config, top_k=99)
  assert model.top_k == len(stand_in.WORDS) + 1
  logits = np.arange(len(stand_in.WORDS) + 2.0)[None]
  answer = _decode(model, {"text": "[MASK]"}, masked_lm_logits=logits)
  assert answer["tokens"] == [["last", *stand_in.WORDS[::-1]]]


def test_a_truncated_text_keeps_the_mask_tokens_that_fit():
  model = pretraining.Answers(tasks.text_config(length=8), top_k=2)
  for texts, positions in (
    ({"text": "a [MASK] " + "b " * 9 + "[MASK]"}, [2]),
    ({"text": "a " * 9, "text_pair": "[MASK] " * 2}, [5, 6]),
  ):
    [row] = model.encode(texts).rows
    assert len(row["input_ids"]) == 8
    assert row["masked_lm_positions"].tolist() == positions


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_outputs_of_the_encoder_become_vectors_of_tokens_and_text(pooling):
  model = features.Answers(tasks.text_config(length=9), pooling)
  values = np.arange(24.0).reshape(4, 2, 3)
  answer = _decode(model, {"text": "a b"}, values=values)
  assert answer["tokens"] == ["[CLS]", "a", "b", "[SEP]"]
  expected = values[0] if pooling == "cls" else values.mean(0)
  assert answer["sentence"] == expected.tolist()
  assert answer["token_vectors"] == values.tolist()
  windows = _decode(model, {"text": "a b"}, values=values[0])
  assert windows == {"sentence": values[0].tolist()}


# --- Probabilities and files ------------------------------------------------


def test_large_logits_have_finite_probabilities():
  logits = np.array([[9e4, 0, 0], [-9e4, -9e4, -9e5]], np.float32)
  expected = [[1, 0, 0], [0.5, 0.5, 0]]
  assert softmax(logits).tolist() == expected
  logits = np.array([-1e4, -80, 0, 200], np.float32)
  expected = [0, np.exp(-80), 0.5, 1]
  np.testing.assert_allclose(sigmoid(logits), expected, rtol=1e-5)


def test_nan_and_infinity_become_null_in_json():
  values = np.array([[np.nan, 0.5], [-np.inf, 1]], np.float32)
  assert to_list(values) == [[None, 0.5], [None, 1]]
  assert to_list(values[0, 0]) is None


@pytest.mark.parametrize(
  ("labels", "do_lower_case"), [(None, True), (["b", "a"], False)]
)
def test_the_files_of_an_export_restore_task_tokenizer_and_labels(
  tmp_path, labels, do_lower_case
):
  tokenizer = FullTokenizer(tasks.vocab_file(), do_lower_case)
  answers = classification.Answers(TextConfig(tokenizer, 33, labels), False)
  serving_answers.save(str(tmp_path), answers)
  task, loaded, settings = serving_answers.load(str(tmp_path))
  assert loaded == TextConfig(loaded.tokenizer, 33, labels)
  assert loaded.tokenizer.vocab == tokenizer.vocab
  assert (task, settings) == ("classification", {"pairs": False})
  lower, upper = map(loaded.tokenizer.tokenize, ("ab", "AB"))
  assert (lower == upper) == do_lower_case


def test_a_changed_vocabulary_of_an_export_is_refused(tmp_path):
  config = TextConfig(FullTokenizer(tasks.vocab_file(), True), 33, ["b", "a"])
  answers = classification.Answers(config, pairs=False)
  serving_answers.save(str(tmp_path), answers)
  path = tmp_path / "vocab.txt"
  lines = path.read_text().split()
  for other in ([*lines[:5], *reversed(lines[5:])], lines[:-1]):
    path.write_text("\n".join(other))
    with pytest.raises(UserError, match="has other tokens than the exported o"):
      serving_answers.load(str(tmp_path))
