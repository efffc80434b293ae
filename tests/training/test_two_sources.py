"""Seeds and checkpoints that the run's folder or the command line may give."""

import itertools
from types import SimpleNamespace

import pytest
import tensorflow as tf

from modeling import models
from tests import shared
from tests.training import toy
from training import checkpoint, checkpoint_files
from training.run_folder import Checkpoints


@pytest.mark.parametrize("saved", [None, 0, 5])
@pytest.mark.parametrize("given", [None, 0, 5, 7])
@pytest.mark.parametrize("has_others", [False, True])
def test_the_saved_seed_overrides_the_flag_seed(
  tmp_path, monkeypatch, saved, given, has_others
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
  lines = [f'all_model_checkpoint_paths: "{name}"\n' for name in "abc"]
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
