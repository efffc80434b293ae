"""Keras' JAX backend gives the numbers that TensorFlow gives.

In a process of its own, as Keras chooses its backend when imported.
"""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from tests import programs
from tests.modeling import every_model
from tests.training import toy
from training import checkpoint
from training import step as steps
from training.optimization import WarmupLinearDecay

ROOT = Path(__file__).parents[2]
STEPS, BATCH = 6, 8
# No output depends on it; its gradient is rounding error.
WITHOUT_EFFECT = "attention/self/key/bias"

# As if TensorFlow were not installed.
_PROGRAM = """
import pathlib, sys
sys.modules["tensorflow"] = None
from tests.modeling import on_jax
on_jax.write_results(pathlib.Path(sys.argv[1]))
"""

pytestmark = pytest.mark.skipif(
  importlib.util.find_spec("jax") is None,
  reason="JAX is not installed: see requirements-bench.txt",
)


def _fresh():
  train_step = toy.train_step()
  train_step.learning_rate = WarmupLinearDecay(0.01, 100, 4)
  return train_step


@pytest.fixture(scope="module", name="results")
def _results(tmp_path_factory):
  """The folder of results, and models by name."""
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
  done = programs.python(["-c", _PROGRAM, str(folder)])
  assert done.returncode == 0, done.stderr
  return folder, made


@pytest.fixture(scope="module", name="trained")
def _trained(results):
  """Reports of TensorFlow's steps, and the step."""
  folder, _ = results
  train_step = _fresh()
  with np.load(folder / "start.npz") as start:
    count = len(start.files)
    train_step.model.set_weights([start[f"arr_{n}"] for n in range(count)])
  iterator, reports = iter(toy.batches(STEPS, BATCH)), {}
  for _ in range(STEPS):
    means = steps.means(train_step.train(iterator, tf.constant(1)))
    for name, mean in means.items():
      reports.setdefault(f"step/{name}", []).append(mean)
  return reports, train_step


@pytest.mark.parametrize("name", every_model.MODELS)
def test_every_model_has_the_same_outputs(results, name):
  folder, made = results
  expected = every_model.outputs(made[name])
  with np.load(folder / f"{name} on jax.npz") as result:
    assert set(result.files) == set(expected)
    for output, values in expected.items():
      np.testing.assert_allclose(
        result[output], values, atol=1e-5, err_msg=output
      )


def test_training_steps_are_the_same(results, trained):
  reports, train_step = trained
  with np.load(results[0] / "float32.npz") as result:
    for name, values in reports.items():
      np.testing.assert_allclose(
        result[name], values, rtol=1e-4, atol=1e-5, err_msg=name
      )
    for name, variable in checkpoint.trainable_variables(train_step.model):
      if not name.endswith(toy.WITHOUT_EFFECT):
        np.testing.assert_allclose(
          result[name], variable, atol=1e-4, err_msg=name
        )


def test_bfloat16_is_close(results, trained):
  reports, _ = trained
  with np.load(results[0] / "mixed_bfloat16.npz") as result:
    losses = result["step/loss"]
    assert np.isfinite(losses).all()
    np.testing.assert_allclose(losses, reports["step/loss"], rtol=0.02)
    assert not np.array_equal(losses, np.float32(reports["step/loss"]))
