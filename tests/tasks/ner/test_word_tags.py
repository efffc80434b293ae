"""Tags of single words, such as parts of speech."""

import pytest

from tasks.ner import examples, metrics, tagging
from tasks.ner.schemes import recognize

TEXT = "the DET\nred ADJ\nbig ADJ\nhouse NOUN\n\nit PRON\nfell VERB\n"


@pytest.fixture(name="sentences")
def _sentences(tmp_path):
  path = tmp_path / "words.txt"
  path.write_text(TEXT)
  return list(examples.read_sentences(str(path)))


def test_word_tags_are_sorted_and_lack_outside(sentences):
  tags = tagging.tag_set(sentences)
  assert tags == ("ADJ", "DET", "NOUN", "PRON", "VERB")
  for of_entities in (["O", "PER"], ["B-PER", "I-PER"], ["O", "B", "I"]):
    assert recognize(of_entities).name
  assert not recognize(tags).name
  assert not recognize(["N", "S", "I"]).name  # S is an adposition


def test_word_accuracy_is_the_metric(sentences):
  predicted = [["DET", "ADJ", "ADJ", "NOUN"], ["PRON", "NOUN"]]
  scores = metrics.evaluate(
    [s.tags for s in sentences], predicted, recognize({"ADJ", "DET"})
  )
  # Equal neighbours are two words, not one phrase.
  assert (scores.words, scores.overall.correct) == (6, 5)
  assert scores.accuracy == pytest.approx(5 / 6)
  assert "processed 6 tokens; correct: 5." in metrics.report(scores)
  assert metrics.metric(tagging.tag_set(sentences)) == "eval_accuracy"
  assert metrics.metric(["O", "B-X"]) == "eval_f1"
