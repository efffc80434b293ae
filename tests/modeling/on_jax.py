"""The JAX side of test_on_jax.py: reads inputs from a folder, writes results.

Inputs: `<name>.npz`, the weights of each model; of a training `start.npz`,
`batches.npz` and `bert_config.json`.
"""

from pathlib import Path

from tests.modeling import jax_training

# isort: split
import jax
import keras
import numpy as np

from modeling import losses, models
from modeling.config import BertConfig
from tests.modeling import every_model


def write_results(folder: Path) -> None:
  """Writes the outputs of all models and the numbers of the training."""
  assert keras.backend.backend() == "jax"
  for name, make in every_model.MODELS.items():
    model = make()
    model.set_weights(_arrays(folder / f"{name}.npz"))
    np.savez(folder / f"{name} on jax.npz", **every_model.outputs(model))
  for dtype in ("float32", "mixed_bfloat16"):
    keras.config.set_dtype_policy(dtype)
    np.savez(folder / f"{dtype}.npz", **_train(folder))


def _arrays(path):
  with np.load(path) as file:
    return [file[f"arr_{number}"] for number in range(len(file.files))]


def _train(folder):
  """Reports of some steps, and the variables after them by name."""
  config = BertConfig.from_json(str(folder / "bert_config.json"))
  model = models.pretrainer(config)
  model.set_weights(_arrays(folder / "start.npz"))
  adam = jax_training.Adam(0.01, 100, 4)
  step = jax.jit(jax_training.step_function(model, losses.pretraining(), adam))
  state, reports = jax_training.begin(model), {}
  with np.load(folder / "batches.npz") as batches:
    batches = dict(batches)
  for number in range(len(batches["input_ids"])):
    batch = {name: values[number] for name, values in batches.items()}
    state, means = step(state, batch)
    for name, mean in means.items():
      reports.setdefault(f"step/{name}", []).append(mean)
  names = [variable.path for variable in model.trainable_variables]
  return reports | dict(zip(names, state.variables, strict=True))
