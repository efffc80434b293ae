"""metrics.jsonl: writing, reading, truncation on resume."""

import importlib.util

import numpy as np
import pytest
import tensorflow as tf

from tests.training import toy
from training import report


def _begun(folder, last):
  """Begins and returns a report of `last` steps, each of 8 examples."""
  result = report.Report(str(folder), 8)
  result.begin(0, last)
  return result


def test_read_metrics_skips_a_truncated_line(tmp_path):
  report.add_metrics(str(tmp_path), 10, {"loss": 0.5})
  report.add_metrics(str(tmp_path), 20, {"loss": 1 / 3})
  report.add_metrics(str(tmp_path), 20, {"eval_f1": 0.25})
  with open(tmp_path / "metrics.jsonl", "a") as file:
    file.write('{"step": 30, "lo{"step": 40, "loss": 0.5}\n')
    file.write('{"step": 30, "lo')
  expected = [{"step": 10, "loss": 0.5}, {"step": 20, "loss": 0.333333}]
  expected.append({"step": 20, "eval_f1": 0.25})
  assert report.read_metrics(str(tmp_path)) == expected
  # The next write must not extend the truncated line.
  report.Report(str(tmp_path), 8).begin(20, 99)
  report.add_metrics(str(tmp_path), 30, {"loss": 0.25})
  last = {"step": 30, "loss": 0.25}
  assert report.read_metrics(str(tmp_path)) == [*expected, last]
  report.Report(str(tmp_path), 8).begin(10, 99)  # a resumed run
  assert report.read_metrics(str(tmp_path)) == expected[:1]
  assert report.read_metrics(str(tmp_path / "none")) == []
  assert report.last_evaluation(str(tmp_path / "none")) == 0


def test_only_the_chief_writes_reports(tmp_path, monkeypatch):
  toy.set_worker(monkeypatch, 1)
  report.write_evaluation(str(tmp_path), {"loss": 1.0}, 2)
  _begun(tmp_path, 9)
  assert not list(tmp_path.iterdir())
  # The chief may remove the folder of a dry run at any time.
  monkeypatch.setattr(report, "read_metrics", None)
  report.draw_metrics(str(tmp_path))


def test_an_evaluations_suffix_names_its_file_metrics_and_curves(tmp_path):
  results = {"eval_loss": 0.1, "loss": 2.0, "accuracy": 1 / 3}
  for step in (1, 2):
    report.write_evaluation(str(tmp_path), results, step, "_x")
  report.add_metrics(str(tmp_path), 3, {"loss": 2.0})
  assert report.last_evaluation(str(tmp_path)) == 2
  line = {"step": 2, "eval_loss_x": 0.1, "eval_accuracy_x": 0.333333}
  assert report.read_metrics(str(tmp_path))[1:-1] == [line]
  text = "accuracy = 0.33333334\neval_loss = 0.1\nglobal_step = 2\nloss = 2.0\n"
  assert (tmp_path / "eval_results_x.txt").read_text() == text
  [_] = tmp_path.glob("eval_x/events*")  # all evaluations are in one file
  seen = toy.summaries(tmp_path / "eval_x")
  expected = [(step, name) for step in (1, 2) for name in results]
  assert [(step, value.tag) for step, value in seen] == expected


def test_skipped_steps_do_not_count_in_the_reported_loss(tmp_path, log):
  """A step whose gradient overflows reports a loss of 0."""
  made = _begun(tmp_path, 6)
  made.add_steps(1, 1, {"loss": (0, 0), "skipped_steps": (1, 1)})
  made.log()
  assert "step 1 of 6" in log.text
  made.add_steps(2, 1, {"loss": (0, 0), "skipped_steps": (1, 1)})
  made.add_steps(4, 2, {"loss": (2, 1), "skipped_steps": (1, 2)})
  made.add_steps(6, 2, {"loss": (10, 2), "skipped_steps": (0, 2)})
  made.log()
  first, last = report.read_metrics(str(tmp_path))
  assert first == {"step": 1, "skipped_steps": 1.0}
  assert (last["loss"], last["skipped_steps"]) == ((2 + 10) / (1 + 2), 2 / 5)


def test_speed_excludes_compilation_and_evaluation(tmp_path, log, monkeypatch):
  clock = iter([0.0, 5.0, 7.0, 54.0, 57.0, 57.0])
  monkeypatch.setattr(report.time, "monotonic", lambda: next(clock))
  made = _begun(tmp_path, 8)
  made.add_steps(1, 1, {"loss": (5, 1)})
  made.add_steps(2, 1, {"loss": (3, 1)})
  made.restart_clock()  # at 54 seconds
  made.add_steps(6, 4, {"loss": (8, 4)})
  made.log()
  # Since the first step: 5 steps of 8 examples in 2 and 3 seconds.
  assert "step 6 of 8, loss 2.6667, 8.0 examples/s, 0:00:02 left" in log.text
  speeds = [
    (step, tf.make_ndarray(value.tensor))
    for step, value in toy.summaries(tmp_path)
    if value.tag == "examples_per_second"
  ]
  assert speeds == [(1, 8 / 5), (2, 8 / 2), (6, np.float32(4 * 8 / 3))]


def test_a_line_is_logged_every_ten_seconds(tmp_path, monkeypatch):
  now = [50.0]
  monkeypatch.setattr(report.time, "monotonic", lambda: now[0])
  made = _begun(tmp_path, 9)
  for step, now[0] in enumerate((59.9, 60.0, 69.9, 70.0), 1):
    made.add_steps(step, 1, {"loss": (1, 1)})
  made.log()  # nothing new
  assert [line["step"] for line in report.read_metrics(str(tmp_path))] == [2, 4]


def test_curves_are_drawn_if_matplotlib_is_installed(tmp_path):
  path = tmp_path / "training.png"
  report.draw_metrics(str(tmp_path))
  assert not path.exists()
  report.add_metrics(str(tmp_path), 1, {"loss": 0.5, "rate": 1.0})
  report.draw_metrics(str(tmp_path))
  assert path.exists() == bool(importlib.util.find_spec("matplotlib"))
  if path.exists():
    assert path.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")


def test_a_panel_shows_curves_of_training_and_evaluation(tmp_path, monkeypatch):
  figure, drawn = pytest.importorskip("matplotlib.figure"), []
  note = lambda self, *_, **__: drawn.append(self)  # noqa: E731
  monkeypatch.setattr(figure.Figure, "savefig", note)
  for step, values in (
    (1, {"loss": 4.0}),
    (2, {"eval_loss": 5.0, "eval_f1": 0.25}),
    (3, {"loss": 3.0}),
  ):
    report.add_metrics(str(tmp_path), step, values)
  report.draw_metrics(str(tmp_path))
  panels = {}
  for ax in drawn[0].axes:
    curves = {x.get_label(): x.get_xydata().tolist() for x in ax.lines}
    panels[ax.get_title()] = curves
  assert panels == {
    "loss": {"training": [[1, 4.0], [3, 3.0]], "evaluation": [[2, 5.0]]},
    "f1": {"evaluation": [[2, 0.25]]},
  }
