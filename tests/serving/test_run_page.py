"""run.html and eval_predictions.tsv, which show answers and true labels."""

import contextlib
import json
import math
import re

import numpy as np
import pytest

from serving import run_page
from serving.run_page import Judged
from tests.serving.server import browser

LABELS = ["no", "yes"]


def _judged(text, truth, *probabilities):
  number = int(np.argmax(probabilities))
  pair = LABELS[truth], LABELS[number]
  answer = {"label": pair[1], "labels": LABELS}
  answer["probabilities"] = [*probabilities]
  facts = truth == number, max(probabilities), [pair], truth
  return Judged({"text": text}, answer, *pair, *facts)


JUDGED = [
  _judged("a\tb\nc", 1, 0.1, 0.9),
  _judged("almost", 0, 0.4, 0.6),
  _judged("sure </script>", 0, 0.01, 0.99),
  _judged("right", 0, 0.95, 0.05),
]


def _data(folder, judged=JUDGED, curves=()):
  scores = {"eval_accuracy": np.float32(0.5)}
  flags = {"learning_rate": (5e-5, 3e-5), "train_batch_size": 8}
  parts = {"program": "run_x"}, flags, curves, scores, judged
  path = run_page.write(str(folder), *parts)
  html = (folder / run_page.NAME).read_text()
  assert path == str(folder / run_page.NAME)
  assert "src=" not in html and "https:" not in html
  return json.loads(re.search(r'json">(.*)</script>', html)[1])


def test_the_table_has_a_line_for_each_example(tmp_path):
  run_page.write_table(str(tmp_path / "t.tsv"), JUDGED)
  lines = (tmp_path / "t.tsv").read_text().splitlines()
  assert lines[0] == "id\ttext\tlabel\tprediction\tprobability\tis_right"
  assert lines[1] == "0\ta b c\tyes\tyes\t0.9000\t1"
  assert lines[2] == "1\talmost\tno\tyes\t0.6000\t0"
  assert len(lines) == 5


def test_the_page_shows_the_most_confident_errors_first(tmp_path):
  curves = [{"step": 3, "loss": 0.5, "eval_loss": math.nan}]
  data = _data(tmp_path, curves=curves)
  texts = [error["texts"]["text"] for error in data["errors"]]
  assert texts == ["sure </script>", "almost"]
  assert (data["examples"], data["wrong"]) == (4, 2)
  assert data["confusion"] == {"labels": LABELS, "counts": [[1, 2], [0, 1]]}
  # Several values have commas, as on a command line.
  flags = {"learning_rate": "5e-05,3e-05", "train_batch_size": "8"}
  assert data["flags"] == flags
  assert data["curves"] == [{"step": 3, "loss": 0.5}]  # JSON lacks NaN
  assert data["scores"] == {"eval_accuracy": 0.5}


def test_errors_of_unknown_probability_come_last(tmp_path):
  unknown = Judged({"text": "unknown"}, {}, "no", "yes", is_right=False)
  data = _data(tmp_path, [JUDGED[1], unknown, JUDGED[2]])
  texts = [error["texts"]["text"] for error in data["errors"]]
  assert texts == ["sure </script>", "almost", "unknown"]


def test_predicted_scores_are_listed_by_their_distance_from_the_label(tmp_path):
  scores = [("1.0", "1.5"), ("4.0", "1.0"), ("2", "1")]
  judged = [
    Judged({"text": label}, {"score": float(p)}, label, p, None)
    for label, p in scores
  ]
  data = _data(tmp_path, judged)
  assert [error["label"] for error in data["errors"]] == ["4.0", "2", "1.0"]
  assert data["wrong"] == 0
  assert data["calibration"] is None and data["confusion"] is None


def test_calibration_finds_the_temperature_of_sharpened_probabilities():
  rng = np.random.default_rng(1)
  logits = rng.normal(0, 2, (4000, 2))
  probs = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
  truths = (rng.random(4000) < probs[:, 1]).astype(int)
  sharp = np.exp(3 * logits) / np.exp(3 * logits).sum(1, keepdims=True)
  rows = zip(truths.tolist(), sharp.tolist(), strict=True)
  judged = [_judged("", truth, *row) for truth, row in rows]
  result = run_page.calibration(judged)
  assert result["temperature"] == pytest.approx(3, rel=0.1)
  assert result["fitted_error"] < 0.03 < result["error"]
  assert sum(number for *_, number in result["bins"]) == 4000


def test_a_calibration_bin_has_the_mean_probability_and_accuracy():
  sure = _judged("", 0, 1, 0)
  judged = [_judged("", 0, 0.62, 0.38), _judged("", 1, 0.68, 0.32), sure]
  (probability, accuracy, number), last = run_page.calibration(judged)["bins"]
  assert last == (1.0, 1.0, 1)
  assert probability == pytest.approx(0.65)
  assert (accuracy, number) == (0.5, 2)


def test_answers_without_class_probabilities_have_no_temperature():
  one = Judged({"question": "?"}, {"answer": "a"}, "b", "a", False, 0.5)
  result = run_page.calibration([one])
  assert "temperature" not in result and result["error"] == 0.5
  assert run_page.calibration([]) is None


@pytest.mark.slow
@browser.installed
def test_a_browser_draws_the_page(tmp_path):
  choices = {"sent1": "It rains.", "choices": ["stop", "go"]}
  chosen = {"choice": 1, "text": "go", "probabilities": [0.4, 0.6]}
  ending = Judged(choices, chosen, "stop", "go", is_right=False)
  curves = [{"step": 1, "loss": 2}, {"step": 2, "loss": 1, "eval_loss": 3}]
  _data(tmp_path, [*JUDGED, ending], curves)
  with contextlib.closing(browser.Browser(tmp_path / "browser")) as page:
    page.open((tmp_path / run_page.NAME).as_uri())
    page.wait("document.querySelectorAll('article').length")
    text = page.run("document.body.innerText")
    assert page.run("document.querySelectorAll('#panels svg').length") == 1
    assert page.run("document.querySelectorAll('#panels .evaluation').length")
    assert page.run("document.querySelectorAll('#confusion tr').length")
  parts = "3 of 5 answers are wrong", "sure </script>", "temperature scaling"
  for part in (*parts, "right answer: stop", "It rains."):
    assert part in text
  assert "stop | go" not in text  # the bars show the choices
