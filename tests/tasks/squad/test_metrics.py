"""Scores of SQuAD 1.1 and 2.0, and thresholds."""

import json
from pathlib import Path

import pytest

from tasks.squad import metrics
from tasks.squad.answers import Predictions
from tasks.squad.examples import SquadExample, read_examples
from tests import shared


def questions(**answers):
  return [SquadExample(k, "?", [], None, v) for k, v in answers.items()]


def test_squad_1_has_the_scores_exact_match_and_f1():
  data = questions(a=["The mill"], b=["in 1895", "1895"], c=["old mill house"])
  given = Predictions({"a": "mill!", "b": "1895", "c": "a mill"})
  # Articles and punctuation do not count. The answer to c has one of the three
  # right words.
  scores = {"exact_match": 100 * 2 / 3, "f1": 100 * (1 + 1 + 0.5) / 3}
  assert metrics.score(data, given, False) == pytest.approx(scores)
  # A missing answer is wrong.
  scores = metrics.score(data[:2], Predictions({"a": "mill"}), False)
  assert scores == {"exact_match": 50.0, "f1": 50.0}


def test_squad_2_scores_unanswerable_questions_too():
  data = questions(a=["mill"], b=[], c=[], d=["old house"])
  given = {"a": "mill", "b": "", "c": "river", "d": "house"}
  scores = metrics.score(data, Predictions(given), True)
  names = ("exact", "total", "HasAns_exact", "NoAns_exact")
  assert [scores[name] for name in names] == [50.0, 4, 50.0, 50.0]
  assert scores["f1"] == pytest.approx(100 * (1 + 1 + 0 + 2 / 3) / 4)
  assert "best_f1" not in scores


def test_the_best_threshold_is_computed_from_the_best_nonempty_texts():
  data = questions(a=["mill"], b=[], c=["river"])
  answers = dict.fromkeys("abc", "")  # a low threshold leaves all empty
  texts = {"a": "mill", "b": "house", "c": "lake"}
  odds = {"a": 1.5, "b": 3.0, "c": 2.0}
  given = Predictions(answers, texts=texts, null_odds=odds)
  scores = metrics.score(data, given, True)
  assert scores["exact"] == pytest.approx(100 / 3)
  # "mill" is right and "house" wrong, so the threshold is a's null odds.
  assert scores["best_exact"] == pytest.approx(200 / 3)
  assert scores["best_exact_thresh"] == scores["best_f1_thresh"] == 1.5


def test_the_best_threshold_is_below_all_odds_if_no_answer_is_best():
  data = questions(a=["mill"], b=[], c=[])
  given = dict.fromkeys("abc", "")
  odds = {"a": -0.5, "b": -3.0, "c": -2.0}
  texts = dict.fromkeys("abc", "house")
  scores = metrics.score(data, Predictions(given, {}, odds, texts), True)
  assert scores["best_exact"] == scores["best_f1"] == pytest.approx(200 / 3)
  assert scores["best_exact_thresh"] == scores["best_f1_thresh"] == -4.0


def test_null_odds_above_one_do_not_remove_an_answer():
  given = Predictions({"a": "mill"}, {}, {"a": 2.5}, {"a": "mill"})
  assert metrics.score(questions(a=["mill"]), given, True)["exact"] == 100.0


@pytest.mark.slow
@shared.on_datasets
@pytest.mark.parametrize(
  ("data", "model", "expected"),
  [
    ("dev-v1.1.open.json", "1.1/BERT (ensemble)", (85.975, 91.947)),
    ("dev-v1.1.open.json", "1.1/Logistic Regression", (39.715, 50.337)),
    ("dev-v2.0.open.json", "v2.0/BERT (single", (78.062, 81.297)),
    ("dev-v2.0.open.json", "v2.0/BiDAF + Self Attention", (64.975, 67.121)),
  ],
)
def test_official_predictions_have_their_official_scores(data, model, expected):
  folder = Path(shared.DATASETS) / "squad"
  (path,) = (folder / "models").glob(f"{model}*.json")
  given = Predictions(json.loads(path.read_text(encoding="utf-8")))
  examples = read_examples([str(folder / data)])
  result = metrics.score(examples, given, "v2.0" in data)
  exact = result.get("exact_match", result.get("exact"))
  assert (round(exact, 3), round(result["f1"], 3)) == expected


@pytest.mark.parametrize(
  ("answers", "in_version_1", "in_version_2"),
  [
    ([["a"], ["a", "b"]], True, True),
    ([["a"], []], False, True),
    ([[], []], False, False),  # a test set without labels
    ([["a"], None], False, False),
  ],
)
def test_every_question_needs_an_answer(answers, in_version_1, in_version_2):
  """None: the file does not say. An empty list: unanswerable, in SQuAD 2.0."""
  data = questions(**dict(zip("ab", answers, strict=True)))
  assert metrics.can_score(data, False) == in_version_1
  assert metrics.can_score(data, True) == in_version_2
