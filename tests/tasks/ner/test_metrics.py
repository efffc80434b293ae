"""Scores of entities and words agree with conlleval."""

import numpy as np
import pytest

from tasks.ner import examples as reader
from tasks.ner import metrics
from tasks.ner.examples import Sentence
from tasks.ner.metrics import Score
from tasks.ner.schemes import Entity, recognize
from tests import programs

TAGS = ("O", "B-PET", "I-PET")
# The most probable tags: O, then B-PET I-PET B-PET.
ODDS = [[8, 1, 1], [1, 2, 1], [1, 1, 6], [2, 5, 1]]
LOGITS = np.log(np.array(ODDS, np.float32))
SENTENCES = [
  Sentence(["Rain"], ["O"], 0, [3]),
  Sentence(["old", "Tom", "naps"], ["B-PET", "I-PET", "O"], 1, [7, 8, 9]),
]


def test_predictions_are_written_to_two_files(tmp_path):
  scores = metrics.score(LOGITS, TAGS, SENTENCES)
  assert scores.overall == Score(labels=1, predicted=2, correct=1)
  metrics.write_predictions(str(tmp_path), "dev", LOGITS, TAGS, SENTENCES)
  path = tmp_path / "dev_predictions.conll"
  assert path.read_text() == (
    "Rain O O\n\nold B-PET B-PET\nTom I-PET I-PET\nnaps O B-PET\n\n"
  )
  read = reader.read_sentences(str(path), 0, 1)
  assert [s[:2] for s in read] == [s[:2] for s in SENTENCES]
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


@pytest.mark.parametrize("tag", ["B-X", "O"])
@pytest.mark.parametrize("predicted", [1, 0])
def test_a_model_that_predicts_no_entity_is_reported(log, tag, predicted):
  logits = np.eye(2)[[predicted]]
  metrics.score(logits, ["O", "B-X"], [Sentence(["a"], [tag], 0, [1])])
  text = "the model predicts no entity, as if it had learned nothing"
  assert (text in log.text) == (tag == "B-X" and not predicted)


@pytest.mark.parametrize(
  ("tags", "names"),
  [
    ("O I-X I-X", [("X", 1, 3)]),  # IOB1: after O, I- begins an entity
    ("I-X B-X", [("X", 0, 1), ("X", 1, 2)]),
    ("B-X I-Y", [("X", 0, 1), ("Y", 1, 2)]),  # a new type, a new entity
    ("S-X S-X B-X", [("X", 0, 1), ("X", 1, 2), ("X", 2, 3)]),
    ("B-X E-X I-X", [("X", 0, 2), ("X", 2, 3)]),  # E- ends an entity
    ("O E-X B-X", [("X", 1, 2), ("X", 2, 3)]),
    ("X X Y O", [("X", 0, 2), ("Y", 2, 3)]),  # no prefixes at all
    ("B I O B B", [("", 0, 2), ("", 3, 4), ("", 4, 5)]),  # no types
    ("S B L", [("", 0, 1), ("", 1, 3)]),
    # Prefixes that contradict each other.
    ("I-X W-X I-X", [("X", 0, 1), ("X", 1, 2), ("X", 2, 3)]),
    ("B-X L-X I-X", [("X", 0, 2), ("X", 2, 3)]),
    ("B-X M-X B-X", [("X", 0, 2), ("X", 2, 3)]),
    ("", []),
  ],
)
def test_entities_are_located_as_in_conlleval(tags, names):
  result = recognize(tags.split()).entities(tags.split())
  assert result == [Entity(*name) for name in names]


BIO = recognize(["B-PER", "I-PER", "B-LOC", "B-ORG", "I-ORG"])
GOLD = ["B-PER I-PER O B-LOC".split(), "B-ORG O B-PER".split()]
PREDICTED = ["B-PER I-PER O B-ORG".split(), "B-ORG I-ORG O".split()]


def test_scores_agree_with_a_count_by_hand():
  scores = metrics.evaluate(GOLD, PREDICTED, BIO)
  assert scores.overall == Score(labels=4, predicted=3, correct=1)
  types = {"LOC": Score(1, 0, 0), "ORG": Score(1, 2, 0), "PER": Score(2, 1, 1)}
  assert scores.by_type == types
  assert scores.accuracy == 4 / 7
  assert metrics.report(scores).splitlines() == [
    "processed 7 tokens with 4 phrases; found: 3 phrases; correct: 1.",
    "accuracy:  57.14%; precision:  33.33%; recall:  25.00%; FB1:  28.57",
    "              LOC: precision:   0.00%; recall:   0.00%; FB1:   0.00  0",
    "              ORG: precision:   0.00%; recall:   0.00%; FB1:   0.00  2",
    "              PER: precision: 100.00%; recall:  50.00%; FB1:  66.67  1",
  ]


def test_blanks_within_words_and_tags_are_written_as_underscores(tmp_path):
  sentences = [Sentence(["E\tly\n"], ["B-old town"], lines=[1])]
  tags = "O", "B-new town"
  logits = np.array([[0.0, 1.0]])
  metrics.write_predictions(str(tmp_path), "test", logits, tags, sentences)
  text = (tmp_path / "test_predictions.conll").read_text()
  assert text == "E_ly_ B-old_town B-new_town\n\n"
  table = (tmp_path / "test_predictions.tsv").read_text()
  assert table.splitlines()[1].startswith("1\tE_ly_\tB-new town\t0.")


def test_tags_of_parts_of_speech_are_scored_by_accuracy():
  """Without a tag such as O, tags count as parts of speech, not as entities."""
  gold = ["DET ADJ ADJ NOUN".split(), "PRON VERB".split()]
  predicted = ["DET ADJ ADJ NOUN".split(), "PRON NOUN".split()]
  scores = metrics.evaluate(gold, predicted, recognize({"ADJ", "DET"}))
  # Neighbours with the same tag count as two words, not as one phrase.
  assert (scores.words, scores.overall.correct) == (6, 5)
  assert scores.accuracy == pytest.approx(5 / 6)
  assert "processed 6 tokens; correct: 5." in metrics.report(scores)
