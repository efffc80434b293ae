"""Compiled models give the same numbers as the models they are made of."""

import numpy as np
import pytest
import tensorflow as tf

from modeling import models
from serving import compiled_model, export
from serving.compiled_model import CompiledModel
from tests.serving import tasks
from training import inference

TEXT = "ab c. [MASK] e"


def _functions(model, inputs):
  specs = {
    name: tf.TensorSpec([None] * len(value.shape), tf.int32)
    for name, value in inputs.items()
  }
  plain = tf.function(lambda **inputs: model(inputs, training=False))
  compiled = tf.function(lambda **inputs: CompiledModel(model)(inputs))
  return [f.get_concrete_function(**specs) for f in (plain, compiled)]


def _features(rows, length, masks=None):
  rng = np.random.default_rng(1)
  ids = rng.integers(5, 15, [rows, length])
  inputs = {
    "input_ids": ids,
    "input_mask": np.arange(length) < 3 + np.arange(rows)[:, None],
    "segment_ids": ids % 2,
  }
  if masks is not None:
    inputs["masked_lm_positions"] = rng.integers(0, length, [rows, masks])
  return {name: tf.constant(v, tf.int32) for name, v in inputs.items()}


def test_rows_tokens_and_masks_are_padded_and_cut():
  model = models.pretrainer(tasks.CONFIG)
  plain, compiled = _functions(model, _features(3, 7, 3))
  for inputs in (_features(3, 7, 3), _features(4, 12, 4)):
    expected = plain(**inputs)
    for name, value in compiled(**inputs).items():
      assert value.shape == expected[name].shape
      np.testing.assert_allclose(value, expected[name], atol=1e-5)


def test_a_batch_may_be_empty():
  _, compiled = _functions(models.span_labeler(tasks.CONFIG), _features(1, 7))
  assert compiled(**_features(0, 5))["start_logits"].shape == (0, 5)


def test_the_longest_length_is_the_models():
  assert compiled_model.lengths(12) == (12,)
  assert compiled_model.lengths(100) == (16, 32, 48, 64, 96, 100)


@pytest.mark.parametrize(
  "size, expected", [(0, 1), (1, 1), (3, 4), (32, 32), (40, 40)]
)
def test_sizes_are_rounded_up(size, expected):
  sizes = compiled_model.ROWS
  assert int(compiled_model._round_up(tf.constant(size), sizes)) == expected


def test_more_rows_than_the_last_size_are_a_multiple_of_it():
  seen = []

  class Model:
    variables = ()

    def __call__(self, inputs, training):
      seen.append(inputs["input_ids"].shape)
      return {"logits": tf.zeros(inputs["input_ids"].shape)}

  inputs = _features(33, 17)
  outputs = CompiledModel(Model())(inputs)
  assert seen == [(64, 32)]
  assert outputs["logits"].shape == (33, 32)


def _answers(function, task):
  texts = {
    name: tf.fill([2] + [3] * (spec.shape.rank - 1), TEXT)
    for name, spec in task.texts.items()
  }
  return function(**texts)


@pytest.mark.slow
@pytest.mark.parametrize(
  "name",
  [
    *("classification", "classification of pairs", "tagging", "questions"),
    *("choices", "masks", "vectors", "tagging by features"),
  ],
)
def test_every_task_answers_the_same_in_both_forms(graph_tokenizer, name):
  model, task = tasks.Everything(graph_tokenizer)[name]
  expected = _answers(export.from_text(model, task), task)
  compiled = export.from_text(CompiledModel(model), task)
  for key, value in _answers(compiled, task).items():
    if value.dtype == tf.string:
      assert value.numpy().tolist() == expected[key].numpy().tolist()
    else:
      np.testing.assert_allclose(value, expected[key], atol=1e-5)


def test_it_is_chosen_where_it_saves_more_than_it_costs(monkeypatch):
  model = models.classifier(tasks.CONFIG, 2)
  monkeypatch.setattr(compiled_model, "is_faster", lambda: True)
  size = compiled_model._encoder_size(model)
  assert 500 < size < 1000  # one layer of width 8
  rows = 10**12 // (size * 100)
  assert compiled_model.choose(model, rows, 100) is model
  chosen = compiled_model.choose(model, rows + 1, 100)
  # The same key for training.inference each time.
  assert chosen == compiled_model.choose(model, rows + 1, 100)
  assert hash(chosen) == hash(CompiledModel(model))
  assert compiled_model.is_compiled(model, None)
  assert not compiled_model.is_compiled(model, False)
  monkeypatch.setattr(compiled_model, "is_faster", lambda: False)
  assert compiled_model.is_compiled(model, True)
  assert not compiled_model.is_compiled(model, None)
  assert compiled_model.choose(model, rows + 1, 100) is model


def test_predictions_of_a_program_are_the_models():
  model = models.tagger(tasks.CONFIG, 3)
  batches = [_features(3, 8), _features(4, 11)]
  expected = inference.predict(model, batches)["logits"]
  result = inference.predict(CompiledModel(model), batches)["logits"]
  np.testing.assert_allclose(result, expected, atol=1e-5)


@pytest.mark.parametrize("setting, expected", [("0", False), ("1", True)])
def test_a_variable_overrides_the_processor(monkeypatch, setting, expected):
  monkeypatch.setenv("BERT_COMPILED_INFERENCE", setting)
  assert compiled_model.is_faster.__wrapped__() is expected


def test_another_value_of_the_variable_is_an_error(monkeypatch):
  monkeypatch.setenv("BERT_COMPILED_INFERENCE", "yes")
  with pytest.raises(ValueError, match="must be 0 or 1, not 'yes'"):
    compiled_model.is_faster.__wrapped__()
