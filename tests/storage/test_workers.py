import logging
import multiprocessing
import os
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest
import tensorflow as tf

import storage
from storage import Progress, UserError
from storage.processes import ordered_map


def _prepare():
  def double(task):
    if task == "deadly.txt":
      os._exit(9)
    if task == "slow":
      time.sleep(0.3)
    return task * 2

  return double


@pytest.mark.parametrize("processes", [1, 2])
def test_results_come_in_the_order_of_the_tasks(processes):
  results = list(ordered_map(_prepare, ["slow", "a", "b", "c"], processes))
  assert results == ["slowslow", "aa", "bb", "cc"]


def test_a_dead_worker_is_an_error_that_names_its_task():
  with pytest.raises(ChildProcessError, match=r"died on deadly\.txt"):
    list(ordered_map(_prepare, ["a", "deadly.txt", "c"], 2))
  # A worker that ends at once does not read its task.
  with pytest.raises(ChildProcessError, match="died on x"):
    list(ordered_map(partial(os._exit, 1), ["x" * 5_000_000] * 2, 2))


def _prepare_errors():
  def fail(error):
    raise error

  return fail


@pytest.mark.parametrize("error", [UserError("a.txt"), ValueError("of a bug")])
def test_an_error_in_a_worker_keeps_its_class_and_its_traceback(error):
  with pytest.raises(ValueError, match=str(error)) as caught:
    list(ordered_map(_prepare_errors, [error, error], 2))
  assert type(caught.value) is type(error)
  assert "in fail\n" in caught.value.__notes__[0]


def test_workers_end_when_the_caller_closes_ordered_map():
  before = set(multiprocessing.active_children())
  results = ordered_map(_prepare, ["a", "slow", "slow", "b"], 2)
  assert next(results) == "aa"
  assert len(set(multiprocessing.active_children()) - before) == 2
  results.close()
  assert set(multiprocessing.active_children()) <= before


def _prepare_pids():
  def save_pid(folder):
    (Path(folder) / str(os.getpid())).touch()
    time.sleep(0.2)

  return save_pid


_ENDLESS_MAP = """
import sys
from storage.processes import ordered_map
from tests.storage.test_workers import _prepare_pids
list(ordered_map(_prepare_pids, sys.argv[1:] * 10_000, 2))
"""


def test_workers_end_when_their_parent_is_killed(tmp_path):
  command = [sys.executable, "-c", _ENDLESS_MAP, str(tmp_path)]
  with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as parent:
    while len(os.listdir(tmp_path)) < 2:
      assert parent.poll() is None
      time.sleep(0.05)
    parent.kill()
    # The pipe ends when the workers, which inherit the pipe, have ended.
    _, log = parent.communicate(timeout=60)
  assert not log


_prepared = []


def _count_prepares():
  _prepared.append(1)
  return lambda task: len(_prepared)


def test_each_worker_calls_prepare_only_once():
  assert [*ordered_map(_count_prepares, range(9), 2)] == [1] * 9


# --- Progress ------------------------------------------------------------


@pytest.mark.parametrize(
  ("total", "done", "expected"),
  [
    (30, (16, 14), "read 30 of 30 rows (100%)"),
    (30, (16, 16), "read 30 of 30 rows (100%)"),  # the last batch has padding
    (30, (16,), "read 16 of 30 rows (53%)"),
    (2.5, (1.0, 2.0), "read 2.5 of 2.5 rows (100%)"),
    (0, (3,), "read 3 rows; "),  # the total is unknown
  ],
)
def test_progress_does_not_exceed_the_total(total, done, expected):
  lines = []
  progress = Progress("read", total, "rows", log=lines.append)
  for batch in progress.follow([{"x": [0] * int(n)} for n in done]):
    assert batch
  [line] = lines
  assert line.startswith(expected)
  assert (" left" in line) == (sum(done) < total)


def test_progress_is_logged_every_few_seconds(monkeypatch):
  now, lines = [100.0], []
  monkeypatch.setattr("time.monotonic", lambda: now[0])
  progress = Progress("read", 40, "rows", every=5.0, log=lines.append)
  for now[0] in (104.9, 105.0, 109.0, 110.0):  # the clock began at 100
    progress.add(5, bad_rows=1, words=600)
  assert lines == [
    "read 10 of 40 rows (25%), 2 bad rows, 1,200 words; 2.0 rows/s, 0:00:15 "
    "left",
    "read 20 of 40 rows (50%), 4 bad rows, 2,400 words; 2.0 rows/s, 0:00:10 "
    "left",
  ]


# --- Messages of TensorFlow -----------------------------------------------


def test_tensorflow_is_silent_unless_the_user_sets_a_log_level(monkeypatch):
  monkeypatch.delenv("TF_CPP_MIN_LOG_LEVEL")
  storage.silence_tensorflow()
  assert os.environ["TF_CPP_MIN_LOG_LEVEL"] == "3"
  assert tf.get_logger().getEffectiveLevel() == logging.WARNING
  monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "0")
  storage.silence_tensorflow()
  assert os.environ["TF_CPP_MIN_LOG_LEVEL"] == "0"
