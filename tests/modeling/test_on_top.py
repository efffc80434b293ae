"""A BiLSTM on top of the encoder, and concatenated encoders."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from modeling import models
from modeling.config import SIDES
from tests.modeling.every_model import CONFIG, tokens, with_another_token
from training import checkpoint

BILSTM = replace(CONFIG, add_bilstm=True)
SHALLOW = replace(CONFIG, attention="shallow")
_tokens = partial(tokens, length=6)


def test_the_bilstm_makes_one_direction_two():
  config = replace(BILSTM, attention="left_to_right")
  model = models.tagger(config, 3)
  changed = np.s_[:, 5]
  after = model(with_another_token(_tokens(), changed))["logits"]
  difference = model(_tokens())["logits"] - after
  assert np.abs(difference).max(axis=(0, 2)).min() > 1e-7


def test_the_bilstm_is_new_and_trained_and_as_wide_as_the_encoder():
  plain = {v.path: v.shape for v in models.classifier(CONFIG, 3).weights}
  model = models.classifier(BILSTM, 3)
  new = {v.path: v.shape for v in model.weights if v.path not in plain}
  assert {path.split("/")[1] for path in new} == {"bilstm"}
  assert len(new) == 6  # three variables for each direction
  assert {v.path for v in model.trainable_variables} >= set(new)
  outputs = models.encoder(BILSTM)(_tokens())
  assert outputs["sequence_output"].shape == (2, 6, 12)
  with pytest.raises(ValueError, match="multiple of 2, not 9"):
    replace(BILSTM, hidden_size=9)


def _encoders():
  return [models.encoder(replace(CONFIG, attention=side)) for side in SIDES]


def test_shallow_features_are_those_of_two_networks():
  model, encoders = models.encoder(SHALLOW), _encoders()
  for encoder, side in zip(encoders, SIDES, strict=True):
    values = {v.path: v.numpy() for v in encoder.weights}
    for variable in model.weights:
      name = variable.path.replace(f"bert/{side}/", "bert/")
      if name != variable.path:
        variable.assign(values[name])
  a, b = (encoder(_tokens()) for encoder in encoders)
  result = model(_tokens())
  for name in ("embedding_output", "sequence_output", "pooled_output"):
    both = np.concatenate([a[name], b[name]], axis=-1)
    np.testing.assert_allclose(result[name], both, atol=1e-6)
  assert [layer.shape for layer in result["encoder_layers"]] == [(2, 6, 24)] * 2


def test_shallow_takes_a_checkpoint_of_each_side(tmp_path):
  encoders = _encoders()
  paths = [str(tmp_path / str(number) / "a.ckpt") for number in range(2)]
  for path, encoder in zip(paths, encoders, strict=True):
    checkpoint.write(path, checkpoint.variables(encoder))
  model = models.classifier(SHALLOW, 3)
  fresh = checkpoint.restore(model, ",".join(paths))
  assert set(fresh) == {"output_weights", "output_bias"}
  a, b = (encoder(_tokens())["pooled_output"] for encoder in encoders)
  result = model.get_layer("bert")(**_tokens())["pooled_output"]
  np.testing.assert_allclose(result, np.concatenate([a, b], -1), atol=1e-6)
  # A fine-tuned model has a single checkpoint.
  checkpoint.write(str(tmp_path / "c"), checkpoint.variables(model))
  again = models.classifier(SHALLOW, 3)
  assert not checkpoint.restore(again, str(tmp_path / "c"))
  with pytest.raises(FileNotFoundError, match=r"no checkpoint at '.*nowhere'"):
    checkpoint.restore(model, f"{paths[0]},{tmp_path / 'nowhere'}")


def test_shallow_frozen_features_are_elmos():
  model = models.feature_based_tagger(SHALLOW, 3, "last", 4)
  assert model.get_layer("bilstm").input[0].shape[-1] == 24
  assert not [v for v in model.trainable_variables if "bert/" in v.path]


def test_shallow_choices_and_no_shallow_pre_training():
  model = models.multiple_choice(SHALLOW)
  batch = {k: v.reshape(2, 3, 6) for k, v in _tokens(batch=6).items()}
  assert model(batch)["logits"].shape == (2, 3)
  with pytest.raises(ValueError, match="'shallow' is for fine-tuning"):
    models.pretrainer(SHALLOW)
