"""Keras' JAX backend gives the numbers that TensorFlow gives.

In a process of its own: what backend Keras has is settled when it is imported.
"""

import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from tests.modeling import every_model
from tests.training import toy
from training import checkpoint
from training import step as steps
from training.optimization import LinearSchedule

ROOT = Path(__file__).parents[2]
STEPS, BATCH = 6, 8
# No output depends on it: its gradient is nothing but rounding.
WITHOUT_EFFECT = "attention/self/key/bias"

# As where TensorFlow is not installed.
_ANSWER = """
import pathlib, sys
sys.modules["tensorflow"] = None
from tests.modeling import on_jax
on_jax.answer(pathlib.Path(sys.argv[1]))
"""

pytestmark = pytest.mark.skipif(
  importlib.util.find_spec("jax") is None,
  reason="JAX is not installed: see requirements-bench.txt",
)


def _fresh():
  train_step = toy.train_step()
  train_step.schedule = LinearSchedule(0.01, 100, 4)
  return train_step


@pytest.fixture(scope="module", name="given")
def _given(tmp_path_factory):
  """The folder that has been answered to; and models by name."""
  folder = tmp_path_factory.mktemp("on jax")
  made = {name: make() for name, make in every_model.MODELS.items()}
  for name, model in made.items():
    np.savez(folder / f"{name}.npz", *model.get_weights())
  toy.config().to_json(str(folder / "bert_config.json"))
  np.savez(folder / "start.npz", *_fresh().model.get_weights())
  batches = {
    name: values.reshape(STEPS, BATCH, *values.shape[1:])
    for name, values in toy.examples(STEPS * BATCH).items()
  }
  np.savez(folder / "batches.npz", **batches)
  done = subprocess.run(
    [sys.executable, "-c", _ANSWER, str(folder)],
    cwd=ROOT,
    capture_output=True,
    text=True,
    check=False,
  )
  assert done.returncode == 0, done.stderr
  return folder, made


@pytest.fixture(scope="module", name="trained")
def _trained(given):
  """What TensorFlow's steps report, and the step."""
  folder, _ = given
  train_step = _fresh()
  with np.load(folder / "start.npz") as start:
    count = len(start.files)
    train_step.model.set_weights([start[f"arr_{n}"] for n in range(count)])
  iterator, told = iter(toy.batches(STEPS, BATCH)), {}
  for _ in range(STEPS):
    means = steps.means(train_step.run(iterator, tf.constant(1)))
    for name, mean in means.items():
      told.setdefault(f"told/{name}", []).append(mean)
  return told, train_step


@pytest.mark.parametrize("name", every_model.MODELS)
def test_every_model_has_the_same_outputs(given, name):
  folder, made = given
  expected = every_model.outputs(made[name])
  with np.load(folder / f"{name} on jax.npz") as found:
    assert set(found.files) == set(expected)
    for output, values in expected.items():
      np.testing.assert_allclose(
        found[output], values, atol=1e-5, err_msg=output
      )


def test_training_steps_are_the_same(given, trained):
  told, train_step = trained
  with np.load(given[0] / "float32.npz") as found:
    for name, values in told.items():
      np.testing.assert_allclose(
        found[name], values, rtol=1e-4, atol=1e-5, err_msg=name
      )
    for name, variable in checkpoint.trained(train_step.model):
      if not name.endswith(WITHOUT_EFFECT):
        np.testing.assert_allclose(
          found[name], variable, atol=1e-4, err_msg=name
        )


def test_bfloat16_is_close(given, trained):
  told, _ = trained
  with np.load(given[0] / "mixed_bfloat16.npz") as found:
    losses = found["told/loss"]
    assert np.isfinite(losses).all()
    np.testing.assert_allclose(losses, told["told/loss"], rtol=0.02)
    assert not np.array_equal(losses, np.float32(told["told/loss"]))
