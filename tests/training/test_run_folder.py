"""A run's folder: seeds, checkpoints, run.json; starts from another model."""

import itertools
import math
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from modeling import models
from storage import UserError
from tests import shared
from tests.training import toy
from training import checkpoint, checkpoint_files, run_folder
from training.run_folder import Checkpoints


@pytest.fixture(name="folder")
def _folder(tmp_path):
  """An output folder with a checkpoint and the best checkpoint."""
  shared.touch_checkpoint(tmp_path, "model.ckpt-2")
  shared.touch_checkpoint(tmp_path / "best", "model.ckpt-1")
  return tmp_path


def test_the_best_checkpoint_has_the_flags_of_its_run(folder):
  def attention(path):
    return checkpoint_files.run_of(str(folder / path))["flags"].get("attention")

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
  record = checkpoint_files.read_best(str(folder))
  return record["value"], record["step"], record["evaluated"]


def test_any_score_is_better_than_a_score_of_nan(tmp_path):
  best = run_folder.BestCheckpoint(str(tmp_path), "pearson", patience=9)
  model = toy.bag()
  for step, value in ((1, float("nan")), (2, -0.5), (3, float("nan"))):
    best.update(step, {"pearson": value}, model)
  assert _record(tmp_path) == (-0.5, 2, 3)
  assert Checkpoints(str(tmp_path / "best")).load(model, None) == 2


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


def test_another_dev_set_begins_another_choice_of_the_best(tmp_path, caplog):
  shared.touch_checkpoint(tmp_path, "model.ckpt-6")
  for mark, step, value in (("", 7, 0.9), ("a", 8, 0.5), ("a", 9, 0.4)):
    best = run_folder.BestCheckpoint(str(tmp_path), "f1", mark=mark)
    assert not best.is_outdated or _record(tmp_path) == (-math.inf, 7, 7)
    best.update(step, {"f1": value}, toy.bag())
  assert _record(tmp_path) == (0.5, 8, 9)
  assert caplog.text.count("best was chosen by other dev examples") == 1


def test_only_the_chief_writes_the_best_checkpoint(tmp_path, monkeypatch):
  best = run_folder.BestCheckpoint(str(tmp_path), "f1", patience=2)
  for step, worker in ((1, 1), (2, 0)):  # worker 0 is the chief
    toy.set_worker(monkeypatch, worker)
    best.update(step, {"f1": 0.1 * step}, toy.bag())
    assert best.evaluated == step
    names = {path.name for path in tmp_path.glob("best/*")}
    chief_wrote = {"best.json", "model.ckpt-2.index"} <= names
    assert chief_wrote if worker == 0 else not names


@pytest.mark.parametrize("saved", [None, 0, 5])
@pytest.mark.parametrize("given", [None, 0, 5, 7])
@pytest.mark.parametrize("has_others", [False, True])
def test_the_saved_seed_overrides_the_flag_seed(
  tmp_path, monkeypatch, caplog, saved, given, has_others
):
  if saved is not None:
    values = {"run/seed": tf.constant(saved, tf.int64)}
    Checkpoints(str(tmp_path)).save(1, values)
  if has_others:
    toy.set_worker(monkeypatch, 0)
  checkpoints = Checkpoints(str(tmp_path))
  if saved is given is None and has_others:
    with pytest.raises(ValueError, match="several workers need the same seed"):
      checkpoints.restore_or_set_seed(given)
    return
  seeds = {checkpoints.restore_or_set_seed(given) for _ in range(3)}
  if saved is given is None:
    assert len(seeds) == 3  # each call draws another seed
  else:
    assert seeds == {given if saved is None else saved}
  is_ignored = None not in (given, saved) and given != saved
  assert (f"seed={given} has no effect" in caplog.text) == is_ignored


def _save(folder, value, averages=False):
  """Writes a checkpoint of one variable, whose moving average is 10 * value."""
  values = {"x": value} | (
    {"x" + checkpoint.AVERAGE: 10 * value} if averages else {}
  )
  return Checkpoints(str(folder)).save(3, values | {"global_step": 3})


@pytest.mark.parametrize("averages", [False, True])
@pytest.mark.parametrize("is_trained", [False, True])
@pytest.mark.parametrize("has_given", [False, True])
def test_the_checkpoint_of_the_folder_is_preferred_to_init_checkpoint(
  tmp_path, averages, is_trained, has_given
):
  given = _save(tmp_path / "given", 2.0, averages) if has_given else None
  if is_trained:
    _save(tmp_path / "out", 1.0, averages)
  variable = SimpleNamespace(path="x", value=tf.Variable(0.0))
  model = SimpleNamespace(weights=[variable], non_trainable_variables=[])
  checkpoints = Checkpoints(str(tmp_path / "out"))
  if not (is_trained or has_given):
    with pytest.raises(ValueError, match="train first, or name one"):
      checkpoints.load(model, given)
    return
  assert checkpoints.load(model, given) == 3
  value = 1.0 if is_trained else 2.0
  assert float(variable.value) == value * (10 if averages else 1)


@pytest.mark.parametrize(
  ("best", "newest", "prefers"), [*itertools.product([False, True], repeat=3)]
)
@pytest.mark.parametrize(
  ("entries", "keeps"),
  [
    ([], False),
    ([{"keep_best": True}], True),
    ([{"keep_best": True}, {"keep_best": False}], False),
    ([{"keep_best": False, "early_stopping_patience": 3}], True),
  ],
)
def test_the_best_or_newest_checkpoint_of_a_folder_is_chosen(
  tmp_path, best, newest, prefers, entries, keeps
):
  prefixes = [
    shared.touch_checkpoint(folder, name)
    for folder, name, exists in (
      (tmp_path, "newest", newest),
      (tmp_path / "best", "best", best),
    )
    if exists
  ]
  for flags in entries:
    checkpoint_files.append_run(str(tmp_path), {"flags": flags})
  order = reversed(prefixes) if prefers or keeps else iter(prefixes)
  chosen = checkpoint_files.choose_checkpoint(str(tmp_path), prefers)
  assert chosen == next(order, None)


def test_listed_checkpoints_without_files_are_ignored(tmp_path):
  names = "a", "/before/the/move/b", "c"
  lines = [f'all_model_checkpoint_paths: "{name}"\n' for name in names]
  lines.insert(0, 'model_checkpoint_path: "c"\n')
  (tmp_path / "checkpoint").write_text("".join(lines))
  assert checkpoint_files.all_checkpoints(str(tmp_path)) == []
  for names in ("b", "ab"):
    (tmp_path / f"{names[0]}.index").touch()
    expected = [str(tmp_path / name) for name in names]
    assert checkpoint_files.all_checkpoints(str(tmp_path)) == expected


def test_the_variables_of_a_checkpoint_tell_which_models_it_fits(tmp_path):
  assert checkpoint_files.kinds_at(None) == []
  prefix = _save(tmp_path, 1.0)
  assert checkpoint_files.kinds_at(prefix) == ["encoder"]
  model = models.pretrainer(toy.config())
  checkpoint.write(prefix, checkpoint.variables(model))
  kinds = ["pretraining", "masked_lm", "encoder"]
  assert checkpoint_files.kinds_at(str(tmp_path)) == kinds


# --- A training that begins with another model's encoder and head -------------


def _save_model(folder, model):
  return Checkpoints(str(folder)).save(1, checkpoint.variables(model))


@pytest.fixture(name="start")
def _start(tmp_path):
  """Returns a four-label classifier's values and checkpoint."""
  model = models.classifier(toy.config(), 4)
  model.set_weights([value + 0.5 for value in model.get_weights()])
  return toy.values(checkpoint.variables(model)), _save_model(tmp_path, model)


def _restored(model, values):
  """Returns the names of variables with the checkpoint's values."""
  return {
    variable.path
    for variable in model.variables
    if np.array_equal(variable, values.get(variable.path))
  }


HEAD = {"output_weights", "output_bias"}


def test_a_head_for_another_number_of_labels_is_not_restored(start, caplog):
  values, prefix = start
  model = models.classifier(toy.config(), 5)
  assert set(checkpoint.initialize(model, prefix)) == HEAD
  assert _restored(model, values) == values.keys() - HEAD
  text = f"the head is fresh, not restored from {prefix}"
  assert [record.getMessage() for record in caplog.records] == [text]


def test_a_head_with_as_many_labels_is_restored_unless_new_head(start, log):
  values, prefix = start
  for new_head, fresh in ((False, set()), (True, HEAD)):
    model = models.classifier(toy.config(), 4)
    assert set(checkpoint.initialize(model, prefix, new_head)) == fresh
    assert _restored(model, values) == values.keys() - fresh
  assert "new_head makes it fresh" in log.text


HEADS = {
  "cls/squad/output_weights cls/squad/output_bias": models.span_labeler,
  "cls/choice": models.multiple_choice,
  "tags/kernel tags/bias": partial(
    models.feature_based_tagger, num_tags=3, choice="last", units=4
  ),
}


@pytest.mark.parametrize(("head", "make"), HEADS.items())
def test_new_head_makes_the_head_of_every_task_fresh(tmp_path, head, make):
  prefix, model = _save_model(tmp_path, make(toy.config())), make(toy.config())
  fresh = checkpoint.initialize(model, prefix, new_head=True)
  assert set(fresh) == set(head.split())
  assert not checkpoint.initialize(model, prefix)


def test_only_training_makes_a_head_fresh(start, tmp_path):
  _, prefix = start
  model = models.classifier(toy.config(), 5)
  message = rf"output_weights has shape \[4, 8\] in .*{prefix} but \[5, 8\] in"
  with pytest.raises(ValueError, match=message):
    Checkpoints(str(tmp_path / "new")).load(model, prefix)
  with pytest.raises(ValueError, match="name another output_dir, and"):
    Checkpoints(str(tmp_path)).load(model, None)


def test_workers_with_other_values_are_told_which(monkeypatch):
  strategy = SimpleNamespace(num_replicas_in_sync=2)
  monkeypatch.setattr(tf.distribute, "get_strategy", lambda: strategy)
  values, sent = {"--seed": 1, "--eval_steps": 5, "x": (True, 7)}, []
  add = lambda _, own: sent.append(own) or own + sent[0]  # noqa: E731
  monkeypatch.setattr(run_folder, "sum_over_replicas", add)
  run_folder.check_workers(values)  # what the first worker has
  message = (
    r"the workers differ in --seed, x: .* the same output_dir, on a disk"
  )
  with pytest.raises(UserError, match=message):
    run_folder.check_workers(values | {"--seed": 2, "x": (True, 8)})
