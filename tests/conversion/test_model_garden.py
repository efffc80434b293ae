import json
import os
from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf
import tf_keras
from official.modeling import activations
from official.nlp.modeling import layers, networks
from official.nlp.modeling import models as theirs

from conversion import interchange, model_garden, original
from modeling.config import BertConfig
from storage import UserError
from tests import small_model
from tests.conversion.test_hugging_face import MODELS
from training import checkpoint

V, H, T = 30, 8, 12
SHARED = {"vocab_size": V, "hidden_size": H, "type_vocab_size": 2}
SIZES = SHARED | {
  "num_layers": 2,
  "num_attention_heads": 2,
  "max_sequence_length": 16,
  "inner_dim": 20,
}
CONFIG = BertConfig(V, H, 2, 2, 20, type_vocab_size=2)
CONFIG = replace(CONFIG, max_position_embeddings=16)


def garden_inputs(with_positions=False):
  batch = small_model.batch(V, T)
  inputs = {
    "input_word_ids": batch["input_ids"],
    "input_mask": batch["input_mask"],
    "input_type_ids": batch["segment_ids"],
  }
  if with_positions:
    inputs["masked_lm_positions"] = batch["masked_lm_positions"]
  return {key: tf.constant(value) for key, value in inputs.items()}


def _randomize(model):
  """Assigns distinct random values, so that swapped variables are noticed."""
  rng = np.random.RandomState(1)
  for variable in model.trainable_variables:
    variable.assign(rng.normal(0.1, 0.4, variable.shape))


def _save(folder, **objects):
  return tf.train.Checkpoint(**objects).save(str(folder / "model"))


def _outputs(prefix, head):
  """Returns a converted model's outputs, and the CanonicalModel."""
  bert = model_garden.read(prefix)
  model = MODELS[head](BertConfig.from_dict(bert.config))
  original.assign(model, bert, head)
  batch = small_model.batch(V, T)
  return model({name: batch[name] for name in model.input}), bert


def _functional(num_layers=2):
  sizes = SIZES | {"num_layers": num_layers}
  return networks.BertEncoder(**sizes, dict_outputs=True)


@pytest.mark.parametrize(
  ("make", "name"),
  [
    (lambda: _functional(12), "model"),  # as texts, "10" sorts before "2"
    (_functional, "encoder"),
    (lambda: networks.BertEncoderV2(**SIZES | {"num_layers": 12}), "model"),
  ],
)
def test_a_converted_encoder_computes_equal_outputs(tmp_path, make, name):
  encoder = make()
  encoder(garden_inputs())
  _randomize(encoder)
  prefix = _save(tmp_path, **{name: encoder})
  assert interchange.format_of(prefix) == "Model Garden"
  result, bert = _outputs(prefix, "encoder")
  expected = encoder(garden_inputs())
  for output in ("sequence_output", "pooled_output"):
    np.testing.assert_allclose(result[output], expected[output], atol=1e-5)
  counter = "save_counter/.ATTRIBUTES/VARIABLE_VALUE"
  assert bert.skipped == {"of no layer that the original has": [counter]}
  assert bert.config["num_attention_heads"] == 2
  assert bert.config["intermediate_size"] == 20


@pytest.fixture(scope="module")
def pretrainer():
  head = layers.ClassificationHead(H, 2, name="next_sentence")
  model = theirs.BertPretrainerV2(
    encoder_network=_functional(),
    mlm_activation=activations.gelu,
    classification_heads=[head],
  )
  model(garden_inputs(with_positions=True))
  _randomize(model)
  return model


def test_a_pretrainer_is_read_without_its_training_state(tmp_path, pretrainer):
  optimizer = tf_keras.optimizers.legacy.Adam(learning_rate=0.0)
  variables = pretrainer.trainable_variables
  expected = pretrainer(garden_inputs(with_positions=True))
  optimizer.apply_gradients([(tf.zeros_like(v), v) for v in variables])
  prefix = _save(
    tmp_path,
    model=pretrainer,
    optimizer=optimizer,
    global_step=tf.Variable(3, dtype=tf.int64),
    **pretrainer.checkpoint_items,
  )
  result, bert = _outputs(prefix, "pretraining")
  for output, name in (
    ("masked_lm_logits", "mlm_logits"),
    ("next_sentence_logits", "next_sentence"),
  ):
    np.testing.assert_allclose(result[output], expected[name], atol=1e-5)
  [left] = bert.skipped.values()
  assert len(left) > 2 * len(variables)  # the slots


def test_the_pooler_is_read_if_a_pretrainer_saves_it(tmp_path, pretrainer):
  prefix = _save(tmp_path, **pretrainer.checkpoint_items)
  bert = model_garden.read(prefix)
  assert interchange.head_of(bert) == "masked_lm"
  kernel = pretrainer.classification_heads[0].dense.kernel
  np.testing.assert_array_equal(bert.values["bert/pooler/dense/kernel"], kernel)


# Model Garden's class and options, then our head and the names of its outputs.
PRETRAINING = {"num_classes": 2, "num_token_predictions": 3}
PRETRAINING |= {"activation": activations.gelu}
PRETRAINED = "pretraining next_sentence_logits masked_lm_logits"
THREE = {"num_classes": 3}
POOLER = THREE | {"use_encoder_pooler": False}
FINE_TUNED = [
  (theirs.BertClassifier, THREE, "classification logits"),
  (theirs.BertClassifier, POOLER, "classification logits"),
  (theirs.BertTokenClassifier, THREE, "tagging logits"),
  (theirs.BertSpanLabeler, {}, "question_answering start_logits end_logits"),
  (theirs.BertPretrainer, PRETRAINING, PRETRAINED),
]


@pytest.mark.parametrize(("make", "options", "names"), FINE_TUNED)
def test_a_converted_head_computes_equal_outputs(
  tmp_path, make, options, names
):
  head, *names = names.split()
  model = make(networks.BertEncoder(**SIZES), **options)
  _randomize(model)
  result, bert = _outputs(_save(tmp_path, model=model), head)
  assert interchange.head_of(bert) == head
  expected = model(list(garden_inputs(head == "pretraining").values()))
  if isinstance(expected, dict):
    expected.pop("encoder_outputs", None)
    expected = [value for _, value in sorted(expected.items())]
  if not isinstance(expected, list | tuple):
    expected = [expected]
  for name, value in zip(names, expected, strict=True):
    np.testing.assert_allclose(result[name], value, atol=1e-5)


def _flat(dense):
  """Returns a layer whose kernel has no axis of heads."""
  kernel = tf.Variable(tf.reshape(dense.kernel, [H, H]))
  bias = tf.Variable(tf.reshape(dense.bias, [H]))
  return tf.train.Checkpoint(kernel=kernel, bias=bias)


def test_the_layout_of_2020_is_read_with_bert_config_json(tmp_path):
  """A block has the attention's output layer, kernels have no axis of heads."""
  encoder = _functional(12)
  _randomize(encoder)
  names = ("embedding", "position_embedding", "type_embedding")
  layers_of = [getattr(encoder, f"_{name}_layer") for name in names]
  layers_of.append(encoder._embedding_norm_layer)
  for block in encoder.transformer_layers:
    attention = block._attention_layer
    inner = ("_query_dense", "_key_dense", "_value_dense")
    inner = {name: _flat(getattr(attention, name)) for name in inner}
    names = ("_attention_layer_norm", "_intermediate_dense", "_output_dense")
    names += ("_output_layer_norm",)
    parts = {name: getattr(block, name) for name in names}
    parts["_attention_layer"] = tf.train.Checkpoint(**inner)
    parts["_attention_output_dense"] = _flat(attention._output_dense)
    layers_of.append(tf.train.Checkpoint(**parts))
  layers_of.append(encoder.pooler_layer)
  named = {f"layer_with_weights-{i}": x for i, x in enumerate(layers_of)}
  prefix = _save(tmp_path, model=tf.train.Checkpoint(**named))
  with pytest.raises(ValueError, match="lacks the number of heads: give ber"):
    model_garden.read(prefix)
  CONFIG.to_json(str(tmp_path / "bert_config.json"))
  result, _ = _outputs(prefix, "encoder")
  expected = encoder(garden_inputs())["pooled_output"]
  np.testing.assert_allclose(result["pooled_output"], expected, atol=1e-5)


def test_bert_config_json_and_vocab_txt_of_a_checkpoint_are_read(tmp_path):
  prefix = _save(tmp_path, model=_functional())
  config = model_garden.read(prefix).config
  assert config["hidden_act"] == "gelu"
  assert model_garden.read(prefix).vocabulary is None
  # The variables give the sizes.
  changed = config | {"hidden_act": "relu", "num_attention_heads": 4}
  (tmp_path / "bert_config.json").write_text(json.dumps(changed))
  (tmp_path / "vocab.txt").touch()
  bert = model_garden.read(prefix)
  assert bert.config == config | {"hidden_act": "relu"}
  assert bert.vocabulary == str(tmp_path / "vocab.txt")


FACTORIZED = SIZES | {"embedding_width": 4}


@pytest.mark.parametrize(
  ("make", "message", "size"),
  [
    (_functional, "model-1 is not laid out .* corrupt", 100),
    (tf.Module, "no Transformer encoder", None),
    (lambda: networks.BertEncoder(**FACTORIZED), "is not laid out as", None),
  ],
)
def test_a_truncated_file_or_an_unsupported_model_is_refused(
  tmp_path, make, message, size
):
  prefix = _save(tmp_path, model=make())
  if size:
    os.truncate(f"{prefix}.data-00000-of-00001", size)
  with pytest.raises(UserError, match=message):
    model_garden.read(prefix)


def test_a_checkpoint_of_named_variables_is_not_of_model_garden(tmp_path):
  checkpoint.write(str(tmp_path / "a.ckpt"), {"x": np.zeros(2)})
  assert interchange.format_of(str(tmp_path / "a.ckpt")) == "original"
