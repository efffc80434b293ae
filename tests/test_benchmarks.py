"""Benchmarks measure, and their tables are those of what is kept."""

import subprocess
import sys
from pathlib import Path

import pytest
from absl.testing import flagsaver

from benchmarks.published import Table

ROOT = Path(__file__).parents[1]
SMALL = "1x64:2:16:float32"
NO_OTHERS = ("--layers=", "--hidden=", "--batches=", "--lengths=")
# Those whose flags do not clash, so that one process can import them.
TABLES = [
  "train_step start_up growth roofline pretraining_data memory",
  "step_profile reading",
  "tokenization",
  "serving",
  "fine_tune_table",
]


def _python(*command):
  return subprocess.run(
    [sys.executable, *command], cwd=ROOT, capture_output=True, text=True
  )


@pytest.mark.parametrize("names", TABLES)
def test_tables_are_of_the_results_that_are_kept(names):
  program = f"""
import importlib
for name in {names.split()}:
  module = importlib.import_module("benchmarks." + name)
  table = getattr(module, "TABLE", None) or module.TIMES
  assert table.is_current(), name
"""
  found = _python("-c", program)
  assert found.returncode == 0, found.stderr


@pytest.mark.parametrize(
  "command",
  [
    ("train_step", f"--cases={SMALL}", "--peers=", "--rounds=1"),
    ("start_up", f"--cases={SMALL}", "--peers=", "--rounds=1"),
    ("roofline", f"--cases={SMALL}", "--rounds=1"),
    ("step_profile", f"--cases={SMALL}"),
    ("growth", f"--base={SMALL}", *NO_OTHERS, "--rounds=1"),
  ],
  ids=lambda command: command[0],
)
def test_benchmarks_of_steps_run(command):
  name, *arguments = command
  found = _python("-m", f"benchmarks.{name}", *arguments)
  assert found.returncode == 0, found.stderr
  head, line, row, *_ = found.stdout.splitlines()
  assert head.count("|") == line.count("|") == row.count("|")
  assert SMALL in row


@pytest.fixture
def table(tmp_path):
  document = tmp_path / "README.md"
  document.write_text("Before.\n\n<!-- speed -->\n<!-- /speed -->\n\nAfter.\n")
  return Table(
    "speed",
    ("case", "ms"),
    lambda result: [(result["case"], str(result["ms"]))],
    document,
    tmp_path,
  )


def test_results_are_kept_and_written_where_asked(table, capsys):
  with flagsaver.flagsaver(publish=True):
    table.report([{"case": "a", "ms": 1}, {"case": "b", "ms": 2}])
    table.report([{"case": "a", "ms": 3}])
  assert capsys.readouterr().out.splitlines()[-1] == "| a | 3 |"
  assert [(one["case"], one["ms"]) for one in table.kept()] == [
    ("a", 3),
    ("b", 2),
  ]
  before, _, after = table.document.read_text().partition(table.text())
  assert before == "Before.\n\n<!-- speed -->\n"
  assert after == "\n<!-- /speed -->\n\nAfter.\n"
  assert "| a | 3 |\n| b | 2 |\n\nMeasured 20" in table.text()
  assert table.is_current()


def test_a_table_of_older_results_is_not_current(table):
  origin = {"date": "2026-01-01", "commit": None, "processor": "X1"}
  table.keep({"case": "a", "ms": 1} | origin)
  assert not table.is_current()
  table.write()
  assert table.is_current()
  assert table.text().endswith("Measured 2026-01-01, commit unknown, on X1.")


def test_every_processor_has_a_table(table):
  origin = {"date": "2026-01-01", "commit": None}
  for processor, ms in (("X1", 1), ("X2", 2), ("X1", 3)):
    table.keep({"case": "a", "ms": ms, "processor": processor} | origin)
  first, second = table.text().split("on X1.\n\n")
  assert "| a | 3 |" in first
  assert "| a | 1 |" not in first
  assert "| a | 2 |" in second
  assert second.endswith("on X2.")


def test_nothing_is_measured_for_a_table_without_a_place(table):
  table.document.write_text("Nothing.\n")

  def results():
    raise AssertionError("measured")
    yield

  with (
    flagsaver.flagsaver(publish=True),
    pytest.raises(ValueError, match=r"README\.md has no place for speed"),
  ):
    table.report(results())


def test_nothing_is_kept_unasked(table):
  with flagsaver.flagsaver(publish=False):
    table.report([{"case": "a", "ms": 1}])
  assert not table.kept()
