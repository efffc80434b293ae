"""Roles of a process in a cluster, and deferred signals."""

import json
import os
import re
import signal
import subprocess
import sys

import pytest

from storage import processes
from storage.processes import graceful_shutdown
from tests import programs

# --- The cluster, from TF_CONFIG

WORKERS = {"worker": ["a:1", "b:1"]}
CHIEF = {"chief": ["a:1"], "worker": ["b:1"]}
FIRST = {"type": "worker", "index": 0}


@pytest.mark.parametrize(
  ("cluster", "task", "is_chief"),
  [
    (None, None, True),
    ({"chief": [], "worker": ["a:1"]}, FIRST, True),
    (WORKERS, FIRST, True),
    (WORKERS, {"type": "worker", "index": 1}, False),
    (CHIEF, FIRST, False),
    (CHIEF, {"type": "chief", "index": 0}, True),
  ],
)
def test_only_one_process_is_the_chief(monkeypatch, cluster, task, is_chief):
  monkeypatch.delenv("TF_CONFIG", raising=False)
  if cluster is not None:
    config = {"cluster": cluster, "task": task}
    monkeypatch.setenv("TF_CONFIG", json.dumps(config))
  assert processes.is_chief() == is_chief
  assert processes.has_others() == (cluster in (WORKERS, CHIEF))


@pytest.mark.parametrize(
  "text",
  [
    "{cluster",
    "[]",
    json.dumps({"cluster": WORKERS}),
    json.dumps({"cluster": {"chief": ["a:1"]}, "task": FIRST}),
    json.dumps({"cluster": {"worker": ["a:1", "b"]}, "task": FIRST}),
    json.dumps({"cluster": {"worker": "a:1"}, "task": FIRST}),
    '{"cluster": null}',
    json.dumps({"cluster": WORKERS, "task": FIRST | {"index": -1}}),
    json.dumps({"cluster": {"ps": ["a:1"]}, "task": {"type": "ps"}}),
  ],
)
def test_a_broken_tf_config_is_refused(monkeypatch, text):
  monkeypatch.setenv("TF_CONFIG", text)
  with pytest.raises(ValueError, match=re.escape(f"={text} must be JSON with")):
    processes.is_chief()


# --- SIGTERM and Ctrl-C; a second Ctrl-C ends at once


@pytest.mark.parametrize(
  "number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
)
def test_a_signal_is_deferred_and_handlers_are_restored(number):
  before = signal.getsignal(number)
  with graceful_shutdown() as interruption:
    assert not interruption.requested
    os.kill(os.getpid(), number)
  assert interruption.requested
  assert signal.getsignal(number) == before


def test_a_hangup_that_nohup_ignores_stays_ignored():
  before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
  with graceful_shutdown() as interruption:
    os.kill(os.getpid(), signal.SIGHUP)
  assert not interruption.requested
  assert signal.signal(signal.SIGHUP, before) == signal.SIG_IGN


def test_the_second_interrupt_ends_the_process_at_once():
  script = """
import os, signal
from storage.processes import graceful_shutdown
with graceful_shutdown():
  os.kill(os.getpid(), signal.SIGTERM)  # does not count as a Ctrl-C
  os.kill(os.getpid(), signal.SIGINT)
  print("goes on", flush=True)
  os.kill(os.getpid(), signal.SIGINT)
"""
  done = programs.python(["-c", script], timeout=50)
  assert done.returncode == -signal.SIGINT
  assert done.stdout == "goes on\n"
  assert done.stderr.count("Ctrl-C once more ends at once") == 1


def test_a_signal_to_the_parent_ends_its_child():
  command = [sys.executable, "-c", "import time; time.sleep(60)"]
  with (
    subprocess.Popen(command) as child,
    graceful_shutdown(child) as interruption,
  ):
    os.kill(os.getpid(), signal.SIGINT)
    assert child.wait(timeout=30) == -signal.SIGTERM
  assert interruption.requested


@pytest.mark.parametrize(
  ("variable", "value", "status"),
  [
    (processes._IS_CHILD, "", 0),
    (processes._IS_CHILD, "1", 143),
    ("TF_CONFIG", json.dumps({"cluster": WORKERS, "task": FIRST}), 143),
  ],
)
def test_a_process_ends_when_its_child_was_interrupted(
  variable, value, status, monkeypatch
):
  """The status is 0, or 143 in a child process and with several workers."""
  if value:
    monkeypatch.setenv(variable, value)
  monkeypatch.setenv("PYTHONPATH", str(programs.ROOT))
  command = [sys.executable, "-c", "raise SystemExit(3)"]
  assert processes.run_child(command) == 3
  command[2] = "from storage import processes; processes.end_interrupted()"
  with pytest.raises(SystemExit) as ended:
    processes.run_child(command)
  assert ended.value.code == status
