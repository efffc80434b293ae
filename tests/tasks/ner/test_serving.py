"""The tagger in the graph against tasks/ner/records.py."""

import re

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from serving import packing_ops
from tasks.ner import records
from tasks.ner.examples import Sentence
from tasks.ner.serving import TokenClassification
from tests.serving import stand_in

TAGS = ("O", "B-X", "I-X")
LENGTHS = (3, 7)


@pytest.fixture(name="served", scope="module")
def _served(graph_tokenizer):
  """Functions from sentences to answers, by length of a window."""
  model = stand_in.tagger(len(TAGS))
  return {
    length: stand_in.compiled(
      TokenClassification(graph_tokenizer, length, TAGS), model
    )
    for length in LENGTHS
  }


def _expected(tokenizer, sentences, length):
  """Logits of the words of each sentence, by way of its records."""
  build = records.TagRecordBuilder(tokenizer, length, TAGS)
  sentences = [Sentence(words, None) for words in sentences]
  rows, windows = zip(*build(sentences), strict=True)
  logits = stand_in.tagger(len(TAGS))(stand_in.arrays(rows), False)["logits"]
  return records.group_by_sentence(
    records.first_piece_values(logits.numpy(), windows), sentences
  )


def _check(tokenizer, served, sentences, length):
  result = served(tokens=[" ".join(words) for words in sentences])
  numbers = [len(words) for words in sentences]
  assert result["num_words"].tolist() == numbers
  width = max(numbers, default=0)
  for name in ("words", "tags", "start", "end"):
    assert result[name].shape == (len(sentences), width)
  assert result["probabilities"].shape == (len(sentences), width, len(TAGS))
  assert result["labels"].tolist() == [[t.encode() for t in TAGS]] * len(
    numbers
  )
  real = [words for words in sentences if words]
  expected = iter(_expected(tokenizer, real, length) if real else [])
  for row, words in enumerate(sentences):
    number = len(words)
    assert [w.decode() for w in result["words"][row, :number]] == words
    assert not any(result["words"][row, number:])
    assert not any(result["tags"][row, number:])
    assert (result["start"][row, number:] == -1).all()
    assert (result["end"][row, number:] == -1).all()
    assert not result["probabilities"][row, number:].any()
    if not words:
      continue
    logits = next(expected)
    tags = [TAGS[i].encode() for i in logits.argmax(axis=-1)]
    assert result["tags"][row, :number].tolist() == tags
    np.testing.assert_allclose(
      result["probabilities"][row, :number], tf.nn.softmax(logits), atol=1e-5
    )
    text = " ".join(words)
    spans = zip(result["start"][row], result["end"][row], strict=True)
    assert [text[b:e] for b, e in spans][:number] == words


@pytest.mark.parametrize("length", LENGTHS)
def test_sentences_of_all_lengths(tokenizer, served, length):
  rng = np.random.default_rng(length)
  sentences = [
    [
      "".join(rng.choice([*"abcde.x"], rng.integers(1, 8)))
      for _ in range(number)
    ]
    for number in (*range(14), 70, 0, 1)
  ]
  _check(tokenizer, served[length], sentences, length)


_words = st.one_of(
  st.text(alphabet="abcde", min_size=1, max_size=9),
  st.text(
    st.characters(exclude_characters=" \t\r\n", exclude_categories=["Cs"]),
    min_size=1,
    max_size=6,
  ),
  st.sampled_from(["\u200b", "\0", "\u00a0", "a\u2028b", "ab" * 101, "[MASK]"]),
)


@given(
  st.lists(st.lists(_words, max_size=20), max_size=4), st.sampled_from(LENGTHS)
)
def test_any_words(tokenizer, served, sentences, length):
  _check(tokenizer, served[length], sentences, length)


def test_a_batch_changes_nothing(served):
  texts = ["a ab", "", "abc " * 30, "e"]
  together = served[7](tokens=texts)
  for row, text in enumerate(texts):
    alone = served[7](tokens=[text])
    number = alone["num_words"][0]
    assert together["num_words"][row] == number
    for name in ("words", "tags", "probabilities", "start", "end"):
      expected = together[name][row : row + 1, :number]
      stand_in.assert_equal(alone[name], expected)


@given(st.lists(st.binary(max_size=12), max_size=4))
def test_words_and_their_positions_in_any_bytes(texts):
  texts = [text.replace(b" ", b"\n") for text in texts]
  result = packing_ops.split_words(tf.constant(texts, tf.string), " \t\r\n")
  words, begin, end = (values.to_list() for values in result)
  for text, *result in zip(texts, words, begin, end, strict=True):
    assert result[0] == [w for w in re.split(rb"[ \t\r\n]", text) if w]
    for word, first, last in zip(*result, strict=True):
      chars = text.decode("utf-8", "replace")[first:last]
      assert chars == word.decode("utf-8", "replace")


def test_separators_and_offsets_by_hand(served):
  result = served[7](tokens=["  ab\tc \r\nd  é\u00a0x "])
  assert [w.decode() for w in result["words"][0]] == [
    "ab",
    "c",
    "d",
    "é\u00a0x",
  ]
  assert result["start"].tolist() == [[2, 5, 9, 12]]
  assert result["end"].tolist() == [[4, 6, 10, 15]]


def test_an_empty_batch(served):
  result = served[7](tokens=[])
  assert result["tags"].shape == (0, 0)
  assert result["probabilities"].shape == (0, 0, len(TAGS))
  assert result["labels"].shape == (0, len(TAGS))


def test_features_are_tagged_by_position(graph_tokenizer):
  task = TokenClassification(graph_tokenizer, 8, TAGS)
  inputs = stand_in.arrays(
    [{"input_ids": [2, 5, 3], "input_mask": [1] * 3, "segment_ids": [0] * 3}]
  )
  model = stand_in.tagger(len(TAGS))
  result = task.from_features(model, **inputs)
  logits = model(inputs, False)["logits"].numpy()
  tags = [TAGS[i].encode() for i in logits[0].argmax(axis=-1)]
  assert result["tags"].numpy().tolist() == [tags]
  assert result["probabilities"].shape == (1, 3, 3)
  assert list(task.schema) == list(inputs)
