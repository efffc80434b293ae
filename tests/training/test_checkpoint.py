"""Checkpoints: writing, reading, log lines and errors."""

import os
import re
from contextlib import nullcontext
from dataclasses import replace

import keras
import numpy as np
import pytest
import tensorflow as tf

from cli import program
from modeling import models
from storage import files
from tests import programs
from tests.training import toy
from training import checkpoint, checkpoint_files, run_folder
from training.run_folder import Checkpoints
from training.step import LossScale


def _saved(tmp_path, step=3, **values):
  values = values or {"a": tf.Variable([1.0, 2.0])}
  return Checkpoints(str(tmp_path)).save(step, values)


@pytest.mark.parametrize(
  ("keep", "saved", "left"),
  [
    # "model.ckpt-1" is a prefix of "model.ckpt-10". Step 10 is saved twice.
    (2, (0, 1, 9, 10, 10), (9, 10)),
    (5, (0, 10, 20), (0, 10, 20)),
    (1, (0, 10, 20), (20,)),
    (0, (0, 10, 20), (0, 10, 20)),
  ],
)
def test_only_new_checkpoints_stay_and_are_listed(tmp_path, keep, saved, left):
  # The name "a[1]" is a glob pattern that matches "a1".
  folder, other = tmp_path / "a[1]", tmp_path / "a1"
  _saved(other, step=10)
  checkpoints = Checkpoints(str(folder), keep)
  for step in saved:
    prefix = checkpoints.save(step, {"global_step": tf.Variable(step)})
    assert prefix == f"{folder}/model.ckpt-{step}"
    assert checkpoints.newest_readable() == prefix
  names = [f"model.ckpt-{step}" for step in left]
  suffixes = ".index", ".data-00000-of-00001"
  expected = {name + suffix for name in names for suffix in suffixes}
  assert {path.name for path in folder.iterdir()} == {"checkpoint", *expected}
  assert (other / "model.ckpt-10.index").exists()
  state = tf.train.get_checkpoint_state(str(folder))
  assert [*map(os.path.basename, state.all_model_checkpoint_paths)] == names


def test_find_checkpoint_accepts_the_name_of_any_file_of_a_checkpoint(tmp_path):
  prefix = _saved(tmp_path)
  for suffix in ("", ".index", ".data-00000-of-00001", ".meta"):
    assert checkpoint_files.find_checkpoint(prefix + suffix) == prefix
  assert checkpoint_files.find_checkpoint(str(tmp_path)) == prefix
  with pytest.raises(FileNotFoundError, match=r"no file .*none\.index"):
    checkpoint_files.find_checkpoint(str(tmp_path / "none"))


@pytest.mark.parametrize("name", ["a.ckpt", "a, b.ckpt"])
def test_a_checkpoint_named_without_a_folder_is_in_the_current_folder(
  tmp_path, monkeypatch, name
):
  monkeypatch.chdir(tmp_path)
  checkpoint.write(name, {"a": tf.Variable([1.0, 2.0])})
  assert checkpoint.open_reader(name)["a"].tolist() == [1.0, 2.0]
  names = [f"{name}.data-00000-of-00001", f"{name}.index"]
  assert sorted(checkpoint.files_of(name)) == names


def test_two_encoders_are_read_without_slots_and_heads(tmp_path):
  values = {name: np.ones(3) for name in ("bert/a", "bert/a/LAMB_1", "cls/b")}
  paths = ",".join(_saved(tmp_path / name, **values) for name in "12")
  reader = checkpoint.open_reader(paths)
  assert reader.prefix == paths
  assert set(reader.shapes) == {"bert/left_to_right/a", "bert/right_to_left/a"}


def test_a_folder_stands_for_its_newest_or_best_or_only_checkpoint(tmp_path):
  """Released models have no file `checkpoint`."""
  folder = str(tmp_path)
  find = checkpoint_files.find_checkpoint
  first, second = f"{folder}/bert_model.ckpt", f"{folder}/model.ckpt-7"
  for name, content in (
    (".a.tfrecord.index", "nothing"),  # a hidden file
    ("notes.txt", r"notes\.txt"),
  ):
    (tmp_path / name).touch()
    message = f"no checkpoint in the folder .* it has {content}; expected f"
    with pytest.raises(FileNotFoundError, match=message):
      find(folder)
  values = {"a": tf.Variable([1.0, 2.0])}
  checkpoint.write(first, values)
  assert find(folder) == first
  checkpoint.write(second, values)
  with pytest.raises(ValueError, match=r"\(bert_model\.ckpt, model\.ckpt-7\)"):
    find(folder)
  assert _saved(tmp_path / "best") == find(folder)
  (tmp_path / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-7"')
  assert find(folder) == second


@pytest.mark.parametrize("kind", ["tagger", "classifier"])
def test_a_pooler_is_required_only_if_the_model_reads_it(kind, tmp_path, log):
  """Converted taggers have no pooler."""
  model = getattr(models, kind)(toy.config(), 2)
  values = checkpoint.variables(model)
  saved = {name: v for name, v in values.items() if "/pooler/" not in name}
  _saved(tmp_path, **saved)
  is_read = kind == "classifier"
  refused = pytest.raises(ValueError, match="has no bert/pooler/dense")
  with refused if is_read else nullcontext():
    Checkpoints(str(tmp_path / "none")).load(model, str(tmp_path))
  checkpoint.restore_strict(model, str(tmp_path))
  number = len(values if is_read else saved)
  assert f"restored {len(saved)} of {number} variables" in log.text


BETA = "bert/embeddings/LayerNorm/beta"
WORDS = "embeddings/word_embeddings, .*docs/checkpoints"


@pytest.mark.parametrize(
  ("old", "new", "message"),
  [
    (BETA, "x", f"3 has no {BETA}, but bert"),
    ("bert/", "model/bert/", f", but model/bert/{WORDS}"),
    (".+", "a", r"has no bert/embed.*, but a, \.\.\.: name"),
  ],
)
def test_an_encoder_with_missing_variables_is_refused_with_a_remedy(
  tmp_path, old, new, message
):
  model = models.pretrainer(toy.config())
  values = checkpoint.variables(model)
  prefix = _saved(tmp_path, **{re.sub(old, new, k): values[k] for k in values})
  for restore in (checkpoint.initialize, checkpoint.restore_strict):
    with pytest.raises(ValueError, match=message):
      restore(model, prefix)


def test_the_code_in_docs_checkpoints_md_renames_a_scope(tmp_path):
  model = models.classifier(toy.config(), 2)
  values = checkpoint.variables(model)
  inside = {f"model/{name}": value for name, value in values.items()}
  slots = {f"{k}/Adam": v for k, v in inside.items()}
  old = _saved(tmp_path, **inside, **slots)
  page = (programs.ROOT / "docs/checkpoints.md").read_text(encoding="utf-8")
  [code] = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
  new = str(tmp_path / "new/model.ckpt")
  changes = {"old/model.ckpt-100": old, "renamed/bert_model.ckpt": new}
  for before, after in changes.items():
    assert before in code
    code = code.replace(before, after)
  exec(code, {})
  assert checkpoint.Reader(new).shapes.keys() == values.keys()
  assert not checkpoint.restore(model, new)


def test_an_initial_checkpoint_may_lack_heads_pooler_and_lstm(tmp_path):
  values = checkpoint.variables(models.encoder(toy.config()))
  bare = {k: v for k, v in values.items() if "/pooler/" not in k}
  config = replace(toy.config(), add_bilstm=True)
  prefix = _saved(tmp_path, **bare)
  fresh = checkpoint.initialize(models.classifier(config, 2), prefix)
  parts = {name.removeprefix("bert/").split("/")[0] for name in fresh}
  assert parts == {"bilstm", "pooler", "output_weights", "output_bias"}


# --- Variables other than weights --------------------------------------------

WEIGHTS = {
  "bert/embeddings/word_embeddings": (7, 4),
  "bert/encoder/layer_0/output/LayerNorm/beta": (4,),
  "bert/pooler/dense/kernel": (4, 4),
  "bert/pooler/dense/bias": (4,),  # no slot of the larger "dense" in OTHERS
  "cls/predictions/output_bias": (7,),
  "cls/seq_relationship/output_weights": (2, 4),
  "output_weights": (3, 4),
  "output_bias": (3,),
}
# Heads from other projects. Some names contain words of optimizers or counters.
OTHERS = {
  "crf/transitions": (3, 3),
  "dense": (4, 2),
  "project/dense/kernel": (4, 4),
  "temperature": (),
  "logit_scale": (),
  "time_steps": (7, 4),
}
SLOTS = """
AdamWeightDecayOptimizer AdamWeightDecayOptimizer_1 LAMB LAMB_1 LAMBOptimizer
adam_m adam_v lamb_m lamb_v Adam Adam_1 Momentum ExponentialMovingAverage
""".split()
COUNTERS = """
global_step beta1_power beta2_power beta1_power_1 train/beta2_power loss_scale
current_loss_scale good_steps bad_steps_1 loss_scale/scale local_step
learning_rate run/seed
""".split()


def test_slots_and_counters_are_not_weights():
  state = dict.fromkeys(COUNTERS, ())
  for name, shape in WEIGHTS.items():
    state |= {f"{name}/{suffix}": shape for suffix in SLOTS}
  assert checkpoint.training_state(WEIGHTS | OTHERS | state) == set(state)


def test_object_based_checkpoints_are_refused(tmp_path):
  path = tf.train.Checkpoint(a=tf.Variable(1.0)).write(str(tmp_path / "x"))
  with pytest.raises(ValueError, match="object-based"):
    checkpoint.open_reader(path)


def test_the_log_names_restored_and_fresh_variables(tmp_path, log):
  values = checkpoint.variables(models.pretrainer(toy.config()))
  slot = {"bert/pooler/dense/bias/LAMB_1": values["bert/pooler/dense/bias"]}
  model = models.classifier(toy.config(), 2)
  fresh = checkpoint.restore(model, _saved(tmp_path, **values, **slot))
  assert sorted(fresh) == ["output_bias", "output_weights"]
  number = len(model.variables)
  assert f"restored {number - 2} of {number}" in log.text
  assert "fresh: output_weights, output_bias" in log.text
  assert "not used: cls/predictions/output_bias" in log.text
  assert "LAMB" not in log.text
  for name, value in checkpoint.variables(model).items():
    if name not in fresh:
      np.testing.assert_array_equal(value, values[name])


def test_a_resumed_run_restores_all_its_values(tmp_path):
  options = {"dropout": 0.1, "accumulation_steps": 2, "ema": 0.9}
  step, again = (
    toy.train_step(seed=seed, loss_scale=LossScale(4.0), **options)
    for seed in (7, 8)
  )
  step.train(iter(toy.batches(3)), tf.constant(3))
  checkpoints = Checkpoints(str(tmp_path))
  checkpoints.save(3, step.state)
  averages = [value.numpy() for value in step.average.averages]
  other = toy.train_step(seed=8)
  start = Checkpoints(str(tmp_path / "other")).save(9, other.state)
  # The newest checkpoint takes precedence over the command line.
  assert checkpoints.restore_or_set_seed(8) == 7
  checkpoints.resume(again, start)
  assert (int(again.step), int(again.examples)) == (3, 3 * 8)
  for _ in range(2):  # once when saved, once after two more steps
    toy.assert_same_state(again, step)
    for each in (step, again):
      each.train(iter(toy.batches(5).skip(3)), tf.constant(2))
  assert checkpoints.load(other.model, start) == 3
  for value, average in zip(other.variables, averages, strict=True):
    np.testing.assert_array_equal(value, average)


def test_moving_averages_begin_with_values_of_the_initial_checkpoint(tmp_path):
  first, step = toy.train_step(), toy.train_step(ema=0.9)
  prefix = _saved(tmp_path / "start", **first.state)
  Checkpoints(str(tmp_path)).resume(step, prefix)
  for average, value in zip(
    step.average.averages, first.variables, strict=True
  ):
    np.testing.assert_array_equal(average, value)


def test_a_run_resumes_without_a_saved_seed_and_averages(tmp_path, caplog):
  """The step gives the position in the data. Averages copy the weights."""
  step, again = toy.train_step(), toy.train_step(seed=8, ema=0.9)
  step.step.assign(3)
  state = {k: v for k, v in step.state.items() if not k.startswith("run/")}
  _saved(tmp_path, **state)
  checkpoints = Checkpoints(str(tmp_path))
  assert checkpoints.restore_or_set_seed(8) == 8
  checkpoints.resume(again, None)
  assert (int(again.examples), int(again.seed)) == (3 * 8, 8)
  np.testing.assert_array_equal(again.average.averages[0], step.variables[0])
  assert "model.ckpt-3 has no run/examples, run/seed, table/" in caplog.text


def test_a_checkpoint_of_another_model_is_refused(tmp_path):
  checkpoints = Checkpoints(str(tmp_path))
  _saved(tmp_path, **checkpoint.variables(models.classifier(toy.config(), 2)))
  with pytest.raises(ValueError, match="is of another model: it has no table/"):
    checkpoints.resume(toy.train_step(), None)
  with pytest.raises(ValueError, match="so it is another model, or"):
    checkpoints.load(models.pretrainer(toy.config()), None)


@pytest.mark.parametrize("moment", range(6))
def test_a_save_that_dies_leaves_a_checkpoint(tmp_path, monkeypatch, moment):
  checkpoints = Checkpoints(str(tmp_path), keep=1)
  checkpoints.save(1, {"a": 1.0})
  alive = iter([True] * moment)

  def mortal(function):
    def call(*args, **options):
      if not next(alive, False):
        raise KeyboardInterrupt
      return function(*args, **options)

    return call

  with monkeypatch.context() as patch:
    for name in ("rename", "remove"):
      patch.setattr(files, name, mortal(getattr(files, name)))
    # Five calls: rename data, index and list, remove the two old files.
    with nullcontext() if moment == 5 else pytest.raises(KeyboardInterrupt):
      checkpoints.save(2, {"a": 2.0})
  for path in tmp_path.glob("model*.index"):
    checkpoint.open_reader(str(path)).verify()
  newest = Checkpoints(str(tmp_path)).newest_readable()
  assert newest.endswith("ckpt-1" if moment < 3 else "ckpt-2")
  Checkpoints(str(tmp_path), keep=1).save(2, {"a": 2.0})
  assert checkpoint.open_reader(str(tmp_path))["a"] == 2.0


def _flip(content):
  flipped = bytearray(content)
  flipped[len(content) // 2] ^= 16
  return bytes(flipped)


@pytest.mark.parametrize(
  ("suffix", "spoil"),
  [
    (".data-00000-of-00001", _flip),
    (".data-00000-of-00001", lambda content: b"\0" * len(content)),
    (".index", _flip),
    (".index", lambda content: b"x" * len(content)),
  ],
)
def test_a_run_resumes_from_the_checkpoint_before_a_corrupt_one(
  tmp_path, log, suffix, spoil
):
  step, fresh = toy.train_step(), toy.train_step()
  for number in (1, 2, 3):
    _saved(tmp_path, number, **step.state)
  path = tmp_path / f"model.ckpt-3{suffix}"
  path.write_bytes(spoil(path.read_bytes()))
  Checkpoints(str(tmp_path)).resume(fresh, None)
  toy.assert_same_state(fresh, step)
  assert "model.ckpt-3 cannot be read" in log.text


def test_a_checkpoint_is_verified_only_once(tmp_path, monkeypatch):
  first, read = _saved(tmp_path, 1), []
  monkeypatch.setattr(
    checkpoint.Reader, "verify", lambda reader: read.append(reader.prefix)
  )
  checkpoints = Checkpoints(str(tmp_path))
  for _ in range(2):
    assert checkpoints.newest_readable() == first
  second = checkpoints.save(2, {"a": tf.Variable(1.0)})
  assert checkpoints.newest_readable() == second
  assert read == [first]


def test_a_folder_of_unreadable_checkpoints_is_refused(tmp_path):
  _saved(tmp_path)
  (tmp_path / "model.ckpt-3.data-00000-of-00001").write_bytes(b"")
  with pytest.raises(ValueError, match=r"no checkpoint in .* can be read"):
    Checkpoints(str(tmp_path)).newest_readable()


def test_equal_seeds_give_equal_random_numbers(tmp_path):
  checkpoints, drawn = Checkpoints(str(tmp_path)), []
  for seed in (5, 5, 6, checkpoints.restore_or_set_seed(None)):
    assert checkpoints.restore_or_set_seed(seed) == seed < 2**31
    drawn.append(float(keras.random.uniform(())))
  assert drawn[0] == drawn[1] != drawn[2]


def test_a_worker_loads_a_model_after_the_chief_wrote_it(tmp_path, monkeypatch):
  step = toy.train_step()
  step.step.assign(5)
  write = lambda: _saved(tmp_path, **step.state)  # noqa: E731
  monkeypatch.setattr(run_folder, "wait_for_chief", write)
  assert Checkpoints(str(tmp_path)).load(step.model, None) == 5


def test_the_error_of_a_full_disk_names_the_checkpoint(tmp_path, monkeypatch):
  def refuse(prefix, **_):
    (tmp_path / f"{prefix}.data-0.tempstate7").touch()
    message = f"{prefix}.data-0.tempstate7; No space left on device"
    raise tf.errors.ResourceExhaustedError(None, None, message)

  monkeypatch.setattr(tf.raw_ops, "SaveV2", refuse)
  prefix = str(tmp_path / "model.ckpt-0")
  with pytest.raises(OSError) as raised:
    checkpoint.write(prefix, {})
  line = program.message_of(raised.value)
  assert f"{tmp_path}/unfinished-model.ckpt-0.data" in line
  assert "No space left on device): free some space" in line
  assert not list(tmp_path.iterdir())
