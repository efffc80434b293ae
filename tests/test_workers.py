"""Several processes that train one model: what they write, how one dies."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from modeling.config import BertConfig
from tests import programs
from tests.training import toy
from training import checkpoint, report, run_record

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[1]
STEPS = 20


@pytest.fixture(scope="module", name="given")
def _given(tmp_path_factory):
  folder = tmp_path_factory.mktemp("workers")
  config = BertConfig.from_dict(toy.config().to_dict())
  config.to_json(str(folder / "bert_config.json"))
  toy.write_records(str(folder / "a.tfrecord"), 64)
  toy.write_records(str(folder / "b.tfrecord"), 64, seed=1)
  return {
    "input_file": str(folder / "*.tfrecord"),
    "bert_config_file": str(folder / "bert_config.json"),
    "max_seq_length": toy.T,
    "max_predictions_per_seq": toy.P,
    "train_batch_size": 8,
    "learning_rate": 0.01,
    "num_warmup_steps": 5,
    "num_train_steps": STEPS,
    "seed": 1,
    "do_train": True,
  }


def _start(environment=None, **flags):
  command = [sys.executable, str(ROOT / "run_pretraining.py")]
  command += [f"--{name}={value}" for name, value in flags.items()]
  return subprocess.Popen(
    command,
    stderr=subprocess.PIPE,
    text=True,
    env=os.environ | (environment or {}),
  )


def _workers(flags, number=2):
  """Processes that train together on this machine."""
  sockets = [socket.socket() for _ in range(number)]
  for one in sockets:
    one.bind(("localhost", 0))
  places = [f"localhost:{one.getsockname()[1]}" for one in sockets]
  for one in sockets:
    one.close()
  started = []
  for index in range(number):
    task = {"type": "worker", "index": index}
    config = {"cluster": {"worker": places}, "task": task}
    started.append(
      _start(
        {"TF_CONFIG": json.dumps(config)},
        distribution_strategy="multi_worker_mirrored",
        **flags,
      )
    )
  return started


def _losses(folder):
  lines = report.read_metrics(str(folder))
  return [line["loss"] for line in lines if "gradient_norm" in line]


def test_two_workers_train_as_one_does(given, tmp_path):
  # A checkpoint after every step, and with it a line of metrics.
  given = given | {
    "learning_rate": 0.001,
    "do_eval": True,
    "eval_batch_size": 7,
    "save_checkpoints_steps": 1,
  }
  alone = _start(**given, output_dir=tmp_path / "one")
  assert alone.wait() == 0, alone.stderr.read()
  workers = _workers(given | {"output_dir": tmp_path / "two"})
  for worker in workers:
    _, log = worker.communicate()
    assert worker.returncode == 0, log
  one = checkpoint.read(str(tmp_path / "one"))
  two = checkpoint.read(str(tmp_path / "two"))
  assert one.shapes == two.shapes
  for name in one.shapes:
    if name.endswith(toy.WITHOUT_EFFECT):
      continue
    np.testing.assert_allclose(two[name], one[name], atol=1e-5, err_msg=name)
  # One of them writes, and only one.
  events = list((tmp_path / "two").glob("events*"))
  assert len(events) == 1
  # They share the batches of the evaluation, unevenly here.
  result = [programs.results(tmp_path / name) for name in ("one", "two")]
  assert result[1] == pytest.approx(result[0], rel=1e-5)
  first, second = (_losses(tmp_path / name) for name in ("one", "two"))
  assert len(first) == STEPS
  np.testing.assert_allclose(second, first, rtol=1e-5)


def test_when_one_dies_the_other_ends_soon_and_a_restart_goes_on(
  given, tmp_path
):
  flags = given | {
    "output_dir": tmp_path,
    "num_train_steps": 100_000,
    "save_checkpoints_steps": 50,
  }
  first, second = _workers(flags)
  while not (tmp_path / "model.ckpt-50.index").exists():
    assert first.poll() is None, first.stderr.read()
    time.sleep(0.2)
  second.send_signal(signal.SIGKILL)
  second.wait()
  _, log = first.communicate(timeout=900)
  assert first.returncode == 1, log
  assert "another worker" in log
  # What TensorFlow leaves open, Python may complain of at the very end.
  assert "Traceback" not in log.partition("Exception ignored in")[0]
  latest = run_record.find_checkpoint(str(tmp_path))
  done = int(latest.rpartition("-")[2])
  for worker in _workers(flags | {"num_train_steps": done + 5}):
    _, log = worker.communicate()
    assert worker.returncode == 0, log
  assert f"resuming from {latest}" in log


def test_when_one_is_asked_to_end_both_save_and_end_well(given, tmp_path):
  flags = given | {
    "output_dir": tmp_path,
    "num_train_steps": 100_000,
    "save_checkpoints_steps": 50_000,
    "iterations_per_loop": 20,
  }
  first, second = _workers(flags)
  while not list(tmp_path.glob("events*")):
    assert first.poll() is None, first.stderr.read()
    time.sleep(0.2)
  time.sleep(10.0)  # to train for a while
  second.send_signal(signal.SIGTERM)  # and not the one that writes
  logs = [worker.communicate(timeout=900)[1] for worker in (first, second)]
  latest = run_record.find_checkpoint(str(tmp_path))
  done = int(latest.rpartition("-")[2])
  assert 0 < done < 100_000
  for worker, log in zip((first, second), logs, strict=True):
    assert worker.returncode == 0, log
    assert f"the same command resumes from step {done}" in log
