"""Prediction files of multiple choice, by hand."""

import numpy as np
import pytest

from tasks.multiple_choice import task
from tasks.multiple_choice.examples import ChoiceExample

ENDINGS = ("the boat sinks", "a bell\trings\nloudly", "it rains")
EXAMPLES = [
  ChoiceExample("We wait", "then", ENDINGS, label) for label in (1, 2, 1, 0)
]
# The most probable: 1, 2, 0, 0.
LOGITS = np.log(
  np.array([[1, 8, 1], [1, 1, 2], [6, 1, 1], [5, 1, 2]], np.float32)
)


def _table(path):
  return [line.split("\t") for line in path.read_text().split("\n")[:-1]]


PROBABILITIES = [
  [1 / 10, 8 / 10, 1 / 10],
  [1 / 4, 1 / 4, 2 / 4],
  [6 / 8, 1 / 8, 1 / 8],
  [5 / 8, 1 / 8, 2 / 8],
]


def test_files_of_predictions(tmp_path):
  bare = [example._replace(label=None) for example in EXAMPLES]
  task.write_predictions(str(tmp_path), LOGITS, bare)
  numbers = np.array(_table(tmp_path / "test_results.tsv"), float)
  np.testing.assert_allclose(numbers, PROBABILITIES, rtol=1e-6)
  header, *rows = _table(tmp_path / "test_predictions.tsv")
  assert header == [
    *("number", "prediction", "text"),
    *("ending0", "ending1", "ending2"),
  ]
  assert [row[:3] for row in rows] == [
    ["0", "1", "a bell rings loudly"],  # in one cell of one line
    ["1", "2", "it rains"],
    ["2", "0", "the boat sinks"],
    ["3", "0", "the boat sinks"],
  ]
  same = np.array([row[3:] for row in rows], float)
  np.testing.assert_array_equal(same, numbers)


def test_another_number_of_examples_is_an_error(tmp_path):
  with pytest.raises(ValueError, match="zip"):
    task.write_predictions(str(tmp_path), LOGITS, EXAMPLES[:3])
