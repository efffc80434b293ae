"""Sweeps: which runs there are, what is known of them, which one wins."""

import json
import subprocess
import sys
import types
from pathlib import Path

import pytest

from training import sweep

SCORES = {1e-5: 0.5, 3e-5: 0.8}


class _Flags(types.SimpleNamespace):
  def __contains__(self, name):
    return hasattr(self, name)


def _flags(tmp_path, **changes):
  defaults = {
    "output_dir": str(tmp_path),
    "learning_rate": (1e-5, 3e-5),
    "num_seeds": 2,
    "seed": None,
    "do_train": True,
    "keep_best": False,
    "do_predict": True,
  }
  return _Flags(**defaults | changes)


@pytest.fixture(name="commands")
def _commands(monkeypatch):
  """Records commands instead of running them; leaves what a run leaves."""
  commands = []

  def run(command, check):
    del check
    commands.append(command)
    given = dict(part[2:].split("=") for part in command if "=" in part)
    folder = Path(given["output_dir"]) / "best"
    folder.mkdir(parents=True)
    value = SCORES[float(given["learning_rate"])] + int(given["seed"]) / 100
    record = {"metric": "f1", "value": value, "step": 7, "evaluated": 9}
    (folder / "best.json").write_text(json.dumps(record))
    (folder / "model.ckpt-7.index").write_text(given["output_dir"])
    start = json.dumps([{"flags": {}}, {"flags": {}} | given])
    (folder.parent / "run.json").write_text(start)
    return subprocess.CompletedProcess(command, 0)

  monkeypatch.setattr(subprocess, "run", run)
  monkeypatch.setattr(sys, "argv", ["run_it.py", "--task_name=x"])
  return commands


@pytest.mark.parametrize(
  ("changes", "runs"),
  [
    ({"learning_rate": 1e-5, "num_seeds": 1}, 0),
    ({"learning_rate": 1e-5}, 2),
    ({"num_seeds": 1}, 2),
    ({"do_train": False}, 0),
  ],
)
def test_several_rates_or_seeds_make_a_sweep(tmp_path, commands, changes, runs):
  flags = _flags(tmp_path, **changes)
  trains = flags.do_train
  sweep.run_if_wanted(flags)
  assert len(commands) == runs
  # The program goes on with the best.
  assert (flags.do_train, flags.keep_best) == (trains and not runs, bool(runs))


def test_runs_every_combination_and_copies_the_winner(
  tmp_path, commands, caplog
):
  with caplog.at_level("INFO", logger="absl"):
    sweep.run_if_wanted(_flags(tmp_path))
  assert len(commands) == 4
  assert commands[1] == [
    sys.executable,
    "run_it.py",
    "--task_name=x",
    f"--output_dir={tmp_path}/rate_1e-05_seed_2",
    "--learning_rate=1e-05",
    "--seed=2",
    "--num_seeds=1",
    "--keep_best",
    "--nodo_predict",  # there is no flag do_eval here
  ]
  lines = (tmp_path / "sweep.tsv").read_text().splitlines()
  assert lines[0] == "run\tlearning_rate\tseed\tstep\tmetric\tvalue"
  assert lines[4] == "rate_3e-05_seed_2\t3e-05\t2\t7\tf1\t0.8200000000000001"
  winner = (tmp_path / "best" / "model.ckpt-7.index").read_text()
  assert winner.endswith("rate_3e-05_seed_2")
  assert "3e-05: 0.8150 ± 0.0071, 2 seeds" in caplog.text
  # What was asked for to get the winner is known; again, no other is added.
  for _ in range(2):
    [start] = json.loads((tmp_path / "run.json").read_text())
    assert start["output_dir"].endswith("rate_3e-05_seed_2")
    sweep.run_if_wanted(_flags(tmp_path))


def test_goes_on_with_what_is_missing(tmp_path, commands):
  sweep.run_if_wanted(_flags(tmp_path, learning_rate=1e-5))
  assert len(commands) == 2
  sweep.run_if_wanted(_flags(tmp_path))
  assert len(commands) == 4
  assert len((tmp_path / "sweep.tsv").read_text().splitlines()) == 5
  winner = (tmp_path / "best" / "model.ckpt-7.index").read_text()
  assert winner.endswith("rate_3e-05_seed_2")


def test_a_run_that_fails_ends_the_sweep(tmp_path, monkeypatch):
  monkeypatch.setattr(
    subprocess, "run", lambda *a, **k: subprocess.CompletedProcess(a, 1)
  )
  with pytest.raises(ChildProcessError, match="seed_1 ended with status 1"):
    sweep.run_if_wanted(_flags(tmp_path))
