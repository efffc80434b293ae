"""metrics.jsonl: writing, reading, truncation on resume."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from tests.training import toy
from training import report


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
  report.Report(str(tmp_path), 8).begin(0, 9)
  assert not list(tmp_path.iterdir())


def test_an_evaluation_writes_file_metrics_and_curves_with_a_suffix(tmp_path):
  results = {"eval_loss": 0.1, "loss": 2.0, "accuracy": 1 / 3}
  for step in (1, 2):
    report.write_evaluation(str(tmp_path), results, step, "_x")
  report.add_metrics(str(tmp_path), 3, {"loss": 2.0})
  assert report.last_evaluation(str(tmp_path)) == 2
  line = {"step": 2, "eval_loss_x": 0.1, "eval_accuracy_x": 0.333333}
  assert report.read_metrics(str(tmp_path))[1:-1] == [line]
  text = "accuracy = 0.33333334\neval_loss = 0.1\nglobal_step = 2\nloss = 2.0\n"
  assert (tmp_path / "eval_results_x.txt").read_text() == text
  seen = toy.summaries(tmp_path / "eval_x")
  expected = [(step, name) for step in (1, 2) for name in results]
  assert [(step, value.tag) for step, value in seen] == expected


def test_the_curves_need_no_tensorboard(tmp_path, monkeypatch):
  """TensorFlow 2.21 comes without TensorBoard. Event files stay the same."""
  folders = tmp_path / "expected", tmp_path / "without"
  writer = tf.summary.create_file_writer(str(folders[0]))
  with writer.as_default(step=0):
    tf.summary.text("run", "```\n{}\n```")
    tf.summary.scalar("loss", 0.1)
  writer.flush()
  for name in ("tensorboard", "tensorboard.summary", "tensorboard.summary.v2"):
    monkeypatch.setitem(sys.modules, name, None)
  log = report.Report(str(folders[1]), 8)
  log.begin(0, 6)
  log.add_text("run", "{}")
  log.add_steps(0, 1, {"loss": (0.2, 2)})
  log.end()
  expected, seen = map(list, map(toy.summaries, folders))
  assert seen[:2] == expected


def test_skipped_steps_do_not_count_in_the_reported_loss(tmp_path, caplog):
  """A step whose gradient overflows reports a loss of 0."""
  log = report.Report(str(tmp_path), 8)
  log.begin(0, 6)
  log.add_steps(1, 1, {"loss": (0, 0), "skipped_steps": (1, 1)})
  with caplog.at_level("INFO", logger="absl"):
    log.log()
  assert "step 1 of 6" in caplog.text
  [line] = report.read_metrics(str(tmp_path))
  assert line == {"step": 1, "skipped_steps": 1.0}
  log.add_steps(2, 1, {"loss": (0, 0), "skipped_steps": (1, 1)})
  log.add_steps(4, 2, {"loss": (2, 1), "skipped_steps": (1, 2)})
  log.add_steps(6, 2, {"loss": (10, 2), "skipped_steps": (0, 2)})
  log.end()
  line = report.read_metrics(str(tmp_path))[-1]
  assert (line["loss"], line["skipped_steps"]) == (4.0, 0.4)


@pytest.mark.parametrize("cuts", [[5], [1, 4], [2, 2, 1]])
def test_a_reported_mean_does_not_depend_on_how_steps_are_grouped(
  tmp_path, cuts
):
  values, weights = np.array([1.0, 9.0, 2.0, 4.0, 8.0]), np.arange(1, 6)
  pairs = np.stack([values * weights, weights], 1)
  log = report.Report(str(tmp_path), 8)
  log.begin(0, 5)
  for number, end in zip(cuts, np.cumsum(cuts), strict=True):
    log.add_steps(int(end), number, {"loss": pairs[end - number : end].sum(0)})
  log.end()
  [line] = report.read_metrics(str(tmp_path))
  assert line["loss"] == float(f"{np.average(values, weights=weights):.6g}")


def test_the_speed_excludes_compilation_and_evaluation(
  tmp_path, caplog, monkeypatch
):
  caplog.set_level("INFO", logger="absl")
  clock = iter([0.0, 5.0, 7.0, 54.0, 57.0, 57.0])
  monkeypatch.setattr(report.time, "monotonic", lambda: next(clock))
  speeds = []

  def add_speed(_, values, step):
    speeds.append((step, values["examples_per_second"]))

  monkeypatch.setattr(report, "_summarize", add_speed)
  log = report.Report(str(tmp_path), 8)
  log.begin(0, 8)
  log.add_steps(1, 1, {"loss": (5, 1)})
  log.add_steps(2, 1, {"loss": (3, 1)})
  log.restart_clock()  # at 54 seconds
  log.add_steps(6, 4, {"loss": (8, 4)})
  log.log()
  assert "step 6 of 8, loss 2.6667, 8.0 examples/s, 0:00:02 left" in caplog.text
  assert speeds == [(1, 8 / 5), (2, 8 / 2), (6, 4 * 8 / 3)]


def test_curves_are_drawn_if_matplotlib_is_installed(tmp_path):
  assert report.draw_metrics(str(tmp_path)) is None
  for step in range(3):
    values = {"loss": 1 / (1 + step), "rate": step}
    report.add_metrics(str(tmp_path), step, values)
  path = report.draw_metrics(str(tmp_path))
  assert (path is None) == (importlib.util.find_spec("matplotlib") is None)
  if path:
    assert Path(path).read_bytes().startswith(b"\x89PNG\r\n\x1a\n")


def test_a_panel_shows_the_curves_of_training_and_evaluation(
  tmp_path, monkeypatch
):
  figure = pytest.importorskip("matplotlib.figure")
  drawn = []
  monkeypatch.setattr(
    figure.Figure, "savefig", lambda self, *_, **__: drawn.append(self)
  )
  for step, values in (
    (1, {"loss": 4.0, "rate": 0.5}),
    (2, {"eval_loss": 5.0, "eval_f1": 0.25}),
    (3, {"loss": 3.0}),
    (4, {"eval_loss": 2.0}),
  ):
    report.add_metrics(str(tmp_path), step, values)
  report.draw_metrics(str(tmp_path))
  curves = {
    ax.get_title(): {
      line.get_label(): line.get_xydata().tolist() for line in ax.lines
    }
    for ax in drawn[0].axes
  }
  evaluation = [[2, 5.0], [4, 2.0]]
  assert curves == {
    "loss": {"training": [[1, 4.0], [3, 3.0]], "evaluation": evaluation},
    "rate": {"training": [[1, 0.5]]},
    "f1": {"evaluation": [[2, 0.25]]},
  }
  has_legend = [ax.get_legend() is not None for ax in drawn[0].axes]
  assert has_legend == [True, False, True]


def test_a_line_of_metrics_has_the_learning_rate_of_its_step(tmp_path):
  log = report.Report(str(tmp_path), 8)
  log.begin(0, 9)
  log.add_steps(1, 1, {"loss": (1, 1), "learning_rate": (0.5, 1)})
  log.add_steps(4, 3, {"loss": (6, 3), "learning_rate": (0.25, 1)})
  log.log()
  log.add_steps(9, 5, {"loss": (10, 5), "learning_rate": (0.125, 1)})
  log.end()
  lines = report.read_metrics(str(tmp_path))
  assert [line["learning_rate"] for line in lines] == [0.25, 0.125]
  assert lines[0]["loss"] == 1.75
