"""What goes wrong in long runs: what a program then says, leaves and survives.

All runs are made once, one after the other, and looked at by the tests.
"""

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from cli import program
from modeling import models
from tests import programs
from tests.training import toy
from training import checkpoint, report, run_record
from training.run_folder import Checkpoints

pytestmark = pytest.mark.slow
STEPS = 60
FULL = 10_000  # bytes; a checkpoint has more
RECORDS, CUT = 60, 50


@pytest.fixture(scope="module", name="flags")
def _flags(tmp_path_factory):
  folder = tmp_path_factory.mktemp("faults")
  wider = replace(toy.config(0.1), hidden_size=16)
  wider.to_json(str(folder / "wider.json"))
  toy.write_records(str(folder / "good.tfrecord"), 60)
  return SimpleNamespace(
    folder=folder,
    given=toy.flags(
      folder,
      "good.tfrecord",
      0.1,
      do_train=True,
      num_warmup_steps=5,
      num_train_steps=STEPS,
      save_checkpoints_steps=5,
      iterations_per_loop=5,
      seed=3,
    ),
  )


def _disturbed(flags, name, disturb):
  """Status, log and newest step of a run that meets something in training."""
  folder = flags.folder / name
  command = [sys.executable, str(programs.ROOT / "run_pretraining.py")]
  command += [f"--{k}={v}" for k, v in flags.given.items()]
  with subprocess.Popen(
    [*command, f"--output_dir={folder}"], stderr=subprocess.PIPE, text=True
  ) as process:
    while not (folder / "model.ckpt-5.index").exists():
      assert process.poll() is None, process.stderr.read()
      time.sleep(0.002)
    disturb(process)
    _, log = process.communicate()
  latest = Checkpoints(str(folder)).latest()
  return process.returncode, log, int(latest.rpartition("-")[2])


@pytest.fixture(scope="module", name="asked_to_end")
def _asked_to_end(flags):
  return _disturbed(flags, "asked", lambda p: p.send_signal(signal.SIGTERM))


@pytest.fixture(scope="module", name="interrupted")
def _interrupted(flags):
  return _disturbed(flags, "ctrl_c", lambda p: p.send_signal(signal.SIGINT))


@pytest.fixture(scope="module", name="disk_full")
def _disk_full(flags):
  """As if there were no more room: no file can grow beyond some bytes."""

  def fill(process):
    limit = (FULL, resource.RLIM_INFINITY)
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, limit)

  return _disturbed(flags, "full", fill)


@pytest.fixture(scope="module", name="runs")
def _runs(flags, asked_to_end, disk_full):
  """{name: (status, log)}; each has a folder of that name."""
  del asked_to_end, disk_full
  folder, result = flags.folder, {}

  def run(cases):
    given = [
      flags.given | {"output_dir": folder / name} | changes
      for name, changes in cases.items()
    ]
    # As the processes that are killed are: bits are compared.
    fused = [flags | {"fused": True} for flags in given]
    results = programs.run_each("run_pretraining", fused)
    result.update(zip(cases, results, strict=True))

  run({"whole": {}, "asked": {}, "full": {}})
  cut, flawed = _prepare(folder)
  run(
    {
      "flipped": {},
      "held": {},
      "cut": {"input_file": cut},
      "flawed": {"input_file": flawed},
      "skipped": {"input_file": f"{cut},{flawed}", "max_corrupt_records": 2},
      "spoilt": {"learning_rate": 1e30},
      "narrow": {"bert_config_file": folder / "wider.json"},
      "classified": {},
    }
  )
  return result


def _prepare(folder):
  """Damages copies of a run and records: one file cut off, one changed."""
  for name in ("flipped", "narrow"):
    shutil.copytree(folder / "whole", folder / name)
  path = folder / "flipped" / f"model.ckpt-{STEPS}.data-00000-of-00001"
  data = bytearray(path.read_bytes())
  data[len(data) // 2] ^= 1
  path.write_bytes(data)
  program.lock_folder(str(folder / "held"))
  model = models.classifier(toy.config(), 2)
  classified = Checkpoints(str(folder / "classified"))
  classified.save(7, checkpoint.variables(model) | {"global_step": _seven()})
  cut = folder / "cut.tfrecord"
  toy.write_records(str(cut), RECORDS)
  flawed = folder / "flawed.tfrecord"
  shutil.copyfile(cut, flawed)
  place = _start(cut, CUT) + 30
  os.truncate(cut, place)
  data = bytearray(flawed.read_bytes())
  data[place] ^= 1
  flawed.write_bytes(data)
  return cut, flawed


def _seven():
  return tf.Variable(7, dtype=tf.int64)


def _start(path, number):
  """Where a record begins in its file."""
  data, place = path.read_bytes(), 0
  for _ in range(number):
    place += int.from_bytes(data[place : place + 8], "little") + 16
  return place


def _last_line(log):
  return log.strip().splitlines()[-1]


def _assert_ends_the_same(flags, name):
  one = checkpoint.read(str(flags.folder / "whole"))
  other = checkpoint.read(str(flags.folder / name))
  assert other.prefix.endswith(f"model.ckpt-{STEPS}")
  assert one.shapes == other.shapes
  for key in one.shapes:
    np.testing.assert_array_equal(one[key], other[key], key)


def test_asked_to_end_it_saves_and_a_restart_ends_the_same(
  flags, asked_to_end, runs
):
  status, log, step = asked_to_end
  assert status == 0, log
  assert 5 <= step < STEPS
  assert f"the same command resumes from step {step}" in _last_line(log)
  status, log = runs["asked"]
  assert status == 0, log
  assert f"resuming from {flags.folder / 'asked'}/model.ckpt-{step}\n" in log
  _assert_ends_the_same(flags, "asked")
  steps = [
    line["step"] for line in report.read_metrics(str(flags.folder / "asked"))
  ]
  assert steps == sorted(set(steps))


def test_interrupted_from_the_keyboard_it_saves_too(interrupted):
  status, log, step = interrupted
  assert status == 0, log
  assert 5 <= step < STEPS
  assert "Ctrl-C once more ends at once" in log
  assert f"the same command resumes from step {step}" in _last_line(log)


def test_on_a_full_disk_it_ends_and_with_more_room_goes_on(
  flags, disk_full, runs
):
  status, log, step = disk_full
  assert status == 1, log
  assert "Traceback" not in log
  last = f"{flags.folder / 'full'}/model.ckpt-{step}"
  assert "cannot be written" in _last_line(log)
  assert f"the last good one is {last}" in _last_line(log)
  status, log = runs["full"]
  assert status == 0, log
  assert f"resuming from {last}\n" in log
  _assert_ends_the_same(flags, "full")


def test_what_is_needed_to_repeat_a_run_is_kept(flags, runs):
  del runs
  folder = flags.folder / "asked"
  starts = json.loads((folder / "run.json").read_text())
  assert len(starts) == 2
  told = starts[0]["flags"]
  for name in ("learning_rate", "num_train_steps", "train_batch_size"):
    assert told[name] == flags.given[name]
  assert told["optimizer"] == "adamw"  # defaults are told, too
  for start in starts:
    assert start["seed"] == flags.given["seed"]
    assert {"python", "tensorflow", "keras", "numpy"} <= set(start["versions"])
    assert len(start["commit"] or "0" * 40) >= 40
    [(name, fingerprint)] = start["data"].items()
    assert name == str(flags.given["input_file"])
    assert fingerprint.startswith(f"{os.path.getsize(name)} bytes, sha256")


def test_tensorboard_and_metrics_have_the_same_numbers(flags, runs):
  del runs
  folder, texts, seen = flags.folder / "whole", [], {}
  for path in folder.glob("events*"):
    for event in tf.compat.v1.train.summary_iterator(str(path)):
      for value in event.summary.value:
        number = tf.make_ndarray(value.tensor)
        if value.metadata.plugin_data.plugin_name == "text":
          texts.append(number.item().decode())
        else:
          seen.setdefault(value.tag, {})[event.step] = float(number)
  assert len(texts) == 1
  assert '"train_batch_size": 8' in texts[0]
  lines = report.read_metrics(str(folder))
  told = (
    "loss",
    "masked_lm_accuracy",
    "next_sentence_accuracy",
    "learning_rate",
    "gradient_norm",
  )
  assert set(told) <= set(lines[-1])
  assert "sequences_per_second" in seen
  # A line is of five steps, which are told to TensorBoard in up to five parts.
  for name in told:
    parts = seen[name].values()
    assert min(parts) - 1e-5 <= lines[-1][name] <= max(parts) + 1e-5


def test_a_damaged_checkpoint_is_passed_over(flags, runs):
  status, log = runs["flipped"]
  assert status == 0, log
  folder = flags.folder / "flipped"
  assert f"the checkpoint {folder}/model.ckpt-{STEPS} cannot be read" in log
  assert f"going back to {folder}/model.ckpt-{STEPS - 5}\n" in log
  _assert_ends_the_same(flags, "flipped")


@pytest.mark.parametrize(
  ("name", "message"),
  [
    ("held", "another run, process"),
    ("cut", f"cut.tfrecord, record {CUT}: the file ends within it"),
    ("flawed", f"flawed.tfrecord, record {CUT}: its checksum is wrong"),
    ("spoilt", "the loss or its gradient is not finite at step "),
    ("narrow", "narrow/model.ckpt-60 has hidden_size 8, but"),
    ("classified", "model.ckpt-7 is of another model: it has no cls/"),
  ],
)
def test_it_ends_with_one_clear_line(runs, name, message):
  status, log = runs[name]
  assert status == 1, log
  assert "Traceback" not in log
  assert "ERROR: " in _last_line(log)
  assert message in _last_line(log)


@pytest.mark.parametrize("name", ["cut", "flawed"])
def test_of_a_damaged_record_the_remedy_is_named(runs, name):
  assert "--max_corrupt_records" in _last_line(runs[name][1])


def test_without_the_damaged_record_it_trains(flags, runs):
  status, log = runs["skipped"]
  assert status == 0, log
  cut, flawed = (flags.folder / f"{n}.tfrecord" for n in ("cut", "flawed"))
  assert f"left out: {cut}, record {CUT}: the file ends within it" in log
  assert f"left out: {flawed}, record {CUT}: its checksum is wrong" in log
  latest = Checkpoints(str(flags.folder / "skipped")).latest()
  assert latest.endswith(f"model.ckpt-{STEPS}")


def test_a_loss_that_is_not_finite_spoils_no_checkpoint(flags, runs):
  latest = Checkpoints(str(flags.folder / "spoilt")).latest()
  assert f"the last good checkpoint is {latest}." in runs["spoilt"][1]
  reader = checkpoint.read(latest)
  for name in reader.shapes:
    assert np.isfinite(reader[name]).all(), name


def test_a_refused_folder_stays_as_it_is(flags, runs):
  del runs
  whole = run_record.find_checkpoint(str(flags.folder / "whole"))
  narrow = run_record.find_checkpoint(str(flags.folder / "narrow"))
  assert os.path.basename(whole) == os.path.basename(narrow)
  names = {path.name for path in (flags.folder / "classified").iterdir()}
  assert {name for name in names if "ckpt" in name} == {
    "model.ckpt-7.index",
    "model.ckpt-7.data-00000-of-00001",
  }
