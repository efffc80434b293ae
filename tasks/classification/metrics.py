"""Scores and prediction files of classification: N examples, L labels."""

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import compress

import numpy as np

from data import labels as label_files
from serving.answers import sigmoid, softmax
from storage import UserError, files, textfiles
from tasks import metrics
from tasks.classification.examples import (
  ClassificationTask,
  TextExample,
  encode_label,
)


def predictions(task: ClassificationTask, outputs: np.ndarray) -> np.ndarray:
  """Turns a model's outputs into predictions.

  Classes: outputs [N, L] -> ids [N] int. Scores: [N, 1] -> [N] float. With
  multi_label: probabilities [N, L] -> 0 or 1 [N, L] int, by the thresholds.
  """
  if task.is_regression:
    return np.reshape(outputs, -1)
  if task.multi_label:
    return (outputs >= np.array(task.thresholds, outputs.dtype)).astype(int)
  return np.argmax(outputs, axis=-1)


def probabilities(task: ClassificationTask, logits: np.ndarray) -> np.ndarray:
  """Turns logits [N, L] into probabilities; does not change scores [N, 1]."""
  if task.is_regression:
    return logits
  return sigmoid(logits) if task.multi_label else softmax(logits)


def label_ids(
  task: ClassificationTask, examples: Sequence[TextExample]
) -> np.ndarray:
  """Labels as numbers: ids [N] int, or scores [N] float.

  With multi_label, the result is [N, L] int: 1 for a text's labels, else 0.
  """
  ids = {label: i for i, label in enumerate(task.labels)}
  rows = [encode_label(e.label, ids, task.multi_label) for e in examples]
  return np.array(rows) if task.multi_label else np.ravel(rows)


def evaluate(
  task: ClassificationTask, outputs: np.ndarray, examples: Sequence[TextExample]
) -> dict[str, float]:
  """Computes {metric: value}; for `outputs` see `predictions`."""
  predicted, labels = predictions(task, outputs), label_ids(task, examples)
  return {name: metrics.score(name, predicted, labels) for name in task.metrics}


def results(
  task: ClassificationTask,
  outputs: np.ndarray,
  losses: np.ndarray,
  examples: Sequence[TextExample],
  batch_size: int,
) -> dict[str, float]:
  """Computes the values of eval_results.txt: the original's and task.metrics.

  `loss` is the mean over batches, as in the original: a short last batch counts
  as much as a full batch. With multi_label, also computes F1 with thresholds of
  0.5. losses: [N]; for `outputs` see `predictions`.
  """
  starts = range(0, len(losses), batch_size)
  batches = [losses[i : i + batch_size].mean() for i in starts]
  result = {"eval_loss": losses.mean(), "loss": np.mean(batches)}
  scores = evaluate(task, outputs, examples)
  if task.multi_label:
    half = replace(task, thresholds=(0.5,) * len(task.labels))
    at_half = evaluate(half, outputs, examples)
    scores |= {f"{name}_at_0.5": value for name, value in at_half.items()}
  elif not task.is_regression:
    scores |= evaluate(replace(task, metrics=("accuracy",)), outputs, examples)
  return result | {f"eval_{name}": value for name, value in scores.items()}


def best_threshold(probs: np.ndarray, is_label: np.ndarray) -> float:
  """Threshold with the highest F1 of a label; 0.5 if no text has the label.

  probs: [N] float, is_label: [N] bool.
  """
  if not is_label.any():
    return 0.5
  order = np.argsort(-probs, kind="stable")
  probs = probs[order]
  correct = np.cumsum(is_label[order])
  f1 = 2 * correct / (np.arange(1, len(probs) + 1) + correct[-1])
  lower = np.append(probs[1:], -1e-9)  # no threshold separates equal values
  best = np.argmax(np.where(lower < probs, f1, 0.0))
  # In float32, the middle of two neighboring numbers is rounded to one of them.
  middle = np.float32((probs[best] + lower[best]) / 2)
  threshold = middle if lower[best] < middle <= probs[best] else probs[best]
  return max(float(str(threshold)), 0.0)  # a short decimal


def save_thresholds(task: ClassificationTask, path: str) -> None:
  """Writes a line for each label, with its threshold."""
  rows = zip(task.labels, map(str, task.thresholds), strict=True)
  metrics.write_table(path, rows)


def load_thresholds(task: ClassificationTask, path: str) -> tuple[float, ...]:
  """Reads thresholds.tsv; without a file, every threshold is 0.5.

  Raises ValueError if the file's labels are not the task's.
  """
  if not files.exists(path):
    return (0.5,) * len(task.labels)
  rows = [line.split("\t") for line in textfiles.text_lines(path) if line]
  try:
    values = {name: float(text) for name, text in rows}
  except ValueError:
    values = {}
  if tuple(values) != tuple(task.labels):
    labels = label_files.describe(task.labels)
    raise UserError(
      f"{path} must have the lines label, tab, threshold for {labels}, in "
      "this order: correct it, or remove it"
    )
  return tuple(values.values())


def write_predictions(
  folder: str,
  task: ClassificationTask,
  split: str,
  logits: np.ndarray,
  examples: Sequence[TextExample],
) -> None:
  """Writes test_results.tsv, test_predictions.tsv and GLUE's submission.

  For "test_mismatched", the first two end with _mismatched.tsv. A row of
  test_predictions.tsv has guid, prediction, the probability of each label, and
  copied columns. `logits` are [N, L] or [N, 1].
  """
  outputs = np.asarray(probabilities(task, logits), np.float32)
  end = split.removeprefix("test") + ".tsv"
  metrics.write_results(os.path.join(folder, f"test_results{end}"), outputs)
  cell = partial(re.sub, r"[\t\r\n]+", " ")  # a cell is on one line
  predicted = predictions(task, outputs)
  if task.is_regression:
    names = [*map(str, predicted)]
  elif task.multi_label:
    names = [label_files.join([*compress(task.labels, x)]) for x in predicted]
  else:
    names = [task.labels[i] for i in predicted]
  copied = list(dict.fromkeys(c for e in examples for c in e.columns or ()))
  header = ["guid", "prediction", *task.labels, *copied]
  table: list[Iterable[str]] = [map(cell, header)]
  for example, name, row in zip(examples, names, outputs, strict=True):
    values = map(str, row if task.labels else ())
    cells = (cell((example.columns or {}).get(c, "")) for c in copied)
    table.append([example.guid, name, *values, *cells])
  metrics.write_table(os.path.join(folder, f"test_predictions{end}"), table)
  if submission := task.splits[split].submission:
    if task.is_regression:  # the GLUE server allows 0 to 5
      names = [*map(str, np.clip(predicted, 0.0, 5.0))]
    table = [("index", "prediction")]
    table += [(str(i), name) for i, name in enumerate(names)]
    metrics.write_table(os.path.join(folder, submission), table)
