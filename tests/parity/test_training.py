"""Losses, gradient norms and variables of each step equal the original's."""

import json
from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf

from modeling import heads, losses, models, tracing
from modeling.config import BertConfig
from tests.parity import golden_files
from training import checkpoint
from training.optimization import AdamWeightDecay, WarmupLinearDecay
from training.run_folder import Checkpoints
from training.step import TrainStep

UNCLIPPED = "unclipped_start/bert_model.ckpt"
# Runs: number of steps and of warm-up steps, first checkpoint, batches.
RUNS = {
  "pretraining": (20, 5, "bert_model.ckpt", "pretraining"),
  "pretraining_one_hot": (20, 5, "bert_model.ckpt", "pretraining"),
  "pretraining_no_warmup": (5, 0, "bert_model.ckpt", "pretraining"),
  "pretraining_unclipped": (6, 0, UNCLIPPED, "pretraining_unclipped"),
  "classifier": (10, 2, "bert_model.ckpt", "classifier"),
  "squad": (10, 2, "bert_model.ckpt", "squad"),
}
pytestmark = pytest.mark.usefixtures("fused")
CASES = [
  path
  for run in RUNS
  for path in golden_files.larger_cases(f"training/{run}.json")
]


def _model(name, folder):
  config = BertConfig.from_json(str(folder / "bert_config.json"))
  if name.startswith("pretraining"):
    one_hot = name.endswith("one_hot")
    config = replace(config, use_one_hot_embeddings=one_hot)
    return models.pretrainer(config), losses.pretraining()
  if name == "classifier":
    return models.classifier(config, 3), losses.classification()
  return models.span_labeler(config), losses.span()


def _train_step(model, objective, steps, warmup):
  trained = {v.path: v.value for v in model.trainable_variables}
  return TrainStep(
    model,
    objective,
    AdamWeightDecay(trained),
    WarmupLinearDecay(1e-3, steps, warmup),
    batch_size=4,
  )


# Quick tests run the plain operations only once for each kind of model.
FORMS = [
  pytest.param(
    path,
    form,
    marks=pytest.mark.slow if form == "plain" and "_" in path.stem else (),
    id=f"{golden_files.name(path)}-{form}",
  )
  for path in CASES
  for form in ("fused", "plain")
]


@pytest.mark.parametrize(("path", "form"), FORMS)
def test_a_training_gives_the_numbers_of_the_original(path, form, monkeypatch):
  with tracing.mode(fused=form == "fused"):
    _check_training(path, monkeypatch)


def _check_training(path, monkeypatch):
  # The golden classifier ran without its hard-coded dropout.
  monkeypatch.setattr(heads.ClassificationHead, "DROPOUT", 0.0)
  name, folder = path.stem, path.parent
  steps, warmup, start, batches = RUNS[name]
  golden = json.loads(path.read_text())["steps"]
  model, objective = _model(name, folder)
  checkpoint.restore(model, str(folder / start))
  first = folder / f"{name}.step0.npz"
  if first.exists():
    arrays = np.load(first)
    for variable_name, variable in checkpoint.variables(model).items():
      variable.assign(arrays[variable_name])
  train_step = _train_step(model, objective, steps, warmup)
  arrays = np.load(folder / f"{batches}.batches.npz")
  batches = tf.data.Dataset.from_tensor_slices(
    {key: arrays[key].astype(_type(arrays[key])) for key in arrays}
  )
  iterator = iter(batches)
  tight = 2e-6 if "pretraining" in name else 5e-5
  for number, expected in enumerate(golden):
    rate = float(train_step.learning_rate(train_step.step))
    assert rate == pytest.approx(expected["learning_rate"], abs=1e-9)
    sums = train_step.train(iterator, 1)
    for mine in sums.keys() & {"loss", "gradient_norm", "next_sentence_loss"}:
      theirs = mine.replace("gradient", "global")
      if theirs in expected:
        total, weight = sums[mine].numpy()
        assert total / weight == pytest.approx(expected[theirs], abs=1e-5)
    after = folder / f"{name}.step{number + 1}.npz"
    if after.exists():
      _compare(train_step.state, np.load(after), tight)
  if name == "pretraining":  # the original's last checkpoint
    end = checkpoint.open_reader(str(folder / "pretraining_output"))
    _compare(train_step.state, {key: end[key] for key in end.shapes}, tight)


def _type(array):
  return np.float32 if array.dtype.kind == "f" else np.int32


def _originals(state):
  return {name for name in state if not name.startswith("run/")}


def _compare(state, expected, tight):
  assert _originals(state) == set(expected)
  for name in expected:
    kind = name.rsplit("/", 1)[-1]
    bound = {"adam_m": 1e-6, "adam_v": 1e-8}.get(kind, tight)
    result = tf.convert_to_tensor(state[name])
    np.testing.assert_allclose(result, expected[name], 0, bound, err_msg=name)


@golden_files.each("training/pretraining_output")
def test_a_run_resumes_from_the_original_checkpoint(path, tmp_path):
  folder = path.parent
  model, objective = _model("pretraining", folder)
  train_step = _train_step(model, objective, 20, 5)
  reader = checkpoint.open_reader(str(path))
  assert _originals(train_step.state) == set(reader.shapes)
  train_step.step.assign(0)
  Checkpoints(str(path)).resume(train_step, None)
  assert int(train_step.examples) == 80  # 20 steps of 4
  assert int(train_step.step) == 20
  prefix = Checkpoints(str(tmp_path)).save(20, train_step.state)
  saved = tf.train.load_checkpoint(prefix)
  shapes = saved.get_variable_to_shape_map()
  types = saved.get_variable_to_dtype_map()
  for name, shape in reader.shapes.items():
    assert shapes[name] == shape
    assert types[name] == (tf.int64 if name == "global_step" else tf.float32)
  # A new checkpoint adds only the number of examples and the seed.
  assert set(shapes) - set(reader.shapes) == {"run/examples", "run/seed"}
