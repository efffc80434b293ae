"""Metrics of predictions and labels, [N] or [N, L], 0 if undefined; tables."""
# ruff: noqa: PLC0415

from collections.abc import Callable, Iterable, Sequence
from functools import partial

import numpy as np

from storage import files
from storage.progress import num_wide

# Names of records by the flag of the file that they are made of.
RECORDS = {"train_file": "train", "dev_file": "eval", "test_file": "predict"}


def accuracy(predictions: np.ndarray, labels: np.ndarray) -> float:
  """Fraction of correct predictions."""
  return float(np.mean(_vector(predictions) == _vector(labels)))


def f1(predictions: np.ndarray, labels: np.ndarray) -> float:
  """F1 of class 1."""
  from sklearn.metrics import f1_score

  is_predicted, is_label = _vector(predictions) == 1, _vector(labels) == 1
  return float(f1_score(is_label, is_predicted, zero_division=0.0))


def matthews_correlation(predictions: np.ndarray, labels: np.ndarray) -> float:
  """Matthews correlation coefficient of any number of classes."""
  from sklearn.metrics import matthews_corrcoef

  return _correlation(matthews_corrcoef, predictions, labels)


def pearson(predictions: np.ndarray, labels: np.ndarray) -> float:
  """Pearson correlation coefficient."""
  from scipy.stats import pearsonr

  return _correlation(lambda x, y: pearsonr(x, y)[0], predictions, labels)


def spearman(predictions: np.ndarray, labels: np.ndarray) -> float:
  """Spearman rank correlation coefficient."""
  from scipy.stats import spearmanr

  return _correlation(lambda x, y: spearmanr(x, y)[0], predictions, labels)


def f1_of_labels(
  predictions: np.ndarray, labels: np.ndarray, average: str
) -> float:
  """F1 of decisions [N, L]: "micro" of all, or "macro", the labels' mean."""
  from sklearn.metrics import f1_score

  options = _report_options(labels.shape[1])
  return float(f1_score(labels, predictions, average=average, **options))


METRICS: dict[str, Callable[[np.ndarray, np.ndarray], float]] = {
  "accuracy": accuracy,
  "f1": f1,
  "micro_f1": partial(f1_of_labels, average="micro"),
  "macro_f1": partial(f1_of_labels, average="macro"),
  "matthews_correlation": matthews_correlation,
  "pearson": pearson,
  "spearman": spearman,
}


def _correlation(coefficient, predictions, labels):
  x, y = _vector(predictions), _vector(labels)
  is_constant = np.ptp(x) == 0 or np.ptp(y) == 0
  return 0.0 if is_constant else float(coefficient(x, y))


def _vector(values):
  values = np.asarray(values)
  if values.ndim != 1 or not values.size:
    raise ValueError(f"expected a series of values, got {values.shape}")
  # In float32 correlations lose digits.
  return values.astype(np.float64) if values.dtype.kind == "f" else values


def _report_options(size):
  """Options of scikit-learn's scores for `size` labels."""
  # It takes the column of a single label for two classes, 0 and 1.
  return {"labels": range(size) if size > 1 else [1], "zero_division": 0.0}


def classification_report(
  names: Sequence[str], predictions: np.ndarray, labels: np.ndarray
) -> str:
  """Table of precision, recall, F1 and examples of each class, by indices."""
  from sklearn import metrics

  table = metrics.classification_report(
    labels,
    predictions,
    target_names=names,
    digits=4,
    **_report_options(len(names)),
  )
  most = max(map(num_wide, names))
  lines = table.split("\n")
  return "\n".join(" " * (most - num_wide(line)) + line for line in lines)


def write_results(path: str, outputs: np.ndarray) -> None:
  """Writes outputs [N, L] as float32, a line each, as the original."""
  rows = np.asarray(outputs, np.float32).reshape(len(outputs), -1)
  write_table(path, (map(str, row) for row in rows))


def write_table(path: str, rows: Iterable[Iterable[str]]) -> None:
  """Writes rows of texts, separated by tabs."""
  with files.open_for_writing(path) as file:
    file.writelines(("\t".join(row) + "\n").encode() for row in rows)
