from dataclasses import replace

import keras
import numpy as np
import pytest

from modeling import models
from modeling.models import layer_outputs
from tests.modeling import every_model

CONFIG = replace(every_model.CONFIG, num_hidden_layers=3)
LENGTHS = [7, 2, 5]


@pytest.fixture(scope="module")
def batch():
  rng = np.random.RandomState(1)
  mask = np.arange(7) < np.array(LENGTHS)[:, None]
  return {
    "input_ids": rng.randint(0, 17, (3, 7)).astype(np.int32) * mask,
    "input_mask": mask.astype(np.int32),
    "segment_ids": rng.randint(0, 2, (3, 7)).astype(np.int32) * mask,
  }


def _values(batch, *args):
  keras.utils.set_random_seed(7)
  return np.asarray(layer_outputs(CONFIG, *args)(batch)["values"])


def test_layers_are_those_of_the_encoder(batch):
  keras.utils.set_random_seed(7)
  expected = models.encoder(CONFIG)(batch)["encoder_layers"]
  result = _values(batch, [-1, 0, 2, -3])
  assert result.shape == (3, 7, 4, 12)
  for index, layer in enumerate([2, 0, 2, 0]):
    np.testing.assert_allclose(result[:, :, index], expected[layer], atol=1e-5)


def test_pooling_is_over_all_tokens_but_padding(batch):
  tokens, means, first = (
    _values(batch, [-1, 1], *pooling) for pooling in ([], ["mean"], ["cls"])
  )
  for row, length in enumerate(LENGTHS):
    expected = tokens[row, :length].mean(axis=0)  # [L, H]
    np.testing.assert_allclose(means[row], expected, atol=1e-5)
    np.testing.assert_allclose(first[row], tokens[row, 0], atol=1e-5)


@pytest.mark.parametrize("layer", [3, -4])
def test_missing_layer_is_named(layer):
  with pytest.raises(ValueError, match=f"no layer {layer}: the model has 3"):
    layer_outputs(CONFIG, [0, layer])


def test_names_are_those_of_a_checkpoint():
  made = layer_outputs(CONFIG, [0]), models.encoder(CONFIG)
  names, expected = ({v.path for v in model.variables} for model in made)
  assert names == expected
