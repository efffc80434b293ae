import doctest

import keras
import numpy as np
import pytest

from modeling import (
  bert,
  config,
  encoder_variants,
  heads,
  layers,
  losses,
  models,
)
from tests.modeling.every_model import MODELS, assert_close, inputs, outputs

# A packed model only trains.
KINDS = [kind for kind in MODELS if kind != "packed"]
WITH_HEADS = [kind for kind in KINDS if "encoder" not in kind]


@pytest.mark.filterwarnings("error::UserWarning")
@pytest.mark.parametrize("kind", KINDS)
def test_padding_does_not_change_outputs(kind):
  model = MODELS[kind]()
  long = inputs(model)
  if "masked_lm_positions" in long:
    long["masked_lm_positions"] //= 2  # not in the padding
  short = {
    name: value if name == "masked_lm_positions" else value[..., :8]
    for name, value in long.items()
  }
  result = outputs(model, long)
  for name, value in outputs(model, short).items():
    is_by_token = result[name].shape != value.shape
    cut = result[name][:, :8] if is_by_token else result[name]
    np.testing.assert_allclose(cut, value, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("kind", KINDS)
def test_a_saved_model_is_loaded_with_the_same_outputs(kind, tmp_path):
  model = MODELS[kind]()
  model.save(tmp_path / "model.keras")
  again = keras.models.load_model(tmp_path / "model.keras")
  assert [v.path for v in again.weights] == [v.path for v in model.weights]
  assert_close(outputs(model), outputs(again), atol=1e-5)


@pytest.mark.parametrize("kind", WITH_HEADS)
def test_outputs_in_low_precision_are_float32_and_close_to_exact_outputs(kind):
  exact = MODELS[kind]()
  keras.config.set_dtype_policy("mixed_bfloat16")
  rough = MODELS[kind]()
  rough.set_weights(exact.get_weights())
  result = outputs(rough)
  assert {value.dtype for value in result.values()} == {np.dtype("float32")}
  assert_close(outputs(exact), result, atol=0.15)
  assert {variable.dtype for variable in rough.weights} == {"float32"}


# --- Examples in docstrings --------------------------------------------------


MODULES = [bert, config, encoder_variants, heads, layers, losses, models]


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_examples_in_docstrings_return_what_the_docstrings_show(module):
  result = doctest.testmod(module)
  assert result.attempted > 0 == result.failed
