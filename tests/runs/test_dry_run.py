"""Dry runs: which model is loaded, and which folders are written."""

import itertools
import os

import pytest

from runs import dry_run, training_program
from tests import programs
from training import run_json


def _save(folder, name="model.ckpt-3"):
  """Creates a checkpoint's files without contents."""
  folder.mkdir(parents=True, exist_ok=True)
  (folder / f"{name}.index").touch()
  (folder / "checkpoint").write_text(f'model_checkpoint_path: "{name}"\n')
  return str(folder / name)


@pytest.mark.parametrize("program", ["run_squad", "run_pretraining"])
@pytest.mark.parametrize("given", [None, "", "released/bert_model.ckpt"])
@pytest.mark.parametrize("has_own", [False, True])
@pytest.mark.parametrize("do_train", [False, True])
def test_a_dry_run_has_the_model_of_the_command(
  tmp_path, program, given, has_own, do_train
):
  """Without training, loads a checkpoint of --output_dir if there is one."""
  folder = tmp_path / "out"
  own = _save(folder) if has_own else None
  flags = {"do_train": do_train, "init_checkpoint": given, "dry_run": True}
  args = programs.arguments(program, output_dir=str(folder), **flags)
  with dry_run.dry_run(args) as short:
    taken = own if own and not do_train else given
    assert short.init_checkpoint == taken
    assert short.output_dir != args.output_dir
    assert not os.listdir(short.output_dir)
  assert not os.path.exists(short.output_dir)


@pytest.mark.parametrize("keeps_best", [False, True])
def test_a_dry_run_takes_the_best_of_the_training(tmp_path, keeps_best):
  newest, best = _save(tmp_path), _save(tmp_path / "best", "model.ckpt-2")
  run_json.append(str(tmp_path), {"flags": {"keep_best": keeps_best}})
  args = programs.arguments(
    "run_squad", output_dir=str(tmp_path), dry_run=True, do_predict=True
  )
  with dry_run.dry_run(args) as short:
    assert short.init_checkpoint == (best if keeps_best else newest)


def test_no_stage_of_a_dry_run_is_left_out_or_added():
  """The dry run writes only to a temporary folder."""
  names = ("do_train", "do_predict", "do_export")
  for values in itertools.product([False, True], repeat=len(names)):
    chosen = dict(zip(names, values, strict=True))
    args = programs.arguments(
      "run_squad", output_dir="out", export_dir=None, dry_run=True, **chosen
    )
    with dry_run.dry_run(args) as short:
      assert {name: short[name] for name in names} == chosen
      assert os.path.dirname(short.export_dir) == short.output_dir


PARTS = ({}, {"num_seeds": 2}, {"learning_rate": (1e-5, 2e-5)})


@pytest.mark.parametrize("changes", PARTS)
@pytest.mark.parametrize("do_train", [False, True])
def test_a_dry_run_of_a_sweep_is_one_of_its_trials(changes, do_train):
  """A trial keeps the best checkpoint. Without training there is no trial."""
  flags = {"output_dir": "out", "dry_run": True, "do_train": do_train}
  args = programs.arguments("run_squad", **flags, **changes)
  with dry_run.dry_run(args) as short:
    assert not short.is_sweep
    assert short.keep_best == (do_train and bool(changes))
    assert short.learning_rate == (1e-5 if "learning_rate" in changes else 5e-5)


@pytest.mark.parametrize("is_dry", [False, True])
def test_a_dry_run_locks_its_own_folder(tmp_path, monkeypatch, is_dry):
  """The earlier checks look at the command's folder."""
  folder = str(tmp_path / "out")
  args = programs.arguments(
    "run_squad", output_dir=folder, dry_run=is_dry, do_train=True
  )
  checked, locked, given = [], [], []
  monkeypatch.setattr(
    training_program.program, "run", lambda *parts: given.append(parts[2])
  )
  monkeypatch.setattr(training_program, "lock_folder", locked.append)
  run = [lambda args: locked.append(args.output_dir)]
  check = lambda args: checked.append(args.output_dir)  # noqa: E731
  training_program.run(type(args), check, run[0])
  given[0](args)
  assert checked == [folder]
  assert locked[0] == locked[1]
  assert (locked[0] == folder) == (not is_dry)
