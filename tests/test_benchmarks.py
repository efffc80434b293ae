"""Benchmarks run, and the tables show the saved results."""

import importlib
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from benchmarks import contest, fine_tune, serving
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


def test_an_error_names_the_worker_that_fails():
  command = [sys.executable, "-c", "1/0"]
  failing = contest.Contestant("command", {"command": command})
  with pytest.raises(ValueError, match="worker command ended with 1: see"):
    contest.interleave({"a": failing}, 1)


def test_a_ratio_is_the_median_of_rounds_with_its_range():
  # The rounds have the ratios 2, 3 and 8.
  assert contest.ratios([2, 6, 8], [1, 2, 1]) == ("3.00", "2.00-8.00")


def test_serving_is_compared_with_transformers_of_the_same_dtype_or_float32():
  medians = {"ours, int8": 1.0, "ours, bfloat16": 3.0}
  medians |= {"transformers, float32": 2.0, "transformers, bfloat16": 6.0}
  seconds = {name: [value, value] for name, value in medians.items()}
  result = {"case": "c", "pairs": 4, "seconds": {"1": seconds, "32": seconds}}
  values = {"peak": 9.0, "differ": 0, "first": (0.5, 7.0), "p99": 1.5}
  result |= {name: dict.fromkeys(medians, v) for name, v in values.items()}
  int8, bfloat16, *_ = map(list, serving.rows(result))
  # Our int8 takes half the time of float32 (0.50). Nobody measured ONNX (-).
  expected = "c|ours, int8|1000.0|1500.0|0.50|-|4|0.50|-|500|7.0|9|0 of 4"
  assert int8 == expected.split("|")
  # Our bfloat16 takes half the time of their bfloat16.
  assert bfloat16[4:6] == ["0.50", "-"]


def test_a_list_of_peers_must_have_transformers_in_float32():
  peers = SimpleNamespace(peers=["ONNX Runtime float32"])
  with pytest.raises(ValueError, match="--peers lacks transformers float32"):
    next(serving.measure(peers))


@pytest.fixture
def table(tmp_path):
  """Returns a table, whose document has the comments that mark the table."""
  document = tmp_path / "README.md"
  document.write_text("Before.\n\n<!-- speed -->\n<!-- /speed -->\n\nAfter.\n")

  def rows(result):
    return [(result["case"], str(result["ms"]))]

  return Table("speed", "case | ms", rows, document, tmp_path)


def test_benchmark_results_are_saved_and_written_into_the_document(
  table, capsys
):
  table.report([{"case": "a", "ms": 1}, {"case": "b", "ms": 2}], publish=True)
  table.report([{"case": "a", "ms": 3}], publish=True)
  assert capsys.readouterr().out.splitlines()[-1] == "| a | 3 |"
  before, _, after = table.document.read_text().partition(table.markdown())
  assert before == "Before.\n\n<!-- speed -->\n"
  assert after == "\n<!-- /speed -->\n\nAfter.\n"
  assert "| a | 3 |\n| b | 2 |\n\nMeasured 20" in table.markdown()
  assert table.is_current()


def test_every_processor_has_a_table_of_its_newest_results(table):
  origin = {"date": "2026-01-01", "commit": None}
  for processor, ms in (("X1", 1), ("X2", 2), ("X1", 3)):
    table.save({"case": "a", "ms": ms, "processor": processor} | origin)
  assert not table.is_current()
  table.write()
  assert table.is_current()
  end = "\n\nMeasured 2026-01-01, commit unknown, on X1.\n\n"
  first, second = table.markdown().split(end)
  assert first.endswith("| a | 3 |") and "| a | 1 |" not in first
  assert "| a | 2 |" in second and second.endswith("on X2.")


def test_nothing_is_measured_if_the_document_has_no_comments_for_the_table(
  table,
):
  table.document.write_text("Nothing.\n")
  results = (pytest.fail("measured") for _ in range(1))
  with pytest.raises(ValueError, match=r"README\.md has no comments"):
    table.report(results, publish=True)


def test_the_fine_tuning_benchmark_compares_a_program_with_its_peer(
  tmp_path, monkeypatch
):
  for name in "train", "dev":
    (tmp_path / f"{name}.conll").write_text("Ann B-PER\nran O\n\nIt O\n")
  commands = []

  def interleave_fresh(runs, rounds, **request):
    [(label, contestant)] = runs.items()
    command = [*map(str, contestant.config["command"])]
    commands.append(command)
    folder = next((x for x in command if x.startswith("--output_dir=")), None)
    if folder:
      folder = Path(folder.removeprefix("--output_dir="))
      folder.mkdir()
      (folder / "eval_results.txt").write_text("eval_f1 = 0.5\n")
    output = json.dumps({"predictions": [["B-PER", "O"], ["O"]]})
    # The peer, which has no output folder, takes twice the time.
    seconds = {"seconds": 1.0 if folder else 2.0, "cpu_seconds": 3.0}
    return {label: [seconds | {"output": output}]}

  monkeypatch.setattr(contest, "interleave_fresh", interleave_fresh)
  folders = dict.fromkeys(("data_dir", "bert_dir", "hf_dir"), tmp_path)
  args = SimpleNamespace(
    **folders,
    **{"task": "NER", "work_dir": tmp_path / "work", "peer_python": "python"},
    **{"contestants": ["bert-tf2", "transformers"], "preload": "", "seed": 1},
    **{"rounds": 2, "epochs": 1, "batch_size": 16, "max_seq_length": 128},
    **{"learning_rate": 5e-5, "dtype": "bfloat16", "group_by_length": True},
  )
  [result] = fine_tune.measure(args)
  program, peer, *_ = commands
  assert "--group_by_length=True" in program
  assert f"--dev_file={tmp_path}/dev.conll" in program
  assert '"dtype": "bfloat16"' in peer[-1]
  rows = [" ".join(row) for row in fine_tune.rows(result)]
  case = "NER, bfloat16, 1 epoch, by length"
  # The peer's tags are all right. Columns: scores, s, CPU s, ratio, range.
  assert rows == [
    f"{case} bert-tf2 f1 50.0 ± 0.0 1 3 1.00 1.00-1.00",
    f"{case} transformers f1 100.0 ± 0.0 2 3 2.00 2.00-2.00",
  ]
