"""From a tagger's logits to tags, results and files, by hand."""

import numpy as np
import pytest

from tasks.ner import examples as reader
from tasks.ner import metrics
from tasks.ner.examples import Sentence
from tasks.ner.schemes import recognize
from tests import programs

TAGS = ("O", "B-PET", "I-PET")
# The most probable tags: O, then B-PET I-PET B-PET.
ODDS = [[8, 1, 1], [1, 2, 1], [1, 1, 6], [2, 5, 1]]
LOGITS = np.log(np.array(ODDS, np.float32))
SENTENCES = [
  Sentence(["Rain"], ["O"], 0, 3),
  Sentence(["old", "Tom", "naps"], ["B-PET", "I-PET", "O"], 1, 7),
]


def test_results_are_of_names_and_words():
  assert metrics.label_ids(TAGS, SENTENCES).tolist() == [0, 1, 2, 0]
  predicted = [["O"], ["B-PET", "I-PET", "B-PET"]]
  scores = metrics.evaluate(
    [s.tags for s in SENTENCES], predicted, recognize(TAGS)
  )
  assert metrics.results(scores, np.array([1.0, 2.0, 3.0, 6.0])) == {
    "eval_loss": 3.0,
    "eval_accuracy": 3 / 4,
    "eval_precision": 1 / 2,
    "eval_recall": 1.0,
    "eval_f1": pytest.approx(2 / 3),
  }


def test_files_of_predictions(tmp_path):
  scores = metrics.score(LOGITS, TAGS, SENTENCES)
  assert scores.overall == metrics.Score(labels=1, predicted=2, correct=1)
  metrics.write_predictions(str(tmp_path), "dev", LOGITS, TAGS, SENTENCES)
  path = tmp_path / "dev_predictions.conll"
  assert path.read_text() == (
    "-DOCSTART- O O\n\nRain O O\n\n-DOCSTART- O O\n\n"
    "old B-PET B-PET\nTom I-PET I-PET\nnaps O B-PET\n\n"
  )
  read = reader.read_sentences(str(path), 0, 1)
  assert [s[:3] for s in read] == [s[:3] for s in SENTENCES]
  header, *rows = programs.table(tmp_path / "dev_predictions.tsv")
  assert header == ["line", "word", "prediction", "O", "B-PET", "I-PET"]
  assert [row[:3] for row in rows] == [
    ["3", "Rain", "O"],
    ["7", "old", "B-PET"],
    ["8", "Tom", "I-PET"],
    ["9", "naps", "B-PET"],
  ]
  np.testing.assert_allclose(
    np.array([row[3:] for row in rows], float),
    np.divide(ODDS, np.sum(ODDS, axis=1, keepdims=True)),
    rtol=1e-6,
  )


def test_unknown_tags_leave_predictions_alone(tmp_path):
  bare = [sentence._replace(tags=None, document=0) for sentence in SENTENCES]
  metrics.write_predictions(str(tmp_path), "test", LOGITS, TAGS, bare)
  assert (tmp_path / "test_predictions.conll").read_text() == (
    "Rain O\n\nold B-PET\nTom I-PET\nnaps B-PET\n\n"
  )
  assert (tmp_path / "test_predictions.tsv").exists()


def test_another_number_of_words_is_an_error(tmp_path):
  parts = str(tmp_path), "test", LOGITS[:3], TAGS, SENTENCES
  with pytest.raises(ValueError, match="zip"):
    metrics.write_predictions(*parts)


def test_both_files_have_the_same_tags_of_almost_equal_logits(tmp_path):
  # These float32 logits are so close that the probabilities are equal.
  logits = np.array([[0.0, 3e-8, -1.0]], np.float32)
  sentence = Sentence(["Rex"], None)
  metrics.write_predictions(str(tmp_path), "test", logits, TAGS, [sentence])
  assert (tmp_path / "test_predictions.conll").read_text() == "Rex B-PET\n\n"
  _, row = (tmp_path / "test_predictions.tsv").read_text().splitlines()
  assert row.split("\t")[2] == "B-PET"
