"""The classifier in the graph against tasks/classification/examples.py."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from tasks.classification.examples import TextExample, TextRecordBuilder
from tasks.classification.task import TextClassification
from tests.serving import stand_in

LABELS = ("no", "yes", "perhaps")
LENGTHS = (3, 9)


@pytest.fixture(name="pairs", scope="module")
def _pairs(graph_tokenizer):
  """Functions from pairs to answers, by length of a row."""
  model = stand_in.classifier(len(LABELS))
  return {
    length: stand_in.compiled(
      TextClassification(graph_tokenizer, length, LABELS, pairs=True), model
    )
    for length in LENGTHS
  }


@pytest.fixture(name="singles", scope="module")
def _singles(graph_tokenizer):
  """A function from texts to scores."""
  task = TextClassification(graph_tokenizer, 9, None, pairs=False)
  return stand_in.compiled(task, stand_in.classifier(1))


def _logits(tokenizer, pairs, length, size):
  build = TextRecordBuilder(tokenizer, length, LABELS)
  rows = [build(TextExample("", *texts)) for texts in pairs]
  model = stand_in.classifier(size)
  return model(stand_in.arrays(rows), False)["logits"].numpy()


_text = st.one_of(
  st.text(alphabet="abcde ", max_size=12),
  st.text(max_size=5),
  st.sampled_from(["", "\u200b", "\0", "[SEP]", "a" * 201]),
)


@given(
  st.lists(st.tuples(_text, _text), min_size=1, max_size=4),
  st.sampled_from(LENGTHS),
)
def test_any_pairs(tokenizer, pairs, texts, length):
  first, second = zip(*texts, strict=True)
  result = pairs[length](text_a=first, text_b=second)
  logits = _logits(tokenizer, texts, length, len(LABELS))
  np.testing.assert_allclose(
    result["probabilities"], tf.nn.softmax(logits), atol=1e-5
  )
  labels = [LABELS[i].encode() for i in logits.argmax(axis=-1)]
  assert result["label"].tolist() == labels
  names = [label.encode() for label in LABELS]
  assert result["labels"].tolist() == [names] * len(texts)


@given(st.lists(_text, min_size=1, max_size=4))
def test_scores_of_any_texts(tokenizer, singles, texts):
  result = singles(text=texts)
  assert list(result) == ["score"]
  logits = _logits(tokenizer, [(text,) for text in texts], 9, 1)
  np.testing.assert_allclose(result["score"], logits[:, 0], atol=1e-5)


def test_an_empty_second_text_is_none(pairs, graph_tokenizer):
  task = TextClassification(graph_tokenizer, 9, LABELS, pairs=False)
  alone = stand_in.compiled(task, stand_in.classifier(len(LABELS)))
  together = pairs[9](text_a=["ab c", "d"], text_b=["\u200b", "e e"])
  stand_in.assert_equal(
    together["probabilities"][:1], alone(text=["ab c"])["probabilities"]
  )


def test_an_empty_batch(pairs, singles):
  result = pairs[9](text_a=[], text_b=[])
  assert result["probabilities"].shape == result["labels"].shape == (0, 3)
  assert result["label"].shape == (0,)
  assert singles(text=[])["score"].shape == (0,)
