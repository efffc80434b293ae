"""Computes metrics of predictions, and writes tables: N examples, L labels."""
# ruff: noqa: PLC0415

from collections.abc import Iterable, Sequence

import numpy as np
from absl import logging

from storage import files

# End of a warning about a model that gives each example the same answer.
UNTRAINED = (
  "as if it had learned nothing: train longer, with another --learning_rate or "
  "--seed, or check --init_checkpoint"
)


def score(name: str, predictions: np.ndarray, labels: np.ndarray) -> float:
  """Computes a metric by name; 0 if undefined.

  Class ids [N] have accuracy, f1 (of class 1), matthews_correlation. Scores [N]
  have pearson, spearman. Decisions (0 or 1) [N, L] have micro_f1, macro_f1.
  """
  if name == "accuracy":
    return float(np.mean(predictions == labels))
  from scipy import stats
  from sklearn import metrics

  averages = {"f1": "binary", "micro_f1": "micro", "macro_f1": "macro"}
  if average := averages.get(name):
    options = {"average": average, "zero_division": 0.0}
    return float(metrics.f1_score(labels, predictions, **options))
  if np.ptp(predictions) == 0 or np.ptp(labels) == 0:
    return 0.0
  if name == "matthews_correlation":
    return float(metrics.matthews_corrcoef(labels, predictions))
  # Correlations lose digits in float32.
  scores = np.asarray(predictions, float), np.asarray(labels, float)
  correlation = {"pearson": stats.pearsonr, "spearman": stats.spearmanr}[name]
  return float(correlation(*scores)[0])


def classification_report(
  names: Sequence[str], predictions: np.ndarray, labels: np.ndarray
) -> str:
  """Table of each class's precision, recall, F1 and number of examples.

  Takes class ids, [N], or decisions, [N, L]. Warns if the predictions are all
  equal and the labels are not.
  """
  from sklearn import metrics

  if (predictions == predictions[0]).all() and (labels != labels[0]).any():
    logging.warning(f"the model predicts the same for each text, {UNTRAINED}")
  return metrics.classification_report(
    labels,
    predictions,
    labels=range(len(names)),
    target_names=names,
    digits=4,
    zero_division=0.0,
  )


def write_results(path: str, outputs: np.ndarray) -> None:
  """Writes outputs, [N, L], as lines of float32 numbers, like the original."""
  rows = np.asarray(outputs, np.float32).reshape(len(outputs), -1)
  write_table(path, (map(str, row) for row in rows))


def write_table(path: str, rows: Iterable[Iterable[str]]) -> None:
  """Writes rows of texts, separated by tabs."""
  with files.open_for_writing(path) as file:
    file.writelines(("\t".join(row) + "\n").encode() for row in rows)
  logging.info("wrote %s", path)
