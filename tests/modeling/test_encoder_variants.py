from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import tensorflow as tf

from modeling import models
from modeling.config import ATTENTION, SIDES
from tests.modeling.every_model import (
  BILSTM,
  CONFIG,
  SHALLOW,
  tokens,
  with_another_token,
)
from training import checkpoint

T = 8


@pytest.mark.parametrize("attention", ["bidirectional", *SIDES])
def test_a_token_attends_only_to_the_side_of_its_direction(attention):
  model = models.encoder(replace(CONFIG, attention=attention))
  positions, position = np.arange(T), 4
  changed = with_another_token(tokens(), np.s_[:, position])
  before, after = (
    model(batch)["sequence_output"].numpy() for batch in (tokens(), changed)
  )  # [B, T, H]
  differs = np.abs(before - after).max(axis=(0, 2)) > 1e-6
  attends = {
    "bidirectional": positions >= 0,
    "left_to_right": positions >= position,
    "right_to_left": positions <= position,
  }[attention]
  np.testing.assert_array_equal(differs, attends)
  np.testing.assert_array_equal(before[:, ~attends], after[:, ~attends])


@pytest.mark.parametrize("attention", ["bidirectional", *SIDES])
def test_the_pooled_token_depends_on_the_complete_text(attention):
  model = models.classifier(replace(CONFIG, attention=attention), 3)
  before = model(tokens())["logits"]
  for position in (0, 3, T - 1):
    changed = with_another_token(tokens(), np.s_[:, position])
    difference = before - model(changed)["logits"]
    assert np.abs(difference).max(axis=1).min() > 1e-6


def test_fixed_positions_are_sinusoids_that_are_not_trained():
  names = []
  for fixed in (False, True):
    model = models.encoder(replace(CONFIG, fixed_positions=fixed))
    names.append({v.path for v in model.trainable_variables})
  assert names[0] - names[1] == {"bert/embeddings/position_embeddings"}
  table = np.array(model.get_layer("bert").embeddings.position_embeddings)
  # All pairs of neighboring positions have the same product.
  products = table @ table.T
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
def test_structured_heads_attend_to_neighbors(attention, offsets):
  bert = _structured(attention, heads=2 * len(offsets))
  probs = _first_probs(bert, tokens(length=16))  # [B, A, T, T]
  inner = np.arange(2, 14)
  for head, offset in enumerate(offsets):
    scores = np.log(probs[:, head, inner])
    assert (scores.argmax(-1) == inner + offset).all(), head
    neighbors = scores[:, np.arange(12), inner + offset]
    # A neighbor's logit is about 32 / 3, as modeling/bert.py computes. The
    # other logits are slightly below 0.
    assert np.mean(neighbors) - np.median(scores) == pytest.approx(12, rel=0.15)
  # The heads between the neighbors' heads and the last head are random.
  assert probs[:, len(offsets) : -1].max(initial=0) < 0.1


def test_a_structured_head_attends_to_the_same_word_in_the_other_segment():
  words = np.arange(8)
  inputs = {
    "input_ids": np.concatenate([words, words[::-1]])[None],
    "input_mask": np.ones((1, 16), int),
    "segment_ids": np.repeat([[0, 1]], 8, axis=1),
  }
  probs = _first_probs(_structured(), inputs)[0, -1]
  assert [np.argmax(row) for row in probs] == list(range(15, -1, -1))
  assert np.mean(np.diag(probs[:, ::-1])) > 0.8


def test_structured_segment_embeddings_differ_in_the_sign_of_one_unit():
  for number in (1, 3):
    bert = _structured(type_vocab_size=number)
    table = np.asarray(bert.embeddings.token_type_embeddings)
    assert not table[:, :-1].any()
    assert np.sign(table[:, -1]).tolist() == [1, -1, 0][:number]


# --- A BiLSTM on top, and concatenated encoders ------------------------------


_tokens = partial(tokens, length=6)


def test_a_bilstm_lets_a_left_to_right_model_read_both_sides():
  model = models.tagger(replace(BILSTM, attention="left_to_right"), 3)
  changed = with_another_token(_tokens(), np.s_[:, 5])
  difference = model(_tokens())["logits"] - model(changed)["logits"]
  assert np.abs(difference).max(axis=(0, 2)).min() > 1e-7


def test_a_bilstm_adds_trained_variables_and_does_not_change_the_width():
  plain = {v.path: v.shape for v in models.classifier(CONFIG, 3).weights}
  model = models.classifier(BILSTM, 3)
  new = {v.path: v.shape for v in model.weights if v.path not in plain}
  assert {path.split("/")[1] for path in new} == {"bilstm"}
  assert len(new) == 6  # three variables for each direction
  assert {v.path for v in model.trainable_variables} >= set(new)
  [layer] = model.get_layer("bert").bilstm.stack
  assert layer.forward_layer.use_cudnn is False  # exports run on any device
  outputs = models.encoder(BILSTM)(_tokens())
  assert outputs["sequence_output"].shape == (2, 6, 12)


def test_a_shallow_model_concatenates_the_encoders_of_two_checkpoints(tmp_path):
  paths, outputs = [], []
  for side in SIDES:
    encoder = models.encoder(replace(CONFIG, attention=side))
    outputs.append(encoder(_tokens()))
    paths.append(str(tmp_path / side / "a.ckpt"))
    checkpoint.write(paths[-1], checkpoint.variables(encoder))
  model = models.classifier(SHALLOW, 3)
  fresh = checkpoint.restore(model, ",".join(paths))
  assert set(fresh) == {"output_weights", "output_bias"}
  result = model.get_layer("bert")(**_tokens())
  for name in ("embedding_output", "sequence_output", "pooled_output"):
    both = np.concatenate([output[name] for output in outputs], axis=-1)
    np.testing.assert_allclose(result[name], both, atol=1e-6)
  assert [layer.shape for layer in result["encoder_layers"]] == [(2, 6, 24)] * 2


def test_shallow_models_are_fine_tuned_and_frozen_but_not_pre_trained():
  model = models.feature_based_tagger(SHALLOW, 3, "last", 4)
  assert model.get_layer("bilstm").input[0].shape[-1] == 24  # two encoders
  assert not [v for v in model.trainable_variables if "bert/" in v.path]
  names = [v.path for v in models.tagger(SHALLOW, 3).trainable_variables]
  assert not [name for name in names if "pooler" in name]  # no head reads it
  model = models.multiple_choice(SHALLOW)
  batch = {k: v.reshape(2, 3, 6) for k, v in _tokens(batch=6).items()}
  assert model(batch)["logits"].shape == (2, 3)
  with pytest.raises(ValueError, match="'shallow' is for fine-tuning"):
    models.pretrainer(SHALLOW)


# --- The last block computes only some positions -----------------------------


CONFIGS = {kind: replace(CONFIG, attention=kind) for kind in ATTENTION}
CONFIGS["with a BiLSTM"] = BILSTM
POSITIONS = np.array([[5, 1, 5], [0, 7, 2]], np.int32)  # [B, P]


def _with_gradients(bert, positions):
  """Returns layer count, vectors at POSITIONS, pooled vectors and gradients."""
  batch = tokens()
  batch["input_mask"][0, 6:] = 0
  with tf.GradientTape() as tape:
    outputs = bert(**batch, positions=positions)
    sequence = outputs["sequence_output"]
    if positions is None:
      sequence = tf.gather(sequence, POSITIONS, batch_dims=1)
    pooled = outputs["pooled_output"]
    total = tf.reduce_sum(sequence**3) + tf.reduce_sum(pooled**3)
  variables = {v.path: v.value for v in bert.trainable_variables}
  gradients = tape.gradient(total, variables)
  gradients = {k: tf.convert_to_tensor(g) for k, g in gradients.items()}
  return len(outputs["encoder_layers"]), sequence, pooled, gradients


@pytest.mark.parametrize("kind", CONFIGS)
def test_computing_fewer_positions_does_not_change_the_outputs(kind):
  bert = models.make_encoder(CONFIGS[kind])
  layers, *complete, expected = _with_gradients(bert, None)
  few_layers, *few, gradients = _with_gradients(bert, POSITIONS)
  for result, value in zip(few, complete, strict=True):
    np.testing.assert_allclose(result, value, atol=1e-5)
  assert few_layers == layers - 1  # the last layer is incomplete
  for path, value in expected.items():
    # Gradients of key biases are about 0.
    bound = 1e-5 * (1.0 + np.abs(value).max())
    np.testing.assert_allclose(gradients[path], value, 0, bound, err_msg=path)
