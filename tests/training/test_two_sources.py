"""Seeds and checkpoints that the run's folder or the command line may give."""

import itertools

import pytest
import tensorflow as tf

from modeling import models
from tests.training import toy
from training import checkpoint, checkpoint_files, run_json
from training.run_folder import Checkpoints


@pytest.mark.parametrize("saved", [None, 0, 5])
@pytest.mark.parametrize("given", [None, 0, 5, 7])
@pytest.mark.parametrize("has_others", [False, True])
def test_the_saved_seed_overrides_the_flag(
  tmp_path, monkeypatch, caplog, saved, given, has_others
):
  if saved is not None:
    values = {"run/seed": tf.constant(saved, tf.int64)}
    Checkpoints(str(tmp_path)).save(1, values)
  if has_others:
    toy.set_worker(monkeypatch, 0)
  checkpoints = Checkpoints(str(tmp_path))
  if saved is given is None and has_others:
    with pytest.raises(ValueError, match="several workers need a seed"):
      checkpoints.restore_or_set_seed(given)
    return
  seeds = {checkpoints.restore_or_set_seed(given) for _ in range(3)}
  if saved is given is None:
    assert len(seeds) == 3  # each call draws another seed
  else:
    assert seeds == {given if saved is None else saved}
  is_ignored = saved is not None and given not in (None, saved)
  assert ("has no effect" in caplog.text) == is_ignored


def _save(folder, value, averages=False, name="model.ckpt-3"):
  """Writes a checkpoint of one variable, whose moving average is 10 * value."""
  values = {"x": tf.constant(value)}
  if averages:
    values["x" + checkpoint.AVERAGE] = tf.constant(10 * value)
  values["global_step"] = tf.constant(3, tf.int64)
  prefix = str(folder / name)
  checkpoint.write(prefix, values)
  return prefix


class _Model:
  def __init__(self):
    value = tf.Variable(0.0)
    value.path = "x"
    self.weights = [type("V", (), {"path": "x", "value": value})]
    self.non_trainable_variables = []
    self.value = value


@pytest.mark.parametrize("averages", [False, True])
@pytest.mark.parametrize("has_own", [False, True])
@pytest.mark.parametrize("has_given", [False, True])
def test_the_folders_checkpoint_is_preferred_to_init_checkpoint(
  tmp_path, averages, has_own, has_given
):
  given = _save(tmp_path / "given", 2.0, averages) if has_given else None
  if has_own:
    _save(tmp_path / "own", 1.0, averages)
    text = 'model_checkpoint_path: "model.ckpt-3"\n'
    (tmp_path / "own/checkpoint").write_text(text)
  model, checkpoints = _Model(), Checkpoints(str(tmp_path / "own"))
  if not (has_own or has_given):
    with pytest.raises(ValueError, match="train first, or name one"):
      checkpoints.load(model, given)
    return
  assert checkpoints.load(model, given) == 3
  value = 1.0 if has_own else 2.0
  assert float(model.value) == value * (10 if averages else 1)


@pytest.mark.parametrize(
  ("best", "newest", "prefers"), [*itertools.product([False, True], repeat=3)]
)
@pytest.mark.parametrize(
  ("entries", "keeps"),
  [
    ([], False),
    ([{"keep_best": True}], True),
    ([{"keep_best": False}], False),
    ([{"keep_best": True}, {"keep_best": False}], False),
    ([{"keep_best": False}, {"keep_best": True}], True),
    ([{"early_stopping_patience": 3}], True),  # from an older version
    ([{"early_stopping_patience": None}], False),
  ],
)
def test_the_best_or_newest_checkpoint_of_a_folder_is_chosen(
  tmp_path, best, newest, prefers, entries, keeps
):
  folders = {"best": tmp_path / "best", "newest": tmp_path}
  folders["best"].mkdir()
  existing = {"best": best, "newest": newest}
  for name in filter(existing.get, folders):
    (folders[name] / f"{name}.index").touch()
    text = f'model_checkpoint_path: "{name}"\n'
    (folders[name] / "checkpoint").write_text(text)
  for flags in entries:
    run_json.append(str(tmp_path), {"flags": flags})
  order = ("best", "newest") if prefers or keeps else ("newest", "best")
  name = next(filter(existing.get, order), None)
  expected = name and str(folders[name] / name)
  assert checkpoint_files.choose_checkpoint(str(tmp_path), prefers) == expected


def test_listed_checkpoints_without_files_are_ignored(tmp_path):
  lines = [
    'model_checkpoint_path: "c"',
    *(f'all_model_checkpoint_paths: "{name}"' for name in "abc"),
  ]
  (tmp_path / "checkpoint").write_text("\n".join(lines))
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
