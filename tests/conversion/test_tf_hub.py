"""TensorFlow Hub modules give the same outputs after conversion."""

import numpy as np
import pytest
import tensorflow as tf
from official.legacy.bert import configs
from official.nlp.configs import encoders
from official.nlp.tools import export_tfhub_lib
from tensorflow.core.protobuf import saved_model_pb2

from conversion import conversion_checks, interchange, tf_hub
from data import vocab
from modeling.config import BertConfig
from storage import UserError
from tests import small_model
from tests.conversion.test_hugging_face import MODELS
from tests.programs import fails, run

V, H, A, T = 30, 8, 2, 12
SIZES = {
  "hidden_size": H,
  "intermediate_size": 20,
  "max_position_embeddings": 16,
}
CONFIG = small_model.config(V, num_hidden_layers=2, type_vocab_size=2, **SIZES)
WORDS = [*vocab.SPECIAL_TOKENS, *(f"w{i}" for i in range(V - 5))]
KEYS = "vocab_size hidden_size num_hidden_layers num_attention_heads "
KEYS += "intermediate_size max_position_embeddings type_vocab_size"


def _check(folder, head, expected):
  """Compares a converted model's outputs with the module's by name."""
  bert = tf_hub.read(str(folder))
  assert interchange.head_of(bert) == head
  config = BertConfig.from_dict(bert.config)
  for key in KEYS.split():
    assert getattr(config, key) == getattr(CONFIG, key), key
  outputs, batch = {}, small_model.batch(V, T)
  for kind in {"encoder", head}:
    model = MODELS[kind](config)
    conversion_checks.assign(model, bert, kind)
    outputs |= model({name: batch[name] for name in model.input})
  for name, value in expected.items():
    np.testing.assert_allclose(outputs[name], value, atol=1e-5, err_msg=name)
  assert vocab.load(bert.vocabulary) == {x: i for i, x in enumerate(WORDS)}
  return bert


# --- Format 2 --------------------------------------------------------------


def _export(folder, with_mlm, **config):
  """Exports Model Garden's function with random values as a SavedModel."""
  _, model = export_tfhub_lib._create_model(**config, with_mlm=with_mlm)
  rng = np.random.RandomState(1)
  for variable in model.variables:
    variable.assign(rng.normal(0.1, 0.4, variable.shape))
  items = model.checkpoint_items if with_mlm else {"encoder": model}
  prefix = tf.train.Checkpoint(**items).save(str(folder / "model"))
  vocab.save(WORDS, folder / "vocab.txt")
  export_tfhub_lib.export_model(
    str(folder / "module"),
    **config,
    model_checkpoint_path=prefix,
    with_mlm=with_mlm,
    vocab_file=str(folder / "vocab.txt"),
    do_lower_case=False,
  )
  return folder / "module"


def _configs(**more):
  fields = {key: getattr(CONFIG, key) for key in KEYS.split()} | more
  old = configs.BertConfig.from_dict(fields)
  fields["num_layers"] = fields.pop("num_hidden_layers")
  encoder = encoders.BertEncoderConfig(**fields)
  new = encoders.EncoderConfig(type="bert", bert=encoder)
  return {"bert_config": old}, {"encoder_config": new}


@pytest.mark.slow
@pytest.mark.parametrize("case", [(1, True), (0, True), (0, False)])
def test_a_module_of_format_2_computes_the_same(tmp_path, case):
  number, with_mlm = case
  folder = _export(tmp_path, with_mlm, **_configs()[number])
  module = tf.saved_model.load(str(folder))
  batch = small_model.batch(V, T)
  inputs = {
    "input_word_ids": batch["input_ids"],
    "input_mask": batch["input_mask"],
    "input_type_ids": batch["segment_ids"],
  }
  outputs = module(inputs)
  expected = {x: outputs[x] for x in ("sequence_output", "pooled_output")}
  if with_mlm:
    inputs["masked_lm_positions"] = batch["masked_lm_positions"]
    expected["masked_lm_logits"] = module.mlm(inputs)["mlm_logits"]
  bert = _check(folder, "masked_lm" if with_mlm else "encoder", expected)
  assert bert.lower_case is False
  assert [*bert.skipped] == ["of the tokenizer"]


def test_the_case_and_the_vocabulary_of_format_2_are_read(tmp_path):
  _, encoder = export_tfhub_lib._create_model(**_configs()[1], with_mlm=False)
  case = tf.Variable(False, trainable=False)
  items = tf.train.Checkpoint(encoder=encoder, do_lower_case=case)
  items.write(str(tmp_path / "variables/variables"))
  graph = saved_model_pb2.SavedModel(meta_graphs=[{}])
  (tmp_path / "saved_model.pb").write_bytes(graph.SerializeToString())
  (tmp_path / "assets").mkdir()
  vocab.save(WORDS, tmp_path / "assets/words.txt")
  assert _check(tmp_path, "encoder", {}).lower_case is False


# --- Format 1 --------------------------------------------------------------


def _variable(name, *shape):
  initial = tf.compat.v1.random_normal_initializer(0.1, 0.4)
  return tf.compat.v1.get_variable(
    name, shape, initializer=initial, use_resource=False
  )


def _scope(name):
  return tf.compat.v1.variable_scope(name)


def _dense(x, units, name):
  with _scope(name):
    kernel = _variable("kernel", x.shape[-1], units)
    return x @ kernel + _variable("bias", units)


def _normalized(x):
  with _scope("LayerNorm"):
    mean, variance = tf.nn.moments(x, [-1], keepdims=True)
    gamma, beta = _variable("gamma", H), _variable("beta", H)
    return (x - mean) / tf.sqrt(variance + 1e-12) * gamma + beta


def _tanh_gelu(x):
  return 0.5 * x * (1 + tf.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def _erf_gelu(x):
  return 0.5 * x * (1 + tf.math.erf(x / np.sqrt(2.0)))


def _attention(x, mask):
  batch, length = tf.shape(mask)[0], tf.shape(mask)[1]
  with _scope("self"):
    queries, keys, values = (
      tf.transpose(
        tf.reshape(_dense(x, H, name), [batch, length, A, H // A]), [0, 2, 1, 3]
      )
      for name in ("query", "key", "value")
    )
    scores = queries @ tf.transpose(keys, [0, 1, 3, 2]) / np.sqrt(H / A)
    scores += (1 - tf.cast(mask, tf.float32))[:, None, None] * -10000.0
    context = tf.transpose(tf.nn.softmax(scores) @ values, [0, 2, 1, 3])
    context = tf.reshape(context, [-1, H])
  with _scope("output"):
    return _normalized(x + _dense(context, H, "dense"))


def _encoder(ids, mask, segments, gelu):
  """Returns the last layer, [N * T, H], in the original's scopes."""
  with _scope("embeddings"):
    x = tf.gather(_variable("word_embeddings", V, H), ids)
    x += tf.gather(_variable("token_type_embeddings", 2, H), segments)
    positions = _variable("position_embeddings", 16, H)
    x = _normalized(x + positions[: tf.shape(ids)[1]])
  x = tf.reshape(x, [-1, H])
  for i in range(2):
    with _scope(f"encoder/layer_{i}"):
      with _scope("attention"):
        x = _attention(x, mask)
      with _scope("intermediate"):
        inner = gelu(_dense(x, 20, "dense"))
      with _scope("output"):
        x = _normalized(x + _dense(inner, H, "dense"))
  return x


def _module_of_format_1(folder, gelu=_tanh_gelu, scope="", encoder="bert"):
  """Writes a module's files as hub.create_module_spec does."""
  vocab.save(WORDS, folder / "vocab.txt")
  with tf.Graph().as_default(), tf.compat.v1.Session() as session:
    tf.compat.v1.set_random_seed(1)
    names = ("input_ids", "input_mask", "segment_ids", "mlm_positions")
    inputs = {
      name: tf.compat.v1.placeholder(tf.int32, [None, None], name)
      for name in names
    }
    ids, mask, segments, positions = inputs.values()
    with _scope(f"{scope}{encoder}"):
      x = _encoder(ids, mask, segments, gelu)
      shape = tf.concat([tf.shape(ids), [H]], 0)
      sequence = tf.reshape(x, shape, name="sequence")
      with _scope("pooler"):
        pooled = tf.tanh(_dense(sequence[:, 0], H, "dense"))
    with _scope(f"{scope}cls/predictions"):
      x = tf.gather(sequence, positions, batch_dims=1)
      with _scope("transform"):
        x = _normalized(gelu(_dense(x, H, "dense")))
      name = f"{scope}{encoder}/embeddings/word_embeddings:0"
      table = tf.compat.v1.global_variables()
      table = next(v for v in table if v.name == name)
      logits = tf.matmul(x, table, transpose_b=True)
      logits += _variable("output_bias", V)
    session.run(tf.compat.v1.global_variables_initializer())
    path = tf.constant(str(folder / "vocab.txt"), name="vocab_file")
    tf.compat.v1.add_to_collection("asset_filepaths", path)
    outputs = {"sequence_output": sequence, "pooled_output": pooled}
    case = {"vocab_file": path, "do_lower_case": tf.constant(True)}
    signatures = {
      "tokens": ({name: inputs[name] for name in names[:3]}, outputs),
      "mlm": (inputs, outputs | {"mlm_logits": logits}),
      "tokenization_info": ({}, case),
    }
    build = tf.compat.v1.saved_model.build_signature_def
    info = tf.compat.v1.saved_model.build_tensor_info
    builder = tf.compat.v1.saved_model.Builder(str(folder / "module"))
    arguments = {
      "signature_def_map": {
        key: build(
          *({k: info(x) for k, x in tensors.items()} for tensors in signature)
        )
        for key, signature in signatures.items()
      },
      "assets_collection": [path],
    }
    builder.add_meta_graph_and_variables(session, [], **arguments)
    builder.add_meta_graph(["train"], **arguments)
    builder.save()
  (folder / "module/tfhub_module.pb").write_bytes(b"\x08\x03")  # format 3
  return folder / "module"


@pytest.mark.parametrize(
  ("gelu", "scope"), [(_tanh_gelu, ""), (_erf_gelu, "module/")]
)
def test_a_module_of_format_1_computes_the_same(tmp_path, gelu, scope):
  folder = _module_of_format_1(tmp_path, gelu, scope)
  signature = tf.saved_model.load(str(folder), tags=[]).signatures["mlm"]
  batch = small_model.batch(V, T)
  batch["mlm_positions"] = batch.pop("masked_lm_positions")
  expected = signature(**{k: tf.constant(v) for k, v in batch.items()})
  expected["masked_lm_logits"] = expected.pop("mlm_logits")
  bert = _check(folder, "masked_lm", expected)
  assert bert.lower_case is True
  assert bert.skipped == {}


def test_the_program_converts_a_module_with_its_vocabulary(tmp_path):
  folder = _module_of_format_1(tmp_path)
  log = run("convert_checkpoint", input=folder, output=tmp_path / "bert")
  assert "44 variables with the same bits" in log
  words = (tmp_path / "bert/vocab.txt").read_text().split()
  assert words == WORDS
  flags = {"input": folder, "output": tmp_path / "no"}
  message = "--use_moving_averages does not go with the format of --input="
  fails("convert_checkpoint", message, **flags, use_moving_averages=True)


def test_a_module_without_a_bert_is_refused(tmp_path):
  folder = _module_of_format_1(tmp_path, encoder="albert/module")
  with pytest.raises(UserError, match="has no bert/embeddings/word_embedd"):
    tf_hub.read(str(folder))
  (folder / "saved_model.pb").write_bytes(b"no graph")
  with pytest.raises(UserError, match=r"module is not laid out as expected"):
    tf_hub.read(str(folder))
