"""Probabilities from large logits, and answer files."""

import numpy as np
import pytest

from data.tokenization import FullTokenizer
from serving import answers
from serving.answers import TextConfig
from tasks.classification.answers import Answers
from tests.serving import tasks


def test_large_logits_have_probabilities():
  logits = np.array([[9e4, 0, 0], [-9e4, -9e4, -9e5]], np.float32)
  expected = [[1, 0, 0], [0.5, 0.5, 0]]
  assert answers.softmax(logits).tolist() == expected
  logits = np.array([-1e4, -80, 0, 200], np.float32)
  expected = [0, np.exp(-80), 0.5, 1]
  np.testing.assert_allclose(answers.sigmoid(logits), expected, rtol=1e-5)


def test_numbers_that_json_does_not_have_become_null():
  values = np.array([[np.nan, 0.5], [-np.inf, 1]], np.float32)
  assert answers.to_list(values) == [[None, 0.5], [None, 1]]
  assert answers.to_list(values[0, 0]) is None


@pytest.mark.parametrize("labels", [None, ["b", "a"]])
@pytest.mark.parametrize("do_lower_case", [False, True])
def test_what_is_saved_is_loaded(tmp_path, labels, do_lower_case):
  tokenizer = FullTokenizer(tasks.vocab_file(), do_lower_case)
  config = TextConfig(tokenizer, 33, labels)
  answers.save(str(tmp_path), Answers(config, pairs=False))
  task, loaded, settings = answers.load(str(tmp_path))
  assert loaded == TextConfig(loaded.tokenizer, 33, labels)
  assert loaded.tokenizer.vocab == tokenizer.vocab
  assert (task, settings) == ("classification", {"pairs": False})
  lower, upper = map(loaded.tokenizer.tokenize, ("ab", "AB"))
  assert (lower == upper) == do_lower_case
