"""The JAX side of test_on_jax.py: reads weights and writes results.

Import this module before keras, which cannot change its backend later.
"""

import os
from pathlib import Path

os.environ["KERAS_BACKEND"] = "jax"

import jax
import keras
import numpy as np
from jax import numpy as jnp

from modeling import losses
from modeling.tracing import dropout_seeds
from tests.modeling import every_model


def write_results(folder: Path) -> None:
  """Writes every model's outputs, and the pre-training loss and gradients."""
  assert keras.backend.backend() == "jax"
  for name in every_model.MODELS:
    outputs = every_model.outputs(_model(name, folder))
    np.savez(folder / f"{name} on jax.npz", **outputs)
  for dtype in ("float32", "mixed_bfloat16"):
    keras.config.set_dtype_policy(dtype)
    model = _model("pretrainer", folder)
    np.savez(folder / f"{dtype}.npz", **_loss_and_gradients(model))


def _model(name, folder):
  model = every_model.MODELS[name]()
  with np.load(folder / f"{name}.npz") as file:
    model.set_weights([file[f"arr_{n}"] for n in range(len(file.files))])
  return model


def _loss_and_gradients(model):
  """Returns the loss with dropout, and gradients by variable path."""
  batch, objective = every_model.pretraining_batch(), losses.pretraining()
  inputs = {name: batch[name] for name in model.input}

  def loss(variables):
    with dropout_seeds(jnp.array(every_model.SEED)):
      outputs, _ = model.stateless_call(variables, [], inputs, training=True)
    terms = objective.losses(outputs, batch)
    return sum(jnp.sum(term) for term in terms.values())

  variables = [variable.value for variable in model.trainable_variables]
  value, gradients = jax.jit(jax.value_and_grad(loss))(variables)
  names = [variable.path for variable in model.trainable_variables]
  return {"loss": value} | dict(zip(names, gradients, strict=True))
