"""Writes answers to SQuAD's questions, and scores exact match and F1.

Model Garden's copies of the official evaluators compute the scores, in percent.
"""

import json
import os
import re
import string
from collections import Counter
from collections.abc import Mapping, Sequence

from absl import logging

from storage import files
from tasks.squad.answers import Predictions
from tasks.squad.examples import SquadExample

F1_UNITS = ("word", "character")
REMEDY = (
  'each needs the field "answers"; with --version_2_with_negative, it may be '
  "[] in some questions, but not in all"
)
# Two letters of Thai, Lao, Burmese, Khmer, Japanese or Chinese.
_UNSPACED = re.compile(
  r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u9fff]{2}"
)
# KorQuAD's evaluator removes other punctuation without leaving a blank.
_TO_BLANKS = str.maketrans(dict.fromkeys("'\"《》<>〈〉()‘’", " "))
_REMOVED = str.maketrans(dict.fromkeys(string.punctuation))


def write_predictions(predictions: Predictions, output_dir: str) -> None:
  """Writes the original's files: two for SQuAD 1.1, three for SQuAD 2.0."""
  contents: dict[str, Mapping] = {
    "predictions.json": predictions.answers,
    "nbest_predictions.json": predictions.nbest,
  }
  if predictions.null_odds:
    contents["null_odds.json"] = predictions.null_odds
  for name, content in contents.items():
    path = os.path.join(output_dir, name)
    files.write_text(path, f"{json.dumps(content, indent=4)}\n")
    logging.info("wrote %s", path)


def score(
  examples: Sequence[SquadExample],
  predictions: Predictions,
  version_2_with_negative: bool,
  f1_unit: str = "word",
) -> dict[str, float]:
  """Compares answers with the annotators' answers, which `can_score` checks.

  SQuAD 1.1 has exact_match and f1. A question without a prediction is wrong.

  SQuAD 2.0 has exact, f1 and total of all questions, of answerable questions
  (HasAns_...) and of unanswerable questions (NoAns_...). If there are null
  odds, the scores also have best_exact and best_f1 with their thresholds,
  best_exact_thresh and best_f1_thresh. A question without a prediction is not
  scored.
  """
  if f1_unit == "character":
    return score_characters(examples, predictions)
  questions = [
    {"id": e.qas_id, "answers": [{"text": t} for t in e.answer_texts or ()]}
    for e in examples
  ]
  articles = [{"paragraphs": [{"qas": questions}]}]
  if version_2_with_negative:
    return _score_v2(articles, predictions)
  # Only programs that score need the Model Garden.
  from official.nlp.tools import squad_evaluate_v1_1  # noqa: PLC0415

  fractions = squad_evaluate_v1_1.evaluate(articles, predictions.answers)
  exact, f1 = fractions["exact_match"], fractions["final_f1"]
  return {"exact_match": 100 * exact, "f1": 100 * f1}


def score_characters(
  examples: Sequence[SquadExample], predictions: Predictions
) -> dict[str, float]:
  """Exact match, and F1 of characters, as in KorQuAD's official evaluator."""

  def words(text):
    return text.translate(_TO_BLANKS).lower().translate(_REMOVED).split()

  exact = total_f1 = 0.0
  for example in examples:
    if (answer := predictions.answers.get(example.qas_id)) is None:
      continue  # counts as wrong
    given, f1 = words(answer), [0.0]
    expected = [*map(words, example.answer_texts or ())]
    exact += given in expected
    for other in expected:
      common = (Counter("".join(given)) & Counter("".join(other))).total()
      f1.append(2 * common / max(1, sum(map(len, given + other))))
    total_f1 += max(f1)
  total = len(examples)
  return {"exact_match": 100 * exact / total, "f1": 100 * total_f1 / total}


def warn_of_words(
  path: str, questions: Sequence[SquadExample], f1_unit: str | None = None
) -> None:
  """Warns if most answers have no blanks; `f1_unit` only if they are scored."""
  answers = [text for one in questions for text in one.answer_texts or ()]
  answers += [one.answer.text for one in questions if one.answer]
  unspaced = [text for text in answers if _UNSPACED.search(text)]
  if 2 * len(unspaced) > len(answers):
    text = "%s: answers such as %r have no blanks between words. A word ends "
    text += "at a blank, as in the original, so training takes the first place "
    text += "of an answer in its word, and some answers are complete words. "
    text += "docs/languages.md puts blanks between characters"
    if f1_unit == "word":
      text += "; without them, --f1_unit=character scores SQuAD 1.1 better"
    logging.warning(text, path, unspaced[0])


def can_score(
  examples: Sequence[SquadExample], version_2_with_negative: bool
) -> bool:
  """True if the file has answers to all questions; in SQuAD 2.0 maybe [].

  If all are [], the file is a test set without labels.
  """
  answers = [example.answer_texts for example in examples]
  if version_2_with_negative:
    return None not in answers and any(answers)
  return all(answers)


def _score_v2(articles, predictions):
  from official.nlp.tools import squad_evaluate_v2_0  # noqa: PLC0415

  # No null odds here: the answers already depend on the threshold, and the
  # evaluator would drop answers with odds above 1.0.
  scores = squad_evaluate_v2_0.evaluate(articles, predictions.answers)
  unused = ("final_", "pr_")  # scores by threshold, useless without odds
  results = {k: v for k, v in scores.items() if not k.startswith(unused)}
  if predictions.null_odds:
    # The search for thresholds takes the best texts before any threshold.
    texts, odds = predictions.texts, predictions.null_odds
    scores = squad_evaluate_v2_0.evaluate(articles, texts, odds)
    for name in ("exact", "f1"):
      threshold = scores[f"final_{name}_thresh"]
      if threshold not in odds.values():  # where the search begins: no answers
        threshold = min(odds.values()) - 1
      results[f"best_{name}"] = scores[f"final_{name}"]
      results[f"best_{name}_thresh"] = threshold
  return results
