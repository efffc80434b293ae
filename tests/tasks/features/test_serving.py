"""Vectors in the graph against tasks/features/lines.py."""

import sys

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from tasks.features import lines, task
from tasks.features.task import FeatureExtraction
from tests.serving import stand_in

LENGTHS = (3, 8)
L, H = 2, 3


@pytest.fixture(name="served", scope="module")
def _served(graph_tokenizer):
  """Functions from texts to answers, by length of a text."""
  model = stand_in.encoder(L, H)
  return {
    length: stand_in.compiled(
      FeatureExtraction(graph_tokenizer, length, "mean"), model
    )
    for length in LENGTHS
  }


# What a line of a file can hold.
_text = st.lists(
  st.one_of(
    st.text(
      st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]),
      max_size=4,
    ),
    st.sampled_from(["|||", " ||| ", " ", "ab", "\u2028", "\x1f", "\u200b"]),
  ),
  max_size=7,
).map("".join)


@given(st.lists(_text, min_size=1, max_size=4), st.sampled_from(LENGTHS))
def test_any_lines(tokenizer, served, tmp_path_factory, texts, length):
  path = tmp_path_factory.mktemp("lines") / "text.txt"
  path.write_bytes("".join(f"{text}\n" for text in texts).encode())
  result = served[length](text=texts)
  text_lines = lines.read_lines(str(path), tokenizer, length)
  assert result["sentence"].shape == (len(texts), L, H)
  for row, line in enumerate(text_lines):
    number = len(line.ids)
    tokens = tokenizer.convert_ids_to_tokens(line.ids)
    assert [t.decode() for t in result["tokens"][row, :number]] == tokens
    assert not any(result["tokens"][row, number:])
    assert result["num_tokens"][row] == number
    inputs = {
      "input_ids": np.array([line.ids]),
      "input_mask": np.ones([1, number], int),
      "segment_ids": np.array([line.segments]),
    }
    values = stand_in.encoder(L, H)(inputs, False)["values"].numpy()[0]
    of_tokens = result["token_vectors"][row]
    np.testing.assert_allclose(of_tokens[:number], values, atol=1e-5)
    assert not of_tokens[number:].any()
    np.testing.assert_allclose(
      result["sentence"][row], values.mean(axis=0), atol=1e-5
    )


@pytest.mark.parametrize(
  "text",
  [
    *("a", "", "a ||| b", " a  ||| \tb ", "a ||| b ||| c", "a ||| ||| b"),
    *("a|||b", "||| b", "a ||| ", "a ||| \u2028", "\x1f ||| a", "a |||\x85 b"),
  ],
)
def test_the_last_bar_between_blanks_separates(text):
  first, second = (
    part.numpy()[0].decode() for part in task.split(tf.constant([text]))
  )
  assert (first, second or None) == lines.split(text)


def test_blanks_are_pythons():
  codes = (c for c in range(sys.maxunicode + 1) if not 0xD800 <= c < 0xE000)
  chars = [chr(code) for code in codes]
  result, _ = task.split(tf.constant(chars))
  assert [c for c in result.numpy() if c] == [
    c.encode() for c in chars if c.strip()
  ]


def test_an_empty_batch(served):
  result = served[8](text=[])
  assert result["sentence"].shape == (0, L, H)
  assert result["tokens"].shape == (0, 2)
  assert result["token_vectors"].shape == (0, 2, L, H)
  assert result["num_tokens"].shape == (0,)


def test_bytes_that_are_no_text_are_left_out(served):
  result = served[8](text=[b"\xffa ||| \xe4b"])
  tokens = [b"[CLS]", b"a", b"[SEP]", b"b", b"[SEP]"]
  assert result["tokens"].tolist() == [tokens]
