"""Multiple choice in the graph against tasks/multiple_choice/examples.py."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from tasks.multiple_choice.examples import ChoiceExample, ChoiceRecordBuilder
from tasks.multiple_choice.task import MultipleChoice
from tests.serving import stand_in

LENGTHS = (5, 9)


@pytest.fixture(name="served", scope="module")
def _served(graph_tokenizer):
  """Functions from texts to answers, by length of a choice."""
  return {
    length: stand_in.compiled(
      MultipleChoice(graph_tokenizer, length), stand_in.chooser()
    )
    for length in LENGTHS
  }


def _ask(served, examples):
  sent1, sent2, endings, _ = zip(*examples, strict=True)
  return served(sent1=sent1, sent2=sent2, choices=endings)


def _check(tokenizer, served, examples, length):
  result = _ask(served, examples)
  number = len(examples[0].endings)
  build = ChoiceRecordBuilder(tokenizer, length, number)
  inputs = stand_in.arrays([build(example) for example in examples])
  for name in ("input_ids", "input_mask", "segment_ids"):
    inputs[name] = inputs[name].reshape(-1, number, length)
  logits = stand_in.chooser()(inputs, False)["logits"].numpy()
  np.testing.assert_allclose(
    result["probabilities"], tf.nn.softmax(logits), atol=1e-5
  )
  chosen = result["choice"]
  # Two endings may be equally good.
  best = np.take_along_axis(logits, chosen[:, None], axis=1)[:, 0]
  np.testing.assert_allclose(best, logits.max(axis=1), atol=1e-5)
  texts = [
    example.endings[number]
    for example, number in zip(examples, chosen, strict=True)
  ]
  assert [text.decode() for text in result["text"]] == texts


_text = st.one_of(
  st.text(alphabet="abcde ", max_size=12),
  st.text(max_size=5),
  st.sampled_from(["", "\u200b", "\0", "[SEP]", "a" * 201, "Σ"]),
)


@pytest.mark.slow
@given(st.data())
def test_any_texts(tokenizer, served, data):
  number = data.draw(st.integers(1, 5))
  examples = data.draw(
    st.lists(
      st.builds(
        ChoiceExample, _text, _text, st.tuples(*[_text] * number), st.none()
      ),
      min_size=1,
      max_size=4,
    )
  )
  length = data.draw(st.sampled_from(LENGTHS))
  _check(tokenizer, served[length], examples, length)


def test_records_of_fewer_choices_are_filled_up(graph_tokenizer):
  task = MultipleChoice(graph_tokenizer, 8)
  row = {"input_ids": [2, 5, 3], "input_mask": [1] * 3, "segment_ids": [0] * 3}
  inputs = stand_in.arrays([row, row, row])
  # Two choices, and an empty one.
  inputs = {
    name: np.concatenate([value[None, :2], 0 * value[None, :1]], axis=1)
    for name, value in inputs.items()
  }
  result = task.from_features(stand_in.chooser(), **inputs)
  np.testing.assert_allclose(result["probabilities"], [[0.5, 0.5, 0.0]])
  assert result["choice"].numpy().tolist() == [0]


def test_an_empty_batch(served):
  result = served[9](sent1=[], sent2=[], choices=np.zeros((0, 4), str))
  assert result["probabilities"].shape == (0, 4)
  assert result["choice"].shape == result["text"].shape == (0,)
