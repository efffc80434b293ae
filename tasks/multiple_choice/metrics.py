"""Scores and prediction files of run_swag.py.

Legend: N examples, C choices.
"""

import os
from collections.abc import Sequence

import numpy as np

from tasks import metrics
from tasks.multiple_choice.examples import ChoiceExample


def label_ids(examples: Sequence[ChoiceExample]) -> np.ndarray:
  """Numbers of the correct endings, [N] int."""
  return np.array([example.label for example in examples])


def results(
  logits: np.ndarray, losses: np.ndarray, examples: Sequence[ChoiceExample]
) -> dict[str, float]:
  """Values of eval_results.txt; logits are [N, C], losses [N]."""
  accuracy = metrics.accuracy(np.argmax(logits, -1), label_ids(examples))
  return {"eval_loss": losses.mean(), "eval_accuracy": accuracy}


def report(logits: np.ndarray, examples: Sequence[ChoiceExample]) -> str:
  """Table of precision, recall and F1 of each ending's number."""
  return metrics.classification_report(
    _names(logits), np.argmax(logits, -1), label_ids(examples)
  )


def write_predictions(
  folder: str, logits: np.ndarray, examples: Sequence[ChoiceExample]
) -> list[str]:
  """Writes test_results.tsv (probabilities only) and test_predictions.tsv.

  The latter has a header: number of the example, predicted ending, its text,
  and the probability of each ending. logits are [N, C].

  Returns:
    Paths of the files.
  """
  probabilities = metrics.softmax(logits).astype(np.float32)
  result_path = os.path.join(folder, "test_results.tsv")
  metrics.write_results(result_path, probabilities)
  table = [["number", "prediction", "text", *_names(logits)]]
  rows = zip(examples, probabilities, strict=True)
  for number, (example, row) in enumerate(rows):
    choice = int(np.argmax(row))
    text = " ".join(example.endings[choice].split())
    table.append([str(number), str(choice), text, *map(str, row)])
  table_path = os.path.join(folder, "test_predictions.tsv")
  metrics.write_table(table_path, table)
  return [result_path, table_path]


def _names(logits):
  return [f"ending{number}" for number in range(logits.shape[1])]
