"""Multiple choice in the graph against data/tasks/swag.py."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from data.tasks import swag
from data.tasks.swag import Example
from serving.choices import Choices
from tests.serving import stand_in

LENGTHS = (5, 9)


@pytest.fixture(name="served", scope="module")
def _served(graph_tokenizer):
  """Functions from texts to answers, by length of a choice."""
  return {
    length: stand_in.compiled(
      Choices(graph_tokenizer, length), stand_in.chooser()
    )
    for length in LENGTHS
  }


def _ask(served, examples):
  sent1, sent2, endings, _ = zip(*examples, strict=True)
  return served(sent1=sent1, sent2=sent2, choices=endings)


def _check(tokenizer, served, examples, length):
  found = _ask(served, examples)
  number = len(examples[0].endings)
  build = swag.Builder(tokenizer, length, number)
  inputs = stand_in.arrays([build(example) for example in examples])
  for name in ("input_ids", "input_mask", "segment_ids"):
    inputs[name] = inputs[name].reshape(-1, number, length)
  logits = stand_in.chooser()(inputs, False)["logits"].numpy()
  np.testing.assert_allclose(
    found["probabilities"], tf.nn.softmax(logits), atol=1e-5
  )
  chosen = found["choice"]
  # Two endings may be equally good.
  best = np.take_along_axis(logits, chosen[:, None], axis=1)[:, 0]
  np.testing.assert_allclose(best, logits.max(axis=1), atol=1e-5)
  texts = [
    example.endings[place]
    for example, place in zip(examples, chosen, strict=True)
  ]
  assert [text.decode() for text in found["text"]] == texts


_text = st.one_of(
  st.text(alphabet="abcde ", max_size=12),
  st.text(max_size=5),
  st.sampled_from(["", "\u200b", "\0", "[SEP]", "a" * 201, "Σ"]),
)


@settings(max_examples=60)
@given(st.data())
def test_any_texts(tokenizer, served, data):
  number = data.draw(st.integers(1, 5))
  examples = data.draw(
    st.lists(
      st.builds(Example, _text, _text, st.tuples(*[_text] * number), st.none()),
      min_size=1,
      max_size=4,
    )
  )
  length = data.draw(st.sampled_from(LENGTHS))
  _check(tokenizer, served[length], examples, length)


def test_records_of_fewer_choices_are_filled_up(graph_tokenizer):
  task = Choices(graph_tokenizer, 8)
  row = {"input_ids": [2, 5, 3], "input_mask": [1] * 3, "segment_ids": [0] * 3}
  inputs = stand_in.arrays([row, row, row])
  given = {name: value[None] for name, value in inputs.items()}
  # Two choices, and a place for a third.
  given = {
    name: np.concatenate([value[:, :2], 0 * value[:, :1]], axis=1)
    for name, value in given.items()
  }
  found = task.from_features(stand_in.chooser(), **given)
  np.testing.assert_allclose(found["probabilities"], [[0.5, 0.5, 0.0]])
  assert found["choice"].numpy().tolist() == [0]


def test_an_empty_batch(served):
  found = served[9](sent1=[], sent2=[], choices=np.zeros((0, 4), str))
  assert found["probabilities"].shape == (0, 4)
  assert found["choice"].shape == found["text"].shape == (0,)
