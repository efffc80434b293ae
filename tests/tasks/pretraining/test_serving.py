"""Filling masks in the graph against numpy."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from data.tokenization_ops import GraphTokenizer
from tasks.pretraining.serving import FillMask
from tests.serving import stand_in

T, K = 8, 3
# The model has more ids than the vocabulary has tokens.
V = len(stand_in.WORDS) + 4


@pytest.fixture(name="served", scope="module")
def _served(graph_tokenizer):
  return stand_in.compiled(FillMask(graph_tokenizer, T, K), stand_in.filler(V))


def _ids(tokenizer, text):
  """[CLS] text [SEP], cut."""
  parts = [tokenizer.tokenize(part) for part in text.split("[MASK]")]
  tokens = parts[0]
  for part in parts[1:]:
    tokens = [*tokens, "[MASK]", *part]
  tokens = ["[CLS]", *tokens[: T - 2], "[SEP]"]
  return tokenizer.convert_tokens_to_ids(tokens)


def _fills(tokenizer, ids):
  """Tokens and their probabilities for each mask of a text."""
  positions = [position for position, i in enumerate(ids) if i == 4]
  inputs = {
    "input_ids": np.array([ids]),
    "input_mask": np.ones([1, len(ids)], int),
    "segment_ids": np.zeros([1, len(ids)], int),
    "masked_lm_positions": np.array([positions], int),
  }
  logits = stand_in.filler(V)(inputs, False)["masked_lm_logits"].numpy()[0]
  for row in np.exp(logits[:, : len(stand_in.WORDS)].astype(float)):
    best = np.argsort(-row, kind="stable")[:K]
    words = tokenizer.convert_ids_to_tokens(best.tolist())
    yield words, row[best] / row.sum()


_text = st.lists(
  st.one_of(
    st.text(max_size=4),
    st.text(alphabet="abcde ", max_size=6),
    st.sampled_from(["[MASK]", "[MASK]", "[[MASK]", "[mask]", "[CLS]", "\0"]),
  ),
  max_size=6,
).map("".join)


@given(st.lists(_text, min_size=1, max_size=4))
def test_any_texts(tokenizer, served, texts):
  result = served(text=texts)
  rows = [_ids(tokenizer, text) for text in texts]
  numbers = [ids.count(4) for ids in rows]
  assert result["num_masks"].tolist() == numbers
  shape = (len(texts), max(numbers), K)
  assert result["tokens"].shape == result["probabilities"].shape == shape
  for row, ids in enumerate(rows):
    number = numbers[row]
    for mask, (words, probabilities) in enumerate(_fills(tokenizer, ids)):
      np.testing.assert_allclose(
        result["probabilities"][row, mask], probabilities, atol=1e-5
      )
      # Two words may be equally likely.
      if np.diff(probabilities).max() < -1e-5:
        assert [w.decode() for w in result["tokens"][row, mask]] == words
    assert not any(result["tokens"][row, number:].ravel())
    assert not result["probabilities"][row, number:].any()


def test_what_is_cut_off_is_not_filled(served):
  result = served(text=["a [MASK] " + "b " * 9 + "[MASK]", "[MASK]" * 20])
  assert result["num_masks"].tolist() == [1, T - 2]


def test_no_position_leads_into_another_row(graph_tokenizer):
  task = FillMask(graph_tokenizer, T, K)
  inputs = {
    "input_ids": tf.constant([[2, 4, 3, 0], [2, 5, 4, 3]]),
    "input_mask": tf.constant([[1, 1, 1, 0], [1, 1, 1, 1]]),
    "segment_ids": tf.zeros([2, 4], tf.int32),
  }

  def ask(positions):
    inputs["masked_lm_positions"] = tf.constant(positions)
    return task.from_features(stand_in.filler(V), **inputs)["num_masks"]

  assert ask([[1, 0], [2, 3]]).numpy().tolist() == [1, 2]
  for positions in ([[3, 0], [2, 0]], [[1, 0], [4, 0]], [[1, 0], [-1, 0]]):
    with pytest.raises(tf.errors.InvalidArgumentError, match="beyond the tok"):
      ask(positions)


def test_an_empty_batch(served):
  result = served(text=[])
  assert result["tokens"].shape == (0, 0, K)
  assert result["num_masks"].shape == (0,)


def test_a_small_vocabulary_and_a_wrong_one(graph_tokenizer):
  task = FillMask(graph_tokenizer, T, 1000)
  result = stand_in.compiled(task, stand_in.filler(V))(text=["[MASK]"])
  assert result["tokens"].shape == (1, 1, len(stand_in.WORDS))
  np.testing.assert_allclose(result["probabilities"].sum(), 1.0, rtol=1e-5)
  with pytest.raises(ValueError, match=r"19 lines .* vocab_size .* is 18"):
    stand_in.compiled(task, stand_in.filler(18))
  with pytest.raises(ValueError, match="the vocabulary lacks"):
    FillMask(GraphTokenizer({"[UNK]": 0}), T)
