import numpy as np
import pytest
import tensorflow as tf
from official.nlp.configs import encoders
from official.nlp.tools import export_tfhub_lib
from tensorflow.core.protobuf import saved_model_pb2

from conversion import interchange, model_garden, original
from data import vocab
from modeling.config import BertConfig
from storage import UserError
from tests import small_model
from tests.conversion.test_hugging_face import MODELS
from tests.conversion.test_model_garden import CONFIG, H, T, V, garden_inputs
from tests.programs import run

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


def _config():
  """Returns a configuration of Model Garden's exporter."""
  fields = {key: getattr(CONFIG, key) for key in KEYS.split()}
  fields["num_layers"] = fields.pop("num_hidden_layers")
  encoder = encoders.BertEncoderConfig(**fields)
  return encoders.EncoderConfig(type="bert", bert=encoder)


@pytest.mark.slow
def test_a_module_of_format_2_computes_equal_outputs(tmp_path):
  options = {"encoder_config": _config(), "with_mlm": True}
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
    encoder_config=_config(), with_mlm=False
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
def test_every_variable_of_a_module_of_format_1_is_read_unchanged(
  tmp_path, gelu, scope
):
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
