"""Roles of a process in a cluster, and deferred signals."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest

from tests import programs
from training import processes
from training.processes import GracefulShutdown

# --- The cluster, from TF_CONFIG

WORKERS = {"worker": ["a:1", "b:1"]}
CHIEF = {"chief": ["a:1"], "worker": ["b:1"]}


@pytest.mark.parametrize(
  ("config", "is_chief"),
  [
    (None, True),
    ({}, True),
    ({"cluster": WORKERS, "task": {"type": "worker", "index": 0}}, True),
    ({"cluster": WORKERS, "task": {"type": "worker", "index": 1}}, False),
    ({"cluster": CHIEF, "task": {"type": "worker", "index": 0}}, False),
    ({"cluster": CHIEF, "task": {"type": "chief", "index": 0}}, True),
  ],
)
def test_only_one_process_is_the_chief(monkeypatch, config, is_chief):
  if config is None:
    monkeypatch.delenv("TF_CONFIG", raising=False)
  else:
    monkeypatch.setenv("TF_CONFIG", json.dumps(config))
  assert processes.is_chief() == is_chief


@pytest.mark.parametrize(
  ("cluster", "expected"),
  [({}, False), ({"worker": ["a:1"]}, False), (WORKERS, True), (CHIEF, True)],
)
def test_a_cluster_of_one_process_has_no_others(monkeypatch, cluster, expected):
  task = {"type": "worker", "index": 0}
  config = {"cluster": cluster, "task": task}
  monkeypatch.setenv("TF_CONFIG", json.dumps(config))
  assert processes.has_others() == expected


def test_a_broken_tf_config_is_refused(monkeypatch):
  first = '"task": {"type": "worker", "index": 0}'
  for text, message in (
    ("{cluster", "is not JSON"),
    ("[]", "needs `cluster`, which lists hosts by type"),
    ('{"cluster": ["a:1", "b:1"]}', "needs `cluster`"),
    (f'{{"cluster": {{"worker": "a:1"}}, {first}}}', "needs `cluster`"),
    ('{"task": 0}', "needs `cluster`"),
    ('{"cluster": null}', "needs `cluster`"),
    ('{"cluster": {"worker": ["a:1", "b:1"]}}', "needs `cluster`"),
    (f'{{"cluster": {{"chief": ["a:1"]}}, {first}}}', "needs `cluster`"),
    (f'{{"cluster": {{"worker": []}}, {first}}}', "needs `cluster`"),
  ):
    monkeypatch.setenv("TF_CONFIG", text)
    with pytest.raises(ValueError, match=re.escape(f"={text} {message}")):
      processes.is_chief()


# --- SIGTERM and Ctrl-C; a second Ctrl-C ends at once


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_is_deferred_and_handlers_are_restored(number):
  before = signal.getsignal(number)
  with GracefulShutdown() as interruption:
    assert not interruption.requested
    os.kill(os.getpid(), number)
    assert interruption.requested
  assert signal.getsignal(number) == before
  assert signal.set_wakeup_fd(-1) == -1


def test_the_second_interrupt_ends_the_process_at_once():
  script = """
import os, signal, time
from training.processes import GracefulShutdown
with GracefulShutdown():
  os.kill(os.getpid(), signal.SIGINT)
  os.kill(os.getpid(), signal.SIGINT)  # `timeout` signals twice
  os.kill(os.getpid(), signal.SIGTERM)  # does not count as a second Ctrl-C
  time.sleep(1)
  print("goes on", flush=True)
  os.kill(os.getpid(), signal.SIGINT)
  time.sleep(60)
"""
  done = programs.python(["-c", script], timeout=50)
  assert done.returncode == 130
  assert done.stdout == "goes on\n"
  assert done.stderr.count("Ctrl-C once more ends at once") == 1
  assert "Traceback" not in done.stderr


def test_a_signal_to_the_parent_ends_its_child():
  command = [sys.executable, "-c", "import time; time.sleep(60)"]
  with (
    subprocess.Popen(command) as child,
    GracefulShutdown(child) as interruption,
  ):
    os.kill(os.getpid(), signal.SIGINT)
    begin = time.monotonic()
    assert child.wait() == -signal.SIGTERM
  assert interruption.requested
  assert time.monotonic() - begin < 30


@pytest.mark.parametrize(("is_child", "status"), [(False, 0), (True, 143)])
def test_an_interrupted_child_exits_with_143(is_child, status, monkeypatch):
  """Status 143 tells a parent that its child was interrupted."""
  if is_child:
    monkeypatch.setenv(processes._IS_CHILD, "1")
  monkeypatch.setenv("PYTHONPATH", str(programs.ROOT))
  command = [sys.executable, "-c"]
  script = "from training import processes; processes.end_interrupted()"
  with pytest.raises(SystemExit) as ended:
    processes.run_child([*command, script])
  assert ended.value.code == status
  assert processes.run_child([*command, "import sys; sys.exit(3)"]) == 3
