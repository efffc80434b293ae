"""Variables that --freeze_layers freezes."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from cli import shared_flags
from modeling import models
from modeling.config import BertConfig
from tests.training import toy
from training import optimization

CONFIG = BertConfig.from_dict(toy.config().to_dict() | {"num_hidden_layers": 3})


@pytest.fixture(name="model")
def _model():
  return models.classifier(CONFIG, 2)


def _freeze(model, layers, config=CONFIG):
  args = SimpleNamespace(freeze_layers=layers)
  optimization.freeze(model, shared_flags.frozen_layers(args, config))


@pytest.mark.parametrize(
  ("layers", "prefixes"),
  [
    ("", ()),
    ("embeddings", ("bert/embeddings/",)),
    ("1", ("bert/encoder/layer_1/",)),
    ("0-1", ("bert/encoder/layer_0/", "bert/encoder/layer_1/")),
    ("embeddings, 2", ("bert/embeddings/", "bert/encoder/layer_2/")),
    ("embeddings,encoder,pooler", ("bert/",)),
  ],
)
def test_takes_out_what_it_names(model, layers, prefixes):
  _check(model, layers, prefixes)


@pytest.mark.parametrize(
  ("layers", "names"),
  [("embeddings", ["embeddings"]), ("0", ["encoder/layer_0"])],
)
def test_of_two_networks_both_are_frozen(layers, names):
  config = replace(toy.config(), attention="shallow")
  sides = ("left_to_right", "right_to_left")
  prefixes = [f"bert/{side}/{name}/" for side in sides for name in names]
  _check(models.classifier(config, 2), layers, tuple(prefixes))


def _check(model, layers, prefixes):
  _freeze(model, layers)
  trained = {variable.path for variable in model.trainable_variables}
  for variable in model.variables:
    frozen = bool(prefixes) and variable.path.startswith(prefixes)
    assert (variable.path in trained) != frozen, variable.path


def test_layer_1_is_not_10_or_11():
  names = [f"bert/encoder/layer_{n}/output/dense/bias" for n in range(12)]
  variables = [SimpleNamespace(path=name, trainable=True) for name in names]
  config = replace(CONFIG, num_hidden_layers=12)
  _freeze(SimpleNamespace(variables=variables), "1,9-10", config)
  frozen = [n for n, v in enumerate(variables) if not v.trainable]
  assert frozen == [1, 9, 10]


@pytest.mark.parametrize("layers", ["3", "1-3", "2-1", "layer_1", "embedding"])
def test_what_the_model_has_not_is_refused(layers):
  message = rf"no '{layers}'; it has the layers 0-2 and embeddings, encoder, p"
  with pytest.raises(ValueError, match=message):
    _freeze(None, layers)
