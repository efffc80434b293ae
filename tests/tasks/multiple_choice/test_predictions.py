"""Prediction files of multiple choice, by hand."""

import numpy as np
import pytest

from tasks.multiple_choice import task
from tasks.multiple_choice.examples import ChoiceExample
from tests import programs

ENDINGS = ("the boat sinks", "a bell\trings\nloudly", "it rains")
EXAMPLES = [ChoiceExample("We wait", "then", ENDINGS)] * 4
# The most probable choices are 1, 2, 0, 0.
ODDS = [[1, 8, 1], [1, 1, 2], [6, 1, 1], [5, 1, 2]]
LOGITS = np.log(np.array(ODDS, np.float32))


def test_files_of_predictions(tmp_path):
  task.write_predictions(str(tmp_path), LOGITS, EXAMPLES)
  numbers = np.array(programs.table(tmp_path / "test_results.tsv"), float)
  expected = np.divide(ODDS, np.sum(ODDS, axis=1, keepdims=True))
  np.testing.assert_allclose(numbers, expected, rtol=1e-6)
  header, *rows = programs.table(tmp_path / "test_predictions.tsv")
  names = ("number", "prediction", "text", "ending0", "ending1", "ending2")
  assert header == [*names]
  assert [row[:3] for row in rows] == [
    ["0", "1", "a bell rings loudly"],  # one cell on one line
    ["1", "2", "it rains"],
    ["2", "0", "the boat sinks"],
    ["3", "0", "the boat sinks"],
  ]
  same = np.array([row[3:] for row in rows], float)
  np.testing.assert_array_equal(same, numbers)


def test_another_number_of_examples_is_an_error(tmp_path):
  with pytest.raises(ValueError, match="zip"):
    task.write_predictions(str(tmp_path), LOGITS, EXAMPLES[:3])
