"""Benchmarks run, and the tables show the saved results."""

import importlib

import pytest

from benchmarks.results import Table
from tests import programs

SMALL = "1x64:2:16:float32"  # layers x width : batch : length : dtype
NAMES = [
  path.stem
  for path in programs.ROOT.glob("benchmarks/*.py")
  if "\nTABLE = " in path.read_text()
]


def _run(name, *arguments):
  return programs.python(["-m", f"benchmarks.{name}", *arguments])


@pytest.mark.parametrize("name", NAMES)
def test_each_table_shows_the_saved_results(name):
  assert importlib.import_module(f"benchmarks.{name}").TABLE.is_current()


def test_a_benchmark_prints_help_and_reports_mistakes():
  done = _run("train_step", "--help")
  assert done.returncode == 0
  assert "turns of each contestant (7)" in " ".join(done.stdout.split())
  done = _run("start_up", f"--cases={SMALL}", "--peers=nobody")
  assert done.returncode == 1
  assert done.stderr.splitlines()[-1].startswith("ERROR: --peers=nobody: ")


@pytest.mark.slow
@pytest.mark.parametrize("command", ["train_step --seconds=0", "start_up"])
def test_the_benchmarks_of_steps_and_of_start_up_run(command):
  done = _run(*command.split(), f"--cases={SMALL}", "--peers=", "--rounds=1")
  assert done.returncode == 0, done.stderr
  head, line, row, *_ = done.stdout.splitlines()
  assert head.count("|") == line.count("|") == row.count("|")
  assert SMALL in row


def test_benchmark_results_are_saved_and_put_in_the_document(tmp_path, capsys):
  document = tmp_path / "README.md"
  document.write_text("Before.\n\n<!-- speed -->\n<!-- /speed -->\n\nAfter.\n")
  rows = lambda result: [(result["case"], str(result["ms"]))]  # noqa: E731
  table = Table("speed", "case | ms", rows, document, tmp_path)
  table.report([{"case": "a", "ms": 1}, {"case": "b", "ms": 2}], publish=True)
  table.report([{"case": "a", "ms": 3}], publish=True)
  assert capsys.readouterr().out.splitlines()[-1] == "| a | 3 |"
  before, _, after = table.document.read_text().partition(table.markdown())
  assert before == "Before.\n\n<!-- speed -->\n"
  assert after == "\n<!-- /speed -->\n\nAfter.\n"
  assert "| a | 3 |\n| b | 2 |\n\nMeasured 20" in table.markdown()
  assert table.is_current()
