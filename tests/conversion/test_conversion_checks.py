"""Options replace a model's settings, and differences are errors."""

import numpy as np
import pytest
import tensorflow as tf

from conversion import conversion_checks as checks
from conversion.interchange import CanonicalModel
from modeling import models
from tests import small_model

CONFIG = {"vocab_size": 3, "hidden_act": "gelu"}


def _bert(config=CONFIG, **values):
  result = {"a": np.zeros(2, np.float32), "b": np.ones(1, np.float32)}
  return CanonicalModel("x", result | values, config)


@pytest.mark.parametrize(
  ("back", "wrong"),
  [
    (_bert(a=np.array([0.0, -0.0], np.float32)), "a"),
    (_bert(a=np.zeros(2)), "a"),
    (_bert(a=np.zeros((1, 2), np.float32)), "a"),
    (_bert(c=np.zeros(2)), "c"),
    (CanonicalModel("x", {"a": np.zeros(2, np.float32)}, CONFIG), "b"),
    (_bert(CONFIG | {"hidden_act": "gelu_erf"}), "hidden_act"),
  ],
)
def test_a_difference_is_named(back, wrong):
  message = f"not written faithfully to x: {wrong}$"
  with pytest.raises(ValueError, match=message):
    checks.check_values(_bert(), back)


def test_equal_checkpoints_pass():
  nan = {"a": np.full(2, np.nan, np.float32)}
  checks.check_values(_bert(**nan), _bert(CONFIG | {"more": 1}, **nan))


def test_a_model_with_labels_needs_all_its_variables():
  heads = {"classification": models.classifier, "tagging": models.tagger}
  config = small_model.config(9)
  for head, make in heads.items():
    values = {v.path: v.numpy() for v in make(config, 3).variables}
    bert = CanonicalModel("x", values, config.to_dict())
    checks.check_variables(bert, head)
    del values["bert/encoder/layer_0/output/dense/bias"]
    with pytest.raises(ValueError, match="x: no tensor gives bert/encoder/lay"):
      checks.check_variables(bert, head)


def test_the_case_that_is_given_counts():
  for own, given in ((True, False), (False, True), (False, None)):
    bert = CanonicalModel("x", {}, lower_case=own)
    checks.complete(bert, None, given, for_transformers=False)
    assert bert.lower_case is bool(given)


def test_an_lstm_is_refused_for_transformers():
  values = {"bert/bilstm/layer_0/kernel": np.zeros(1)}
  bert = CanonicalModel("x", values, small_model.config(9).to_dict())
  checks.complete(bert, None, None, for_transformers=False)
  with pytest.raises(ValueError, match="transformers' BERT has no add_bilst"):
    checks.complete(bert, None, None, for_transformers=True)


def test_options_of_other_formats_are_refused(tmp_path):
  (tmp_path / "config.json").touch()
  with pytest.raises(ValueError, match="bert_config_file does not go with"):
    checks.read_any(str(tmp_path), "bert_config.json", False)
  prefix = tf.train.Checkpoint(x=tf.Variable(1)).save(str(tmp_path / "theirs"))
  with pytest.raises(ValueError, match="use_moving_averages does not go with"):
    checks.read_any(prefix, None, use_moving_averages=True)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_are_refused(value):
  bert = _bert(label=np.array(b"text", object), number=np.int64(3))
  checks.complete(bert, None, None, for_transformers=False)
  bert.values["a"][1] = bert.values["b"][0] = value
  message = r"x: 2 of 4 variables have NaN or infinity \(a, b\): take another"
  with pytest.raises(ValueError, match=message):
    checks.complete(bert, None, None, for_transformers=False)


def test_layers_beyond_the_configuration_are_refused():
  config = small_model.config(9)
  values = {v.path: v.numpy() for v in models.encoder(config).variables}
  bert = CanonicalModel("x", values, config.to_dict())
  checks.check_variables(bert, "encoder")
  values["bert/encoder/layer_1/output/dense/bias"] = np.zeros(16)
  with pytest.raises(
    ValueError, match="x: its configuration has no bert/encod"
  ):
    checks.check_variables(bert, "encoder")


def test_names_that_are_not_read_are_shown():
  config = small_model.config(9)
  bert = CanonicalModel("x", config=config.to_dict())
  bert.skip("module.bert.pooler.dense.bias", "of no head")
  with pytest.raises(ValueError, match=r"no tensor .*; it has module\.bert\.p"):
    checks.check_variables(bert, "encoder")
