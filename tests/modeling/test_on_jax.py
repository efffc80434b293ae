"""Keras' JAX backend gives the same numbers as TensorFlow.

The JAX side is a child process, because Keras chooses the backend on import.
"""

import importlib.util

import numpy as np
import pytest

from tests import programs
from tests.modeling import every_model
from tests.training import toy

# Imitates a machine without TensorFlow.
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


@pytest.fixture(scope="module", name="results")
def _results(tmp_path_factory):
  """Returns the folder of JAX's results, and TensorFlow's models by name."""
  folder = tmp_path_factory.mktemp("on jax")
  models = {name: make() for name, make in every_model.MODELS.items()}
  for name, model in models.items():
    np.savez(folder / f"{name}.npz", *model.get_weights())
  done = programs.python(["-c", _PROGRAM, str(folder)])
  assert done.returncode == 0, done.stderr
  return folder, models


@pytest.mark.parametrize("name", every_model.MODELS)
def test_every_model_has_the_same_outputs_on_jax(results, name):
  folder, models = results
  expected = every_model.outputs(models[name])
  with np.load(folder / f"{name} on jax.npz") as result:
    assert set(result.files) == set(expected)
    every_model.assert_close(result, expected, atol=1e-5)


def test_loss_and_gradients_with_dropout_are_the_same_on_jax(results):
  folder, models = results
  expected = toy.loss_and_gradients(
    models["pretrainer"], every_model.pretraining_batch(), every_model.SEED
  )
  with np.load(folder / "float32.npz") as result:
    assert set(result.files) == set(expected)
    every_model.assert_close(result, expected, rtol=1e-4, atol=1e-4)
  with np.load(folder / "mixed_bfloat16.npz") as result:
    assert result["loss"] == pytest.approx(expected["loss"], rel=0.02)
    assert result["loss"] != expected["loss"]
