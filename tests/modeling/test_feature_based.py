from dataclasses import replace
from functools import partial

import keras
import numpy as np
import pytest
import tensorflow as tf

from modeling import heads, losses, models
from modeling.config import FEATURE_LAYERS
from tests.modeling import every_model
from tests.modeling.every_model import tokens

CONFIG = replace(
  every_model.CONFIG,
  hidden_size=6,
  num_attention_heads=2,
  hidden_dropout_prob=0.5,
  attention_probs_dropout_prob=0.5,
)
UNITS, TAGS = 4, 3
_tokens = partial(tokens, length=4)


@pytest.fixture(name="tagger", scope="module", params=FEATURE_LAYERS)
def _choice_and_tagger(request):
  """A choice of layers, and a tagger with more layers than needed."""
  keras.utils.set_random_seed(7)
  layers = 5 if "four" in request.param else 2
  config = replace(CONFIG, num_hidden_layers=layers)
  model = models.feature_based_tagger(config, TAGS, request.param, UNITS)
  return request.param, model


def test_features_come_from_the_chosen_layers(tagger):
  choice, model = tagger
  outputs = model.get_layer("bert")(**_tokens())
  layers = outputs["encoder_layers"]  # five if it takes four, otherwise two
  expected = {  # the rows of table 7 in the paper
    "embeddings": lambda: outputs["embedding_output"],
    "second_to_last": lambda: layers[0],
    "last": lambda: layers[1],
    "weighted_sum_last_four": lambda: np.mean(layers[1:], axis=0),
    "concat_last_four": lambda: np.concatenate(layers[1:], axis=2),
    "weighted_sum_all": lambda: np.mean(layers, axis=0),
  }[choice]
  below_lstm = keras.Model(model.input, model.get_layer("bilstm").input[0])
  features = below_lstm(_tokens(), training=True)  # but without dropout
  assert features.shape == (2, 4, 24 if choice == "concat_last_four" else 6)
  np.testing.assert_allclose(features, expected(), atol=1e-6)
  assert model(_tokens())["logits"].shape == (2, 4, TAGS)


def test_a_feature_based_tagger_trains_all_variables_except_the_encoder(tagger):
  _, model = tagger
  labels = {"label_ids": np.array([[0, 1, 2, -1], [2, -1, 1, 0]])}
  variables = {v.path: v.value for v in model.trainable_variables}
  with tf.GradientTape() as tape:
    outputs = model(_tokens(), training=True)
    loss = losses.tagging().losses(outputs, labels)["word_loss"]
  gradients = tape.gradient(loss, variables)
  assert all(np.any(gradient) for gradient in gradients.values())
  others = {v.path for v in model.weights if not v.path.startswith("bert/")}
  assert gradients.keys() == others
  # Two layers, each with three variables for each direction.
  assert len([path for path in others if path.startswith("bilstm/")]) == 12


def test_a_weighted_sum_weights_the_layers_by_a_softmax_of_its_scores():
  weigh = heads.WeightedSum()
  layers = [np.full((2, 3, 4), value, np.float32) for value in (1, 10, 100)]
  np.testing.assert_allclose(weigh(layers), np.full((2, 3, 4), 37), rtol=1e-6)
  [scores] = weigh.trainable_variables
  assert scores.path == "weighted_sum/scores"
  scores.assign(np.log([6.0, 3.0, 1.0]))  # weights 0.6, 0.3 and 0.1
  np.testing.assert_allclose(weigh(layers), np.full((2, 3, 4), 13.6), rtol=1e-6)


def test_a_layer_that_the_model_lacks_is_reported():
  two = every_model.CONFIG
  two.check_layers([-2, 1])
  for layer in (2, -3):
    with pytest.raises(ValueError, match=f"no layer {layer}: the model has 2"):
      models.layer_outputs(two, [0, layer])
