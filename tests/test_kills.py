"""A run that is stopped at random moments ends like an undisturbed run.

`kill -9` stops the process while it starts, trains or writes a file.
"""

import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests import programs, shared
from tests.training import toy
from training import checkpoint, checkpoint_files, report

pytestmark = pytest.mark.slow

STEPS = 400
STOPS = 9
MOMENTS = ("start", "training", "writing")
# Names of unfinished checkpoints.
UNFINISHED = re.compile(r"unfinished|tempstate")


def _start(flags, folder):
  words = (f"--{name}={value}" for name, value in flags.items())
  command = [sys.executable, str(programs.ROOT / "run_pretraining.py"), *words]
  with open(f"{folder}.log", "w") as log:
    return subprocess.Popen(
      [*command, f"--output_dir={folder}"], stderr=log, start_new_session=True
    )


def _newest(folder):
  """Returns the step of the newest checkpoint file, or -1."""
  names = (path.stem for path in folder.glob("model.ckpt-*.index"))
  return max((int(name.rpartition("-")[2]) for name in names), default=-1)


def _unfinished(folder):
  return [p.name for p in folder.glob("*") if UNFINISHED.search(p.name)]


def _wait(process, condition):
  while process.poll() is None and not condition():
    time.sleep(0.001)


def _stop(process, folder, moment, start_up, rng):
  """Stops a process at a moment; returns True if the process was alive."""
  step = _newest(folder)
  if moment == "start":
    time.sleep(rng.uniform(0.0, start_up))
  else:
    _wait(process, lambda: _newest(folder) > step)
    time.sleep(rng.uniform(0.0, 0.25))
  if moment == "writing":
    _wait(process, lambda: _unfinished(folder))
  is_alive = process.poll() is None
  if is_alive:
    os.killpg(process.pid, signal.SIGKILL)
  process.wait()
  return is_alive


def _check_files(folder):
  """Checks all checkpoints and logged steps; returns the newest checkpoint."""
  prefixes = checkpoint_files.all_checkpoints(str(folder))
  for prefix in prefixes:
    checkpoint.Reader(prefix).verify()
  steps = [line["step"] for line in report.read_metrics(str(folder))]
  assert steps == sorted(set(steps))
  return prefixes[-1] if prefixes else None


def _check_log(folder, latest, must_resume):
  """Checks that the process resumed from the newest checkpoint."""
  log = Path(f"{folder}.log").read_text()
  resumed = re.search(r"resuming from (\S+)", log)
  if latest and (resumed or must_resume):
    assert resumed, log
    assert resumed[1] == latest
  assert "Traceback" not in log
  assert "cannot be read" not in log


def test_a_run_stopped_at_random_moments_ends_like_an_undisturbed_run(tmp_path):
  toy.write_records(str(tmp_path / "a.tfrecord"), 60)
  plan = {"save_checkpoints_steps": 4, "iterations_per_loop": 4, "seed": 1}
  plan |= {"do_train": True, "num_train_steps": STEPS}
  flags = toy.flags(tmp_path, dropout=0.1, **plan)
  intact, killed = tmp_path / "intact", tmp_path / "killed"
  rng = random.Random(1)
  begin = time.monotonic()
  process = _start(flags, intact)
  _wait(process, lambda: _newest(intact) >= 0)
  start_up = time.monotonic() - begin
  assert process.wait() == 0
  for number in range(STOPS):
    latest = _check_files(killed)
    process = _start(flags, killed)
    moment = MOMENTS[number % len(MOMENTS)]
    is_killed = _stop(process, killed, moment, start_up, rng)
    _check_log(killed, latest, not is_killed)
  latest = _check_files(killed)
  assert _start(flags, killed).wait() == 0
  _check_log(killed, latest, True)
  shared.assert_same_checkpoint(killed, intact)
  assert _newest(killed) == STEPS
  assert not _unfinished(killed)
