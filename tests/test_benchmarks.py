"""Benchmarks run, and the tables match the results."""

import importlib
import sys
from types import SimpleNamespace

import pytest

from benchmarks import contest, serving
from benchmarks.results import Table
from tests import programs

SMALL = "1x64:2:16:float32"
NAMES = [
  path.stem
  for path in programs.ROOT.glob("benchmarks/*.py")
  if "\nTABLE = " in path.read_text()
]


def _run(name, *arguments):
  return programs.python(["-m", f"benchmarks.{name}", *arguments])


@pytest.mark.parametrize("name", NAMES)
def test_tables_are_those_of_the_results(name):
  assert importlib.import_module(f"benchmarks.{name}").TABLE.is_current()


def test_help_and_mistakes():
  done = _run("train_step", "--help")
  assert done.returncode == 0
  assert "turns of each contestant (7)" in " ".join(done.stdout.split())
  done = _run("start_up", f"--cases={SMALL}", "--peers=nobody")
  assert done.returncode == 1
  assert done.stderr.splitlines()[-1].startswith("ERROR: --peers=nobody: ")


@pytest.mark.slow
@pytest.mark.parametrize("command", ["train_step --seconds=0", "start_up"])
def test_benchmarks_of_the_step_run(command):
  done = _run(*command.split(), f"--cases={SMALL}", "--peers=", "--rounds=1")
  assert done.returncode == 0, done.stderr
  head, line, row, *_ = done.stdout.splitlines()
  assert head.count("|") == line.count("|") == row.count("|")
  assert SMALL in row


def test_a_worker_that_fails_is_named():
  command = [sys.executable, "-c", "1/0"]
  failing = contest.Contestant("command", {"command": command})
  with pytest.raises(ValueError, match="worker command ended with 1: see"):
    contest.interleave({"a": failing}, 1)


def test_ratios_are_those_of_rounds():
  assert contest.ratios([2, 6, 8], [1, 2, 1]) == ("3.00", "2.00-8.00")


def test_ratios_of_serving_are_to_peers_of_the_same_type():
  peers = {"transformers, float32": 2.0, "transformers, bfloat16": 6.0}
  means = {"ours, int8": 1.0, "ours, bfloat16": 3.0} | peers
  seconds = {name: [mean, mean] for name, mean in means.items()}
  result = {
    "case": "c",
    "pairs": 4,
    "seconds": {"1": seconds, "32": seconds},
    "peak": dict.fromkeys(means, 9.0),
    "differ": dict.fromkeys(means, 0),
    "first": dict.fromkeys(means, (0.5, 7.0)),
    "p99": dict.fromkeys(means, 1.5),
  }
  first, second, *_ = map(list, serving.rows(result))
  expected = "c|ours, int8|1000.0|1500.0|0.50|-|4|0.50|-|500|7.0|9|0 of 4"
  assert first == expected.split("|")
  assert second[4:6] == ["0.50", "-"]


def test_peers_that_a_table_cannot_show_are_refused():
  peers = SimpleNamespace(peers=["ONNX Runtime float32"])
  with pytest.raises(ValueError, match="--peers lacks transformers float32"):
    next(serving.measure(peers))


@pytest.fixture
def table(tmp_path):
  document = tmp_path / "README.md"
  document.write_text("Before.\n\n<!-- speed -->\n<!-- /speed -->\n\nAfter.\n")

  def rows(result):
    return [(result["case"], str(result["ms"]))]

  return Table("speed", "case | ms", rows, document, tmp_path)


def test_results_are_saved_and_written_into_the_document(table, capsys):
  table.report([{"case": "a", "ms": 1}, {"case": "b", "ms": 2}], publish=True)
  table.report([{"case": "a", "ms": 3}], publish=True)
  assert capsys.readouterr().out.splitlines()[-1] == "| a | 3 |"
  rows = [(row["case"], row["ms"]) for row in table.saved()]
  assert rows == [("a", 3), ("b", 2)]
  before, _, after = table.document.read_text().partition(table.markdown())
  assert before == "Before.\n\n<!-- speed -->\n"
  assert after == "\n<!-- /speed -->\n\nAfter.\n"
  assert "| a | 3 |\n| b | 2 |\n\nMeasured 20" in table.markdown()
  assert table.is_current()


def test_a_table_of_older_results_is_not_current(table):
  origin = {"date": "2026-01-01", "commit": None, "processor": "X1"}
  table.save({"case": "a", "ms": 1} | origin)
  assert not table.is_current()
  table.write()
  assert table.is_current()
  end = "Measured 2026-01-01, commit unknown, on X1."
  assert table.markdown().endswith(end)


def test_every_processor_has_a_table(table):
  origin = {"date": "2026-01-01", "commit": None}
  for processor, ms in (("X1", 1), ("X2", 2), ("X1", 3)):
    table.save({"case": "a", "ms": ms, "processor": processor} | origin)
  first, second = table.markdown().split("on X1.\n\n")
  assert "| a | 3 |" in first
  assert "| a | 1 |" not in first
  assert "| a | 2 |" in second
  assert second.endswith("on X2.")


def test_nothing_is_measured_for_a_table_without_comments(table):
  table.document.write_text("Nothing.\n")
  results = (pytest.fail("measured") for _ in range(1))
  with pytest.raises(ValueError, match=r"README\.md has no comments"):
    table.report(results, publish=True)
