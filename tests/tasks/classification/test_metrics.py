"""Scores, reports and files of predictions of classification tasks."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from tasks import metrics
from tasks.classification import metrics as evaluation
from tasks.classification import named_tasks
from tasks.classification.examples import TextExample
from tests import programs

MNLI = named_tasks.find("mnli")
GOLD = ("neutral", "entailment", "neutral", "contradiction")
EXAMPLES = [TextExample(f"dev-{i}", "a", "b", x) for i, x in enumerate(GOLD, 1)]
OUTPUTS = np.array(
  [[0.1, 0.2, 0.7], [0.2, 0.5, 0.3], [0.1, 0.6, 0.3], [0.8, 0.1, 0.1]],
  np.float32,
)


def test_each_glue_task_has_its_official_metrics():
  official = dict.fromkeys(named_tasks.TASKS, ("accuracy",))
  official |= dict.fromkeys(("CoLA", "AX"), ("matthews_correlation",))
  official |= dict.fromkeys(("MRPC", "QQP"), ("accuracy", "f1"))
  official["STS-B"] = ("pearson", "spearman")
  tasks = named_tasks.TASKS.items()
  assert {name: task.metrics for name, task in tasks} == official


def test_labels_are_evaluated_by_accuracy_and_scores_by_correlations():
  assert evaluation.evaluate(MNLI, OUTPUTS, EXAMPLES) == {"accuracy": 0.75}
  examples = [TextExample("x", "a", "b", s) for s in ("1.0", "2", "3.5")]
  outputs = np.array([[0.0], [1.0], [2.5]])
  result = evaluation.evaluate(named_tasks.find("sts-b"), outputs, examples)
  assert result == {"pearson": pytest.approx(1), "spearman": pytest.approx(1)}


def test_the_report_has_a_row_for_every_label():
  predicted, labels = np.array([2, 1, 1, 0]), np.array([2, 1, 2, 2])
  report = metrics.classification_report(MNLI.labels, predicted, labels)
  assert [line.split() for line in report.splitlines()[:5]] == [
    ["precision", "recall", "f1-score", "support"],
    [],
    # A label without examples causes no division by zero.
    ["contradiction", "0.0000", "0.0000", "0.0000", "0"],
    ["entailment", "0.5000", "1.0000", "0.6667", "1"],
    ["neutral", "1.0000", "0.3333", "0.5000", "3"],
  ]


def test_results_are_written_in_the_format_of_the_original(tmp_path):
  path = tmp_path / "test_results.tsv"
  outputs = np.array([[0.75143, 0.24857], [0.722093, 0.27790698]], np.float32)
  metrics.write_results(str(path), outputs)
  assert path.read_text() == "0.75143\t0.24857\n0.722093\t0.27790698\n"
  metrics.write_results(str(path), np.array([2.5, 1e-7]))
  assert path.read_text() == "2.5\n1e-07\n"


@pytest.mark.parametrize(
  ("name", "labels", "scores"),
  [
    ("CoLA", "01", ["matthews_correlation", "accuracy"]),
    ("STS-B", "12", ["pearson", "spearman"]),
  ],
)
def test_results_of_a_task_with_labels_have_the_accuracy(name, labels, scores):
  task = named_tasks.find(name)
  examples = [TextExample("", "", label=label) for label in labels]
  outputs = np.eye(2)[:, : len(task.labels) or 1]
  result = evaluation.results(task, outputs, np.ones(2), examples, 2)
  expected = ["eval_loss", "loss", *(f"eval_{name}" for name in scores)]
  assert [*result] == expected


def test_predictions_are_written_with_names_and_copied_columns(tmp_path):
  path = tmp_path / "test_predictions.tsv"
  logits = np.log([[1, 2, 1], [1, 1, 2]])
  write = partial(evaluation.write_predictions, str(tmp_path))
  write(MNLI, "test", logits, EXAMPLES[:2])
  assert path.read_text() == (
    "guid\tprediction\tcontradiction\tentailment\tneutral\n"
    "dev-1\tentailment\t0.25\t0.5\t0.25\n"
    "dev-2\tneutral\t0.25\t0.25\t0.5\n"
  )
  rows = [EXAMPLES[0]._replace(columns={"id": "7", "note": "a\t\r\nb"})]
  rows.append(EXAMPLES[1]._replace(columns={"id": "8"}))
  write(named_tasks.find("sts-b"), "test", [[2.5], [-0.0028]], rows)
  assert path.read_bytes().decode() == (
    "guid\tprediction\tid\tnote\ndev-1\t2.5\t7\ta b\ndev-2\t-0.0028\t8\t\n"
  )
  with pytest.raises(ValueError, match="zip"):
    write(MNLI, "test", logits, EXAMPLES)


def test_predicted_labels_with_bars_are_written_as_json(tmp_path):
  several = {"labels": ("a", "b|c"), "multi_label": True}
  task = replace(MNLI, **several, thresholds=(0.5, 0.5))
  given = "test", np.array([[1, 1], [-1, 1]]), EXAMPLES[:2]
  evaluation.write_predictions(str(tmp_path), task, *given)
  _, *rows = programs.table(tmp_path / "test_predictions.tsv")
  assert [row[1] for row in rows] == ['["a", "b|c"]', '["b|c"]']


@pytest.mark.parametrize(
  ("name", "split", "file", "prediction"),
  [
    ("CoLA", "test", "CoLA.tsv", "1"),
    ("SST-2", "test", "SST-2.tsv", "1"),
    ("MRPC", "test", "MRPC.tsv", "1"),
    ("STS-B", "test", "STS-B.tsv", "5.0"),
    ("QQP", "test", "QQP.tsv", "1"),
    ("MNLI", "test", "MNLI-m.tsv", "entailment"),
    ("MNLI", "test_mismatched", "MNLI-mm.tsv", "entailment"),
    ("QNLI", "test", "QNLI.tsv", "not_entailment"),
    ("RTE", "test", "RTE.tsv", "not_entailment"),
    ("WNLI", "test", "WNLI.tsv", "1"),
    ("AX", "test", "AX.tsv", "entailment"),
    ("XNLI", "test", None, None),
  ],
)
def test_files_for_the_glue_server_have_the_required_layout(
  tmp_path, name, split, file, prediction
):
  task = named_tasks.find(name)
  outputs = np.full([2, len(task.labels or "1")], -0.25)
  outputs[1, min(1, outputs.shape[1] - 1)] = 7.25
  first = task.labels[0] if task.labels else "0.0"
  rows = [TextExample("", "")] * 2
  evaluation.write_predictions(str(tmp_path), task, split, outputs, rows)
  table = f"index\tprediction\n0\t{first}\n1\t{prediction}\n"
  # The other files are test_results.tsv and test_predictions.tsv.
  for path in tmp_path.glob("[!t]*"):
    assert (path.name, path.read_text()) == (file, table)
  assert len([*tmp_path.iterdir()]) == (3 if file else 2)
