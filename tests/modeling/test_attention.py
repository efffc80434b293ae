"""Direction of attention: a unidirectional model ignores one side."""

from dataclasses import replace

import keras
import numpy as np
import pytest

from modeling import models
from modeling.config import SIDES, BertConfig
from tests.modeling.every_model import CONFIG, tokens, with_another_token

T = 8

BY_TOKEN = {
  "pretrainer": lambda c: models.pretrainer(c, next_sentence=False),
  "span labeler": models.span_labeler,
  "tagger": lambda c: models.tagger(c, 3),
  "features": models.encoder,
}


def _by_token(model, batch):
  """Returns the outputs of each token, [T, any]."""
  positions = np.tile(np.arange(batch["input_ids"].shape[1]), (2, 1))
  batch = batch | {"masked_lm_positions": positions}
  outputs = model({name: batch[name] for name in model.input})
  if "sequence_output" in outputs:
    outputs = {"sequence_output": outputs["sequence_output"]}
  values = [np.atleast_3d(value) for value in outputs.values()]
  return np.concatenate(values, axis=-1)  # [B, T, ...]


@pytest.mark.parametrize("kind", BY_TOKEN)
@pytest.mark.parametrize("attention", ["bidirectional", *SIDES])
def test_a_token_attends_to_its_side_only(kind, attention):
  model = BY_TOKEN[kind](replace(CONFIG, attention=attention))
  batch = tokens()
  position = 4
  positions = np.arange(T)
  before = _by_token(model, batch)
  after = _by_token(model, with_another_token(batch, np.s_[:, position]))
  differs = np.abs(before - after).max(axis=(0, 2)) > 1e-6
  attends = {
    "bidirectional": positions >= 0,
    "left_to_right": positions >= position,
    "right_to_left": positions <= position,
  }[attention]
  np.testing.assert_array_equal(differs, attends)
  np.testing.assert_array_equal(before[:, ~attends], after[:, ~attends])


def test_right_to_left_mirrors_left_to_right():
  forward, backward = (
    models.encoder(replace(CONFIG, attention=side)) for side in SIDES
  )
  backward.set_weights(forward.get_weights())
  layer = backward.get_layer("bert").embeddings.position_embeddings
  layer.assign(np.r_[layer.numpy()[:T][::-1], layer.numpy()[T:]])
  batch = tokens()
  mirrored = {name: values[:, ::-1] for name, values in batch.items()}
  result = backward(mirrored)["sequence_output"][:, ::-1]
  expected = forward(batch)["sequence_output"]
  np.testing.assert_allclose(result, expected, atol=1e-5)


@pytest.mark.parametrize("attention", ["bidirectional", *SIDES])
@pytest.mark.parametrize("position", [0, 3, T - 1])
def test_the_pooled_token_depends_on_the_complete_text(attention, position):
  model = models.classifier(replace(CONFIG, attention=attention), 3)
  changed = with_another_token(tokens(), np.s_[:, position])
  difference = model(tokens())["logits"] - model(changed)["logits"]
  assert np.abs(difference).max(axis=1).min() > 1e-6


def test_frozen_features_keep_their_direction():
  config = replace(CONFIG, attention="left_to_right")
  model = models.feature_based_tagger(config, 3, "last", 4)
  features = keras.Model(model.input, model.get_layer("bilstm").input[0])
  changed = with_another_token(tokens(), np.s_[:, 5:])
  before, after = features(tokens()), features(changed)
  np.testing.assert_array_equal(before[:, :5], after[:, :5])


def test_attention_is_saved_only_if_not_the_default(tmp_path):
  path = str(tmp_path / "bert_config.json")
  CONFIG.to_json(path)
  assert "attention" not in BertConfig.from_json(path).to_dict()
  config = replace(CONFIG, attention="right_to_left")
  config.to_json(path)
  assert BertConfig.from_json(path) == config
  with pytest.raises(ValueError, match="attention 'up' is unknown; known are"):
    replace(CONFIG, attention="up")


def test_fixed_positions_are_sinusoids_that_are_not_trained():
  names = []
  for fixed in (False, True):
    model = models.encoder(replace(CONFIG, fixed_positions=fixed))
    names.append({v.path for v in model.trainable_variables})
  assert names[0] - names[1] == {"bert/embeddings/position_embeddings"}
  table = np.array(model.get_layer("bert").embeddings.position_embeddings)
  products = table @ table.T  # neighbors have equal products everywhere
  assert np.ptp(np.diagonal(products, 1)) < 1e-6 * products[0, 0]


def _structured(attention="bidirectional", heads=4, **changes):
  kinds = {"attention": attention, "initial_attention": "structured"}
  sizes = {"hidden_size": 128, "num_attention_heads": heads} | changes
  config = replace(CONFIG, **kinds, **sizes, initializer_range=0.02)
  return models.encoder(config).get_layer("bert")


def _first_probs(bert, inputs):
  hidden = bert(**inputs)["embedding_output"]
  mask = np.ones((len(hidden), 1, hidden.shape[1]))
  layer = bert.encoder.blocks[0].attention.self_attention
  return np.array(layer.attention_probs(hidden, hidden, mask))


@pytest.mark.parametrize(
  ("attention", "offsets"),
  [
    ("bidirectional", [-1]),
    ("bidirectional", [-1, 1]),
    ("bidirectional", [-1, 1, -2, 2]),
    ("left_to_right", [-1, -2]),
    ("right_to_left", [1, 2]),
  ],
)
def test_heads_can_begin_with_neighbors(attention, offsets):
  bert = _structured(attention, heads=2 * len(offsets))
  probs = _first_probs(bert, tokens(length=16))  # [B, A, T, T]
  inner = np.arange(2, 14)
  for head, offset in enumerate(offsets):
    scores = np.log(probs[:, head, inner])
    assert (scores.argmax(-1) == inner + offset).all(), head
    neighbors = scores[:, np.arange(12), inner + offset]
    # A neighbor's score is about 32 / 3; the mean of others is below 0.
    assert np.mean(neighbors) - np.median(scores) == pytest.approx(12, rel=0.15)
  assert probs[:, len(offsets) : -1].max(initial=0) < 0.1  # still random


def test_a_head_can_begin_with_the_same_word_of_the_other_segment():
  words = np.arange(8)
  inputs = {
    "input_ids": np.concatenate([words, words[::-1]])[None],
    "input_mask": np.ones((1, 16), int),
    "segment_ids": np.repeat([[0, 1]], 8, axis=1),
  }
  probs = _first_probs(_structured(), inputs)[0, -1]
  assert [np.argmax(row) for row in probs] == list(range(15, -1, -1))
  assert np.mean(np.diag(probs[:, ::-1])) > 0.8


@pytest.mark.parametrize("number", [1, 2, 3])
def test_segments_begin_with_opposite_signs_of_one_unit(number):
  bert = _structured(type_vocab_size=number)
  table = np.asarray(bert.embeddings.token_type_embeddings)
  assert not table[:, :-1].any()
  assert np.sign(table[:, -1]).tolist() == [1, -1, 0][:number]
