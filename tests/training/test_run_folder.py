"""Entries of run.json, and the best checkpoint of a folder."""

import pytest

from tests import shared
from tests.training import toy
from training import checkpoint_files, run_folder


@pytest.fixture(name="folder")
def _folder(tmp_path):
  """An output folder with a checkpoint and the best checkpoint."""
  shared.touch_checkpoint(tmp_path, "model.ckpt-2")
  shared.touch_checkpoint(tmp_path / "best", "model.ckpt-1")
  return tmp_path


def test_the_best_checkpoint_has_the_flags_of_its_run(folder):
  def attention(path):
    flags = checkpoint_files.run_of(str(folder / path))["flags"]
    return flags.get("attention")

  for name in ("shallow", "left_to_right"):  # the last entry counts
    checkpoint_files.append_run(str(folder), {"flags": {"attention": name}})
  for path in ("", "model.ckpt-2", "best", "best/model.ckpt-1"):
    assert attention(path) == "left_to_right"
  checkpoint_files.append_run(
    str(folder / "best"), {"flags": {"attention": "shallow"}}
  )
  assert attention("best") == "shallow"  # best/run.json overrides
  (folder / "other").mkdir()
  assert attention("other") is None


def test_paths_of_a_run_are_relative_to_its_working_directory():
  flags = {"a": "x/y", "b": "/x/y", "c": "gs://x/y", "d": ""}
  entry = {"flags": flags, "directory": "/run"}
  paths = [checkpoint_files.path_of(entry, name) for name in "abcd"]
  assert paths == ["/run/x/y", "/x/y", "gs://x/y", ""]
  assert checkpoint_files.path_of({"flags": flags}, "a") == "x/y"


def test_a_corrupt_run_json_is_reported(tmp_path):
  (tmp_path / "run.json").write_text("[{")
  with pytest.raises(ValueError, match=r"run\.json is corrupt: restore it"):
    checkpoint_files.read_runs(str(tmp_path))


def _record(folder):
  record = run_folder.read_best(str(folder))
  return record["value"], record["step"], record["evaluated"]


def test_any_score_is_better_than_a_score_of_nan(tmp_path):
  best = run_folder.BestCheckpoint(str(tmp_path), "pearson", patience=9)
  model = toy.bag()
  for step, value in ((1, float("nan")), (2, -0.5), (3, float("nan"))):
    best.update(step, {"pearson": value}, model)
  assert _record(tmp_path) == (-0.5, 2, 3)
  saved = run_folder.Checkpoints(str(tmp_path / "best"))
  assert saved.load(model, None) == 2


def test_the_first_of_equally_good_models_is_the_best(tmp_path, monkeypatch):
  shared.touch_checkpoint(tmp_path, "model.ckpt-6")
  model = toy.bag()
  best = run_folder.BestCheckpoint(str(tmp_path), "f1", patience=2)
  assert (best.evaluated, best.is_final) == (0, False)
  for step, is_final in ((7, False), (8, False), (9, True)):
    best.update(step, {"f1": 0.5}, model)
    again = run_folder.BestCheckpoint(str(tmp_path), "f1", patience=2)
    assert best.is_final == again.is_final == is_final
    assert again.evaluated == step
  assert not run_folder.BestCheckpoint(str(tmp_path), "f1").is_final
  with monkeypatch.context() as patch:
    patch.setattr(run_folder.checkpoint, "write", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
      best.update(10, {"f1": 0.6}, model)
  assert _record(tmp_path) == (0.5, 7, 9)
  [path] = (tmp_path / "best").glob("*.index")
  assert path.name == "model.ckpt-7.index"


def test_only_the_chief_writes_the_best_checkpoint(tmp_path, monkeypatch):
  best = run_folder.BestCheckpoint(str(tmp_path), "f1", patience=2)
  for step, worker in ((1, 1), (2, 0)):  # worker 0 is the chief
    toy.set_worker(monkeypatch, worker)
    best.update(step, {"f1": 0.1 * step}, toy.bag())
    assert best.evaluated == step
    names = {path.name for path in tmp_path.glob("best/*")}
    chief_wrote = {"best.json", "model.ckpt-2.index"} <= names
    assert chief_wrote if worker == 0 else not names
