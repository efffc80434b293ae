from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from modeling import losses, models, tracing
from modeling.config import BertConfig
from tests.modeling.every_model import assert_close
from tests.parity import golden_files
from training import checkpoint

FOLDERS = golden_files.each("encoder/*", "folder")


def _load(folder, file):
  """Returns inputs and expected outputs."""
  arrays = dict(np.load(folder / file))
  return tuple(
    {n.removeprefix(kind): x for n, x in arrays.items() if n.startswith(kind)}
    for kind in ("in_", "out_")
  )


def _pretrainer(folder, **changes):
  values = BertConfig.from_json(str(folder / "bert_config.json")).to_dict()
  config = BertConfig.from_dict(values | changes)
  model = models.pretrainer(config)
  assert not checkpoint.restore(model, str(folder / "bert_model.ckpt"))
  return model


def _outputs(model, inputs):
  """Returns the model's outputs, named as in the golden files."""
  names = [name for name in models.ENCODER_INPUTS if name in inputs]
  bert = model.get_layer("bert")(**{name: inputs[name] for name in names})
  positions, pooled = inputs["masked_lm_positions"], bert["pooled_output"]
  masked = tf.gather(bert["sequence_output"], positions, batch_dims=1)
  heads = model.get_layer("cls")(masked, pooled, bert["embedding_table"])
  objective = losses.pretraining()
  items, weights = objective.losses(heads, inputs), objective.weights(inputs)
  means = {
    name: ops.sum(items[name] * weights[name])
    / (ops.sum(weights[name]) + objective.epsilon.get(name, 0.0))
    for name in items
  }
  log_probs = {
    name: tf.nn.log_softmax(heads[f"{name}_logits"])
    for name in ("masked_lm", "next_sentence")
  }
  vocab = log_probs["masked_lm"].shape[-1]
  return {
    **{f"encoder_layer_{i}": x for i, x in enumerate(bert["encoder_layers"])},
    "embedding_output": bert["embedding_output"],
    "sequence_output": bert["sequence_output"],
    "pooled_output": bert["pooled_output"],
    "masked_lm_log_probs": tf.reshape(log_probs["masked_lm"], [-1, vocab]),
    "masked_lm_example_loss": tf.reshape(items["masked_lm_loss"], [-1]),
    "masked_lm_loss": means["masked_lm_loss"],
    "next_sentence_log_probs": log_probs["next_sentence"],
    "next_sentence_example_loss": items["next_sentence_loss"],
    "next_sentence_loss": means["next_sentence_loss"],
    "total_loss": means["masked_lm_loss"] + means["next_sentence_loss"],
  }


@FOLDERS
@pytest.mark.parametrize("file", ["main.npz", "zero_weights.npz"])
@pytest.mark.parametrize("fused", [True, False], ids=["fused", "plain"])
def test_outputs_equal_the_originals(folder, file, fused):
  inputs, expected = _load(folder, file)
  if file != "main.npz":
    inputs = _load(folder, "main.npz")[0] | inputs
  with tracing.mode(fused=fused):
    result = _outputs(_pretrainer(folder), inputs)
  assert expected
  assert_close(result, expected, atol=2e-5)


@FOLDERS
def test_outputs_of_padding_rows_equal_the_originals(folder):
  inputs, expected = _load(folder, "all_masked_rows.npz")
  result = _outputs(_pretrainer(folder), inputs)
  masked = np.sum(inputs["input_mask"], axis=1) == 0
  assert masked.any()
  assert {"sequence_output", "pooled_output"} <= set(expected)
  for name, value in expected.items():
    if np.ndim(value) < 2 or len(value) != len(masked):
      continue
    got = np.asarray(result[name])
    # The scores of these rows are near -10000, where float32 steps are 0.001.
    np.testing.assert_allclose(got[masked], value[masked], atol=5e-3)
    np.testing.assert_allclose(got[~masked], value[~masked], atol=2e-5)


@FOLDERS
def test_mask_and_segments_can_be_left_out(folder):
  arrays, expected = _load(folder, "no_mask_no_segments.npz")
  ids = (_load(folder, "main.npz")[0] | arrays)["input_ids"]
  bert = _pretrainer(folder).get_layer("bert")(ids)
  names = bert.keys() & expected.keys()
  assert_close(bert, {name: expected[name] for name in names}, atol=2e-5)


@FOLDERS
def test_outputs_with_one_hot_lookup_equal_the_originals(folder):
  inputs, expected = _load(folder, "main.npz")
  config = BertConfig.from_json(str(folder / "bert_config.json"))
  model = models.encoder(replace(config, use_one_hot_embeddings=True))
  checkpoint.restore(model, str(folder / "bert_model.ckpt"))
  result = model({name: inputs[name] for name in models.ENCODER_INPUTS})
  names = ("sequence_output", "pooled_output")
  assert_close(result, {name: expected[name] for name in names}, atol=2e-5)


@FOLDERS
def test_the_names_and_shapes_of_variables_equal_the_originals(folder):
  reader = checkpoint.open_reader(str(folder / "bert_model.ckpt"))
  model = _pretrainer(folder)
  assert {v.path: list(v.shape) for v in model.variables} == reader.shapes
