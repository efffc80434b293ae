"""Scores, reports and files of predictions of classification tasks."""

import numpy as np
import pytest

from tasks import metrics
from tasks.classification import metrics as evaluation
from tasks.classification import named_tasks
from tasks.classification.examples import TextExample

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


def _report(outputs, examples):
  predicted = evaluation.predictions(MNLI, outputs)
  labels = evaluation.label_ids(MNLI, examples)
  return metrics.classification_report(MNLI.labels, predicted, labels)


def test_the_report_has_a_row_for_every_label():
  lines = _report(OUTPUTS, EXAMPLES).splitlines()
  assert [line.split() for line in lines[:5]] == [
    ["precision", "recall", "f1-score", "support"],
    [],
    ["contradiction", "1.0000", "1.0000", "1.0000", "1"],
    ["entailment", "0.5000", "1.0000", "0.6667", "1"],
    ["neutral", "1.0000", "0.5000", "0.6667", "2"],
  ]
  # A label without examples causes no division by zero.
  report = _report(OUTPUTS[3:], EXAMPLES[3:])
  assert "neutral     0.0000    0.0000    0.0000         0" in report


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
def test_results_of_a_task_with_labels_include_the_accuracy(
  name, labels, scores
):
  task = named_tasks.find(name)
  examples = [TextExample("", "", label=label) for label in labels]
  outputs = np.eye(2)[:, : len(task.labels) or 1]
  result = evaluation.results(task, outputs, np.ones(2), examples, 2)
  expected = ["eval_loss", "loss", *(f"eval_{name}" for name in scores)]
  assert [*result] == expected


def test_predictions_are_written_with_the_names_of_labels(tmp_path):
  path, write = tmp_path / "p.tsv", evaluation.write_prediction_table
  write(str(path), MNLI, OUTPUTS[:2], EXAMPLES[:2])
  assert path.read_text() == (
    "guid\tprediction\tcontradiction\tentailment\tneutral\n"
    "dev-1\tneutral\t0.1\t0.2\t0.7\n"
    "dev-2\tentailment\t0.2\t0.5\t0.3\n"
  )
  task = named_tasks.find("sts-b")
  write(str(path), task, [[2.5], [-0.0028]], EXAMPLES[:2])
  assert path.read_text() == "guid\tprediction\ndev-1\t2.5\ndev-2\t-0.0028\n"
  with pytest.raises(ValueError, match="zip"):
    write(str(path), MNLI, OUTPUTS[:3], EXAMPLES)


def test_copied_input_columns_are_written_with_predictions(tmp_path):
  path = tmp_path / "p.tsv"
  columns = {"guid": "7", "note": "a\t\r\nb"}
  examples = [EXAMPLES[0]._replace(columns=columns)]
  examples.append(EXAMPLES[1]._replace(columns={"guid": "8"}))
  task = named_tasks.find("sts_b")
  evaluation.write_prediction_table(str(path), task, [[2.5], [1]], examples)
  assert path.read_bytes().decode() == (
    "guid\tprediction\tinput_guid\tnote\ndev-1\t2.5\t7\ta b\ndev-2\t1.0\t8\t\n"
  )


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
