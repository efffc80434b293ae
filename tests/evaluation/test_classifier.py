"""eval_results.txt and the files of predictions, by hand."""

import numpy as np
import pytest

from data.tasks import glue
from data.tasks.classification import Example
from evaluation import classifier

LOGITS = np.log(np.array([[3, 1], [1, 3], [1, 1.5], [4, 1]], np.float32))
LABELS = ("0", "1", "0", "0")
EXAMPLES = [Example(f"dev-{i}", "a", "b", x) for i, x in enumerate(LABELS)]


def test_a_short_last_batch_counts_as_a_full_one():
  losses = np.array([1, 2, 3, 10], np.float32)
  found = classifier.results(glue.find("MRPC"), LOGITS, losses, EXAMPLES, 3)
  assert found == {
    "eval_loss": pytest.approx(4.0),
    "loss": pytest.approx((2 + 10) / 2),
    "eval_accuracy": pytest.approx(3 / 4),
    "eval_f1": pytest.approx(2 / 3),
  }


def test_scores_have_no_accuracy():
  task = glue.find("STS-B")
  examples = [Example("", "a", "b", x) for x in ("1", "2", "3")]
  scores = np.array([[10.0], [20.0], [30.0]])
  found = classifier.results(task, scores, np.ones(3), examples, 8)
  assert sorted(found) == ["eval_loss", "eval_pearson", "eval_spearman", "loss"]
  assert found["eval_pearson"] == pytest.approx(1.0)


def test_predictions_of_each_split_have_their_files(tmp_path):
  task = glue.find("MNLI")
  logits = np.log(np.array([[1, 2, 5], [6, 1, 1]], np.float32))
  for split in ("test", "test_mismatched"):
    classifier.write_predictions(
      str(tmp_path), task, split, logits, EXAMPLES[:2]
    )
  assert {path.name for path in tmp_path.iterdir()} == {
    "test_results.tsv",
    "test_predictions.tsv",
    "MNLI-m.tsv",
    "test_results_mismatched.tsv",
    "test_predictions_mismatched.tsv",
    "MNLI-mm.tsv",
  }
  lines = (tmp_path / "test_results.tsv").read_text().splitlines()
  np.testing.assert_allclose(
    [[float(cell) for cell in line.split("\t")] for line in lines],
    [[1 / 8, 2 / 8, 5 / 8], [6 / 8, 1 / 8, 1 / 8]],
    rtol=1e-6,
  )
  assert "dev-0\tneutral" in (tmp_path / "test_predictions.tsv").read_text()
