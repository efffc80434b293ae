"""Variables that --freeze_layers freezes."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from modeling import models
from modeling.config import SIDES
from tests import programs
from tests.training import toy
from training import optimization

CONFIG = replace(toy.config(), num_hidden_layers=3)


def _freeze(model, layers, config=CONFIG):
  args = programs.arguments("run_classifier", freeze_layers=layers)
  optimization.freeze(model, args.frozen_layers(config))


@pytest.mark.parametrize("attention", ["bidirectional", "shallow"])
@pytest.mark.parametrize(
  ("layers", "names"),
  [
    ("", []),
    ("embeddings", ["embeddings/"]),
    ("1", ["encoder/layer_1/"]),
    ("0-1", ["encoder/layer_0/", "encoder/layer_1/"]),
    ("embeddings, 2", ["embeddings/", "encoder/layer_2/"]),
    ("embeddings,encoder,pooler", [""]),
  ],
)
def test_takes_out_what_it_names(attention, layers, names):
  sides = [f"{side}/" for side in SIDES] if attention == "shallow" else [""]
  prefixes = tuple(f"bert/{side}{name}" for side in sides for name in names)
  model = models.classifier(replace(CONFIG, attention=attention), 2)
  _freeze(model, layers)
  trained = {variable.path for variable in model.trainable_variables}
  for variable in model.variables:
    frozen = variable.path.startswith(prefixes)
    assert (variable.path in trained) != frozen, variable.path


def test_layer_1_is_not_10_or_11():
  names = [f"bert/encoder/layer_{n}/output/dense/bias" for n in range(12)]
  variables = [SimpleNamespace(path=name, trainable=True) for name in names]
  config = replace(CONFIG, num_hidden_layers=12)
  _freeze(SimpleNamespace(variables=variables), "1,9-10", config)
  frozen = [n for n, v in enumerate(variables) if not v.trainable]
  assert frozen == [1, 9, 10]


@pytest.mark.parametrize("layers", ["3", "1-3", "2-1", "layer_1", "embedding"])
def test_freezing_a_missing_part_is_refused(layers):
  message = rf"no '{layers}'; it has the layers 0-2 and embeddings, encoder, p"
  with pytest.raises(ValueError, match=message):
    _freeze(None, layers)
