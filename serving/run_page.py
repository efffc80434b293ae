"""run.html: a training and the evaluation of its model on one page."""

import json
import math
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from serving.answers import SCRIPT, STYLE, Texts
from storage import files

NAME = "run.html"
_PAGES = Path(__file__).parent / "visualization"
_MAX_SHOWN = 100  # errors on the page
_MAX_LABELS = 40  # labels of the confusion matrix
_BINS = 10  # intervals of probability


@dataclass(frozen=True)
class Judged:
  """An example of the dev set with the model's answer.

  `texts` and `answer` are an input and an answer of Predictor. `is_right` is
  None if labels are scores. `pairs` has the true and the predicted label of
  each labelled part, such as a word. `truth` is the index of the true label in
  the answer's `probabilities`. An unknown `probability` is NaN.
  """

  texts: Texts
  answer: dict[str, Any]
  label: str
  prediction: str
  is_right: bool | None
  probability: float = math.nan
  pairs: Sequence[tuple[str, str]] = ()
  truth: int | None = None


class Evaluation(dict[str, float]):
  """Scores by name; `judged` yields the examples behind the scores."""

  def __init__(self, scores: Mapping, judged: Iterable[Judged] = ()):
    super().__init__(scores)
    self.judged = judged


def write_table(path: str, judged: Sequence[Judged]) -> None:
  """Writes a TSV file: id, texts, label, prediction, probability, is_right."""
  inputs = list(judged[0].texts) if judged else []
  header = ["id", *inputs, "label", "prediction", "probability", "is_right"]
  lines = ["\t".join(header)]
  for number, one in enumerate(judged):
    cells = [f"{number}"]
    for value in (*map(one.texts.get, inputs), one.label, one.prediction):
      parts = [value or ""] if isinstance(value, str | None) else value
      cells.append(" ".join(" ".join(map(str, parts)).split()))
    is_right = "" if one.is_right is None else f"{one.is_right:d}"
    lines.append("\t".join([*cells, f"{one.probability:.4f}", is_right]))
  files.write_text(path, "\n".join(lines) + "\n")


def write(
  folder: str,
  facts: Mapping[str, str],
  flags: Mapping[str, Any],
  curves: Sequence[Mapping[str, float]],
  scores: Mapping[str, float],
  judged: Sequence[Judged] = (),
) -> str:
  """Writes run.html into a folder; returns its path.

  The page shows `facts`, and `flags` as on a command line. `curves` has the
  lines of metrics.jsonl, `scores` the evaluation of the final model.
  """

  def badness(one):  # confident errors or large differences come first
    if one.is_right is None:
      return abs(float(one.label) - float(one.prediction))
    return np.nan_to_num(one.probability)

  wrong = [one for one in judged if not one.is_right]
  shown = sorted(wrong, key=badness, reverse=True)[:_MAX_SHOWN]
  *curves, scores = [  # JSON lacks NaN and infinity
    {name: float(v) for name, v in values.items() if np.isfinite(v)}
    for values in (*curves, scores)
  ]
  data = {
    "facts": dict(facts),
    "flags": {
      name: ",".join(map(str, v)) if isinstance(v, tuple) else str(v)
      for name, v in flags.items()
    },
    "curves": curves,
    "scores": scores,
    "examples": len(judged),
    "wrong": [one.is_right for one in judged].count(False),
    "confusion": _confusion(judged),
    "calibration": calibration(judged),
    "errors": [
      {k: v for k, v in vars(one).items() if k != "probability"}
      for one in shown
    ],
  }
  path = os.path.join(folder, NAME)
  files.write_text(path, fill("run_page", data))
  return path


def fill(name: str, data: Mapping) -> str:
  """HTML of a page: frame.html with NAME.html, NAME.js and data as JSON."""
  parts = {
    "style": (STYLE, _PAGES / "page.css"),
    "main": (_PAGES / f"{name}.html",),
    "script": (SCRIPT, _PAGES / "frame.js", _PAGES / f"{name}.js"),
  }
  page = (_PAGES / "frame.html").read_text(encoding="utf-8")
  for part, paths in parts.items():
    texts = [path.read_text(encoding="utf-8") for path in paths]
    page = page.replace("{{" + part + "}}", "".join(texts))
  # "<" could end the script or begin a comment.
  text = json.dumps(data, ensure_ascii=False).replace("<", r"\u003c")
  return page.replace("{{data}}", text)


def _confusion(judged):
  pairs = Counter()
  for one in judged:
    pairs.update(one.pairs)
  labels = sorted({label for pair in pairs for label in pair})
  if not 1 < len(labels) <= _MAX_LABELS:
    return None
  counts = [[pairs[true, answer] for answer in labels] for true in labels]
  return {"labels": labels, "counts": counts}


def calibration(judged: Sequence[Judged]) -> dict[str, Any] | None:
  """Fractions of right answers by probability; None without probabilities.

  `bins` has (mean probability, fraction of right answers, number of examples),
  `error` the expected calibration error. Logits divided by `temperature` have
  the least cross entropy and the `fitted_error` (Guo et al., arXiv:1706.04599).
  """
  known = [one for one in judged if np.isfinite(one.probability)]
  if not known:
    return None
  right = np.array([one.is_right for one in known])
  bins, error = _bins(np.array([one.probability for one in known]), right)
  result = {"bins": bins, "error": error}
  truths = [one.truth for one in known]
  if None in truths:
    return result
  from scipy import optimize, special

  probs = np.array([one.answer["probabilities"] for one in known])
  logits = np.log(np.maximum(probs, 1e-12))
  rows = np.arange(len(known))

  def cross_entropy(temperature):
    scaled = special.log_softmax(logits / temperature, axis=1)
    return -scaled[rows, truths].mean()

  fit = optimize.minimize_scalar(cross_entropy, bounds=(0.05, 20.0))
  fitted = special.softmax(logits / fit.x, axis=1).max(axis=1)
  extra = {"temperature": float(fit.x), "fitted_error": _bins(fitted, right)[1]}
  return result | extra


def _bins(probs, right):
  numbers = np.minimum((probs * _BINS).astype(int), _BINS - 1)
  bins = []
  for number in np.unique(numbers):
    own = numbers == number
    row = float(probs[own].mean()), float(right[own].mean()), int(own.sum())
    bins.append(row)
  distances = [abs(p - accuracy) * n for p, accuracy, n in bins]
  return bins, sum(distances) / len(probs)
