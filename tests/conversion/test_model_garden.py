"""Checkpoints of Model Garden, and modules of TensorFlow Hub."""

import json
import os
from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf
import tf_keras
from official.modeling import activations
from official.nlp.configs import encoders
from official.nlp.modeling import layers, networks
from official.nlp.modeling import models as theirs
from official.nlp.tools import export_tfhub_lib
from tensorflow.core.protobuf import saved_model_pb2

from conversion import interchange, model_garden, original
from data import vocab
from modeling.config import BertConfig
from storage import UserError
from tests import small_model
from tests.conversion.test_hugging_face import MODELS
from tests.programs import run

V, H, T = 30, 8, 12
SIZES = {
  "vocab_size": V,
  "hidden_size": H,
  "type_vocab_size": 2,
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
  bert = model_garden.read(_save(tmp_path, **pretrainer.checkpoint_items))
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
def test_a_converted_head_has_equal_outputs(tmp_path, make, options, names):
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


WORDS = [*vocab.SPECIAL_TOKENS, *(f"w{i}" for i in range(V - 5))]
KEYS = "vocab_size hidden_size num_hidden_layers num_attention_heads "
KEYS += "intermediate_size max_position_embeddings type_vocab_size"


def _check(folder, head, expected):
  """Compares a converted model's outputs with the outputs of the module."""
  bert = model_garden.read_module(str(folder))
  assert interchange.head_of(bert) == head
  config = BertConfig.from_dict(bert.config)
  for key in KEYS.split():
    assert getattr(config, key) == getattr(CONFIG, key), key
  outputs, batch = {}, small_model.batch(V, T)
  for kind in {"encoder", head}:
    model = MODELS[kind](config)
    original.assign(model, bert, kind)
    outputs |= model({name: batch[name] for name in model.input})
  for name, value in expected.items():
    np.testing.assert_allclose(outputs[name], value, atol=1e-5, err_msg=name)
  assert vocab.load(bert.vocabulary) == {x: i for i, x in enumerate(WORDS)}
  return bert


# --- Format 2 --------------------------------------------------------------


def _hub_config():
  """Returns a configuration of Model Garden's exporter."""
  fields = {key: getattr(CONFIG, key) for key in KEYS.split()}
  fields["num_layers"] = fields.pop("num_hidden_layers")
  encoder = encoders.BertEncoderConfig(**fields)
  return encoders.EncoderConfig(type="bert", bert=encoder)


@pytest.mark.slow
def test_a_module_of_format_2_computes_equal_outputs(tmp_path):
  options = {"encoder_config": _hub_config(), "with_mlm": True}
  _, model = export_tfhub_lib._create_model(**options)
  rng = np.random.RandomState(1)
  for variable in model.variables:
    variable.assign(rng.normal(0.1, 0.4, variable.shape))
  saved = tf.train.Checkpoint(**model.checkpoint_items)
  prefix = saved.save(str(tmp_path / "model"))
  vocab.save(WORDS, tmp_path / "vocab.txt")
  export_tfhub_lib.export_model(
    str(tmp_path / "module"),
    **options,
    model_checkpoint_path=prefix,
    vocab_file=str(tmp_path / "vocab.txt"),
    do_lower_case=False,
  )
  module = tf.saved_model.load(str(tmp_path / "module"))
  outputs = module(garden_inputs())
  expected = {x: outputs[x] for x in ("sequence_output", "pooled_output")}
  logits = module.mlm(garden_inputs(with_positions=True))["mlm_logits"]
  expected["masked_lm_logits"] = logits
  _check(tmp_path / "module", "masked_lm", expected)


def test_the_case_and_the_vocabulary_of_format_2_are_read(tmp_path):
  _, encoder = export_tfhub_lib._create_model(
    encoder_config=_hub_config(), with_mlm=False
  )
  case = tf.Variable(False, trainable=False)
  items = tf.train.Checkpoint(encoder=encoder, do_lower_case=case)
  items.write(str(tmp_path / "variables/variables"))
  graph = saved_model_pb2.SavedModel(meta_graphs=[{}])
  (tmp_path / "saved_model.pb").write_bytes(graph.SerializeToString())
  (tmp_path / "assets").mkdir()
  vocab.save(WORDS, tmp_path / "assets/vocab.txt")
  assert _check(tmp_path, "encoder", {}).lower_case is False


# --- Format 1 --------------------------------------------------------------


def _module_of_format_1(folder, gelu=tf.tanh, scope="", encoder="bert"):
  """Writes a module as hub.create_module_spec does; returns its variables.

  The variables have the original's names. The graph has only the operations
  that the reader looks for, and computes nothing.
  """
  v1 = tf.compat.v1
  vocab.save(WORDS, folder / "vocab.txt")
  values = {v.path: v.numpy() for v in MODELS["masked_lm"](CONFIG).variables}
  with tf.Graph().as_default(), v1.Session() as session:
    for name, value in values.items():
      name = scope + name.replace("bert/", f"{encoder}/", 1)
      v1.get_variable(name, initializer=value, use_resource=False)
    session.run(v1.global_variables_initializer())
    x = gelu(v1.placeholder(tf.float32, [None, None, H]))
    with tf.name_scope(f"{scope}{encoder}/encoder/layer_0/attention/self"):
      shape = tf.shape(x)
      tf.reshape(x, [shape[0], shape[1], 2, H // 2])
    path = tf.constant(str(folder / "vocab.txt"), name="vocab_file")
    case = {"vocab_file": path, "do_lower_case": tf.constant(True)}
    info = v1.saved_model.build_tensor_info
    signature = v1.saved_model.build_signature_def(
      {}, {name: info(tensor) for name, tensor in case.items()}
    )
    builder = v1.saved_model.Builder(str(folder / "module"))
    signatures = {"tokenization_info": signature}
    more = {"signature_def_map": signatures, "assets_collection": [path]}
    builder.add_meta_graph_and_variables(session, [], **more)
    builder.add_meta_graph(["train"], **more)
    builder.save()
  (folder / "module/tfhub_module.pb").write_bytes(b"\x08\x03")  # marks a module
  return values


@pytest.mark.parametrize(
  ("gelu", "scope"), [(tf.tanh, ""), (tf.math.erf, "module/")]
)
def test_a_module_of_format_1_is_read_unchanged(tmp_path, gelu, scope):
  values = _module_of_format_1(tmp_path, gelu, scope)
  bert = _check(tmp_path / "module", "masked_lm", {})
  assert bert.config["hidden_act"] == (
    "gelu" if gelu == tf.tanh else "gelu_erf"
  )
  assert bert.lower_case is True
  assert bert.skipped == {}
  assert bert.values.keys() == values.keys()
  for name, value in values.items():
    np.testing.assert_array_equal(bert.values[name], value)


def test_the_program_converts_a_module_with_its_vocabulary(tmp_path):
  _module_of_format_1(tmp_path)
  flags = {"input": tmp_path / "module", "output": tmp_path / "bert"}
  assert "44 variables with the same bits" in run("convert_checkpoint", **flags)
  assert (tmp_path / "bert/vocab.txt").read_text().split() == WORDS


def test_a_module_without_a_bert_is_refused(tmp_path):
  _module_of_format_1(tmp_path, encoder="albert/module")
  folder = tmp_path / "module"
  with pytest.raises(UserError, match="has no bert/embeddings/word_embedd"):
    model_garden.read_module(str(folder))
  (folder / "saved_model.pb").write_bytes(b"no graph")
  with pytest.raises(UserError, match=r"module is not laid out as expected"):
    model_garden.read_module(str(folder))
