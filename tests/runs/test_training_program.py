"""Start of a training: locks, leftovers of killed runs, dry runs."""

import errno
import itertools
import logging
import os
import subprocess
import sys

import pytest
from absl import logging as absl_logging

from data import labels
from runs import training_program
from runs.training_program import dry_run, locked
from tests import programs, shared
from tests.training import toy
from training.checkpoint_files import LOCK_FILE

HOLD_LOCK = """
import sys, time
from runs.training_program import locked

with locked(sys.argv[1]):
  print("held", flush=True)
  time.sleep(60)
"""


def test_a_second_run_in_a_folder_is_refused_until_the_first_run_ends(tmp_path):
  command = [sys.executable, "-c", HOLD_LOCK, str(tmp_path)]
  with subprocess.Popen(
    command, stdout=subprocess.PIPE, text=True, cwd=programs.ROOT
  ) as first:
    assert first.stdout.readline() == "held\n"
    unfinished = tmp_path / "unfinished-model.ckpt-5.index"
    unfinished.touch()  # the first run is writing
    for _ in range(2):
      with (
        pytest.raises(ValueError, match="another run uses --output_dir="),
        locked(str(tmp_path)),
      ):
        pass
    assert unfinished.exists()
    first.kill()  # kill -9 also unlocks
  with locked(str(tmp_path)):
    assert not unfinished.exists()


@pytest.mark.parametrize("before", [None, [], ["a"]])  # None: no folder
def test_a_failed_run_removes_a_new_folder_but_no_older_file(tmp_path, before):
  folder = tmp_path / "output"
  if before is not None:
    folder.mkdir()
  for name in before or ():
    (folder / name).touch()
  with pytest.raises(RuntimeError), locked(str(folder)):
    assert (folder / LOCK_FILE).exists()
    raise RuntimeError
  assert folder.exists() == (before is not None)
  assert [path.name for path in folder.glob("*")] == (before or [])


def test_a_warning_names_a_folder_without_a_lock(tmp_path, monkeypatch, caplog):
  def refuse(*_):
    raise OSError(errno.ENOLCK, "No locks available")

  monkeypatch.chdir(tmp_path)
  with locked("gs://bucket/folder"):  # an object store has no locks
    assert not any(tmp_path.iterdir())
  monkeypatch.setattr(training_program.fcntl, "flock", refuse)
  with locked(str(tmp_path)):
    assert f"{tmp_path} cannot be locked (No locks available)" in caplog.text


def test_incomplete_checkpoints_of_a_killed_run_are_removed(tmp_path):
  (tmp_path / "best").mkdir()
  incomplete = [
    "unfinished-model.ckpt-5.data-00000-of-00001.tempstate12",
    "best/unfinished-model.ckpt-5.index",
  ]
  complete = ["model.ckpt-5.index", "unfinished.txt", "best/model.ckpt-5.index"]
  for name in incomplete + complete:
    (tmp_path / name).touch()
  with locked(str(tmp_path)):
    assert not [name for name in incomplete if (tmp_path / name).exists()]
  assert all((tmp_path / name).exists() for name in complete)


@pytest.mark.parametrize("is_dry", [False, True])
def test_a_program_locks_its_folder_after_checks(tmp_path, monkeypatch, is_dry):
  folder = str(tmp_path / "out")
  args = _dry("run_squad", output_dir=folder, dry_run=is_dry, do_train=True)
  seen = []

  def main(settings):
    assert seen == [args]
    assert (settings == args) == (not is_dry)
    seen.extend(os.listdir(settings.output_dir))

  run = training_program.program
  monkeypatch.setattr(run, "run", lambda _, start: start(args))
  training_program.run(type(args), seen.append, main)
  assert seen == [args, LOCK_FILE]


# --- Dry runs -----------------------------------------------------------------


def _dry(program, **changes):
  """Returns the settings of a dry run."""
  flags = {"output_dir": "out", "dry_run": True} | changes
  return programs.arguments(program, **flags)


@pytest.mark.parametrize("saved", [None, "model.ckpt-3", "best/model.ckpt-2"])
def test_a_dry_run_predicts_with_a_checkpoint_but_trains_anew(tmp_path, saved):
  folder = tmp_path / "out"
  if saved:
    path = folder / saved
    shared.touch_checkpoint(path.parent, path.name)
  for given, do_train in itertools.product((None, "", "bert"), (False, True)):
    flags = {"do_train": do_train, "init_checkpoint": given}
    args = _dry("run_squad", output_dir=str(folder), **flags)
    with dry_run(args) as short:
      taken = str(path) if saved and not do_train else given
      assert short.init_checkpoint == taken
      assert not short.keep_best
      assert short.output_dir != args.output_dir
      assert not os.listdir(short.output_dir)
    assert not os.path.exists(short.output_dir)


def _changes(args, other):
  return {k: v for k, v in other.to_dict().items() if v != args[k]}


def test_a_dry_run_is_short_and_its_log_mentions_no_saved_files(tmp_path):
  flags = dict.fromkeys(("do_train", "do_predict", "do_export"), True)
  flags |= {"export_dir": "new", "init_checkpoint": "bert", "num_seeds": 2}
  flags |= {"profile_steps": (1, 2), "learning_rate": (1e-5, 2e-5)}
  flags |= {"eval_steps": 5, "ensemble": 2, "early_stopping_patience": 1}
  args = _dry("run_classifier", output_dir=str(tmp_path), **flags)
  labels.save(["b", "a"], str(tmp_path))
  with dry_run(args) as short:
    assert not short.is_sweep
    assert labels.load(short.output_dir) == ("b", "a")
    changed = _changes(args, short)
    folder = changed.pop("output_dir")
    [*_, is_shown] = absl_logging.get_absl_handler().python_handler.filters
    for level, message, shown in (
      ("WARNING", f"{folder}/a is odd", True),
      ("INFO", f"saved {folder}/a", False),
      ("INFO", "step 2 of 2", True),
    ):
      record = logging.makeLogRecord({"msg": message, "levelname": level})
      assert is_shown(record) == shown
  assert changed == {
    "num_seeds": 1,
    "early_stopping_patience": 0,
    "ensemble": 1,
    "profile_steps": None,
    "eval_steps": 0,
    "keep_best": True,
    "seed": 1,
    "export_dir": f"{folder}/export",
  }
  assert os.listdir(tmp_path) == ["labels.txt"]


def test_a_dry_run_of_pretraining_has_two_steps():
  flags = {"num_train_steps": 90, "num_warmup_steps": 9, "stop_at_step": 7}
  flags |= {"max_eval_steps": 50}
  args = _dry("run_pretraining", do_train=True, **flags)
  with dry_run(args) as short:
    changed = _changes(args, short)
  assert changed.keys() - {"output_dir", "export_dir"} == flags.keys()
  assert (short.num_train_steps, short.num_warmup_steps) == (2, 1)
  assert (short.stop_at_step, short.max_eval_steps) == (0, 2)


def test_only_a_dry_run_changes_the_settings():
  args = _dry("run_classifier")
  assert args.max_examples == 64
  args = args.replace(dry_run=False)
  assert args.max_examples is None
  with dry_run(args) as same:
    assert same is args


@pytest.mark.parametrize("index", [0, 1])
def test_all_workers_of_a_dry_run_use_one_folder(tmp_path, monkeypatch, index):
  toy.set_worker(monkeypatch, index)
  args = _dry("run_classifier", output_dir=str(tmp_path), do_train=True)
  with dry_run(args) as changed:
    folder = tmp_path / "dry_run"
    assert changed.output_dir == str(folder)
    folder.mkdir()
  assert folder.exists() == (index > 0)  # the chief removes the folder
