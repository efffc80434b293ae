"""Records and checkpoints in an object store equal the files on a disk."""

import signal
import time

import pytest

from storage import files
from tests import object_store, programs, shared
from tests.data.pretraining.corpus import random_text
from tests.object_store import BUCKET
from tests.test_workers import start
from tests.training import toy
from training import checkpoint_files, report

pytestmark = pytest.mark.slow
VOCAB_FILE = programs.ROOT / "tests/parity/golden/vocab.txt"


@pytest.fixture(scope="module", autouse=True, name="store")
def _store(tmp_path_factory):
  """Runs an object store, which this process and its children can reach."""
  with (
    object_store.running(tmp_path_factory.mktemp("store")) as environment,
    pytest.MonkeyPatch.context() as patch,
  ):
    for name, value in environment.items():
      patch.setenv(name, value)
    yield


def _run(program, **flags):
  process = start(program, **flags)
  _, log = process.communicate()
  assert process.returncode == 0, log
  return log


def _put(name, content):
  with files.open_for_writing(f"{BUCKET}/{name}") as file:
    file.write(content)
  return f"{BUCKET}/{name}"


def _get(path):
  with files.open_for_reading(path) as file:
    return file.read()


def _create_data(text, vocab_file, output_file):
  _run(
    "create_pretraining_data",
    input_file=text,
    vocab_file=vocab_file,
    output_file=output_file,
    dupe_factor=1,
    max_seq_length=64,
    num_workers=2,
  )


def test_records_in_an_object_store_equal_records_on_disk(tmp_path):
  text = random_text(9000).encode()
  assert len(text) > 2 << 20  # several shards
  (tmp_path / "text").write_bytes(text)
  _create_data(tmp_path / "text", VOCAB_FILE, tmp_path / "records")
  folder = f"{BUCKET}/data"
  remote_text = _put("data/text", text)
  vocab_file = _put("data/vocab", VOCAB_FILE.read_bytes())
  _create_data(remote_text, vocab_file, f"{folder}/records")
  paths = files.glob_files(f"{folder}/records*")
  # Each record file has an index, and 2 files are the text and the vocabulary.
  assert 2 * len(paths) + 2 == len(files.list_folder(folder))
  assert b"".join(map(_get, paths)) == (tmp_path / "records").read_bytes()


def _training(tmp_path, folder):
  """Returns flags of a training whose files are all in one folder."""
  flags = toy.flags(tmp_path, dropout=0.1)
  toy.write_records(str(tmp_path / "a.tfrecord"), 600)
  for name in ("bert_config.json", "a.tfrecord"):
    if files.is_remote(folder):
      _put(name, (tmp_path / name).read_bytes())
  flags |= {"do_train": True, "do_eval": True, "max_eval_steps": 2, "seed": 1}
  flags |= {"save_checkpoints_steps": 30, "iterations_per_loop": 30}
  flags |= {"input_file": f"{folder}/a.tfrecord", "num_train_steps": 300}
  config_file = f"{folder}/bert_config.json"
  return flags | {"bert_config_file": config_file, "learning_rate": 1e-3}


def test_a_killed_training_in_an_object_store_ends_like_one_on_disk(tmp_path):
  flags = _training(tmp_path, str(tmp_path))
  _run("run_pretraining", output_dir=tmp_path / "model", **flags)
  model = f"{BUCKET}/model"
  flags = _training(tmp_path, BUCKET)
  process = start("run_pretraining", output_dir=model, **flags)
  # Waits for a checkpoint of a later step than 0.
  while (checkpoint_files.latest_checkpoint(model) or "-0").endswith("-0"):
    assert process.poll() is None, process.stderr.read()
    time.sleep(0.1)
  process.send_signal(signal.SIGKILL)
  process.communicate()
  step = int(checkpoint_files.latest_checkpoint(model).rpartition("-")[2])
  assert 0 < step < 300
  log = _run("run_pretraining", output_dir=model, **flags)
  assert f"resuming from {model}/model.ckpt-{step}" in log

  shared.assert_same_checkpoint(model, tmp_path / "model")
  results = _get(f"{model}/eval_results.txt")
  assert results == (tmp_path / "model/eval_results.txt").read_bytes()
  steps = [line["step"] for line in report.read_metrics(model)]
  assert steps == sorted(steps)
  assert {*range(30, 301, 30)} <= {*steps}
  names = (name.rpartition(".")[0] for name in files.list_folder(model))
  assert not [name for name in names if "partial" in name]
