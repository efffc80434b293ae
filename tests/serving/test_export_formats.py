"""LiteRT and Keras exports give the model's outputs. The docs list formats."""

import json
from dataclasses import replace

import keras
import numpy as np
import pytest
import tensorflow as tf
from ai_edge_litert.interpreter import Interpreter

from data.tokenization import FullTokenizer
from modeling import heads, models
from serving import export, tflite
from serving.answers import TextConfig
from serving.export import ServedModel
from serving.formats import ENGINES, FORMATS
from storage import UserError
from tasks.classification import answers as classification
from tests import programs, small_model

T = 16
CONFIG = small_model.config(50, hidden_size=64, intermediate_size=64)
ERF = replace(CONFIG, hidden_act="gelu_erf")
LEFT_TO_RIGHT = replace(CONFIG, attention="left_to_right")
FILES = ("model_float32.tflite", "model_float16.tflite", "model_int8.tflite")
MODELS = {
  "classifier": lambda: models.classifier(CONFIG, 2),
  "classifier with exact gelu": lambda: models.classifier(ERF, 2),
  "left to right": lambda: models.classifier(LEFT_TO_RIGHT, 2),
  "tagger by features": lambda: models.feature_based_tagger(
    CONFIG, 3, "last", 4, any_device=True
  ),
}


def _inputs(model, batch, length):
  draw, shape = np.random.default_rng(batch).integers, (batch, length)
  inputs = {name: draw(0, 2, shape, np.int32) for name in model.input}
  inputs["input_ids"] = draw(0, CONFIG.vocab_size, shape, np.int32)
  inputs["input_mask"][..., 0] = 1
  return inputs


def _served(folder, model):
  """Returns a ServedModel with classifier answers for any model."""
  (folder / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n")
  config = TextConfig(FullTokenizer(folder / "vocab.txt", False), T)
  return ServedModel(model, classification.Answers(config, pairs=False))


@pytest.mark.slow  # tests/serving/test_engines.py has quick tests
@pytest.mark.parametrize("name", MODELS)
def test_litert_computes_the_outputs_of_the_model(name, tmp_path):
  model = MODELS[name]()
  folder = tmp_path / "export"
  folder.mkdir()
  tflite.save(str(folder), _served(tmp_path, model))
  assert sorted(path.name for path in folder.iterdir()) == sorted(FILES)
  for file, bound in zip(FILES, (1e-4, 2e-2, 0.3), strict=True):
    interpreter = Interpreter(str(folder / file))
    names = {row["op_name"] for row in interpreter._get_ops_details()}
    assert not [name for name in names if name.startswith(("Flex", "VAR"))]
    ask = interpreter.get_signature_runner("serving_default")
    for length in (T, 5, 9):
      inputs = _inputs(model, 1, length)
      _assert_close(ask(**inputs), model(inputs), bound)


def _assert_close(result, expected, bound):
  assert sorted(result) == sorted(expected)
  for output, value in expected.items():
    np.testing.assert_allclose(result[output], value, atol=bound)


def test_a_failed_export_to_litert_leaves_nothing(tmp_path, monkeypatch):
  def fail(self):
    raise RuntimeError("some ops are not supported")

  monkeypatch.setattr(tf.lite.TFLiteConverter, "convert", fail)
  served = _served(tmp_path, MODELS["classifier"]())
  with pytest.raises(UserError, match="with export_format=savedmodel"):
    export.save(str(tmp_path / "export"), served, ["tflite"])
  assert not (tmp_path / "export").exists()


def test_the_name_of_each_litert_file_says_its_types(tmp_path, monkeypatch):
  def convert(converter):
    types = [t.name for t in converter.target_spec.supported_types]
    return json.dumps([bool(converter.optimizations), types]).encode()

  monkeypatch.setattr(tf.lite.TFLiteConverter, "convert", convert)
  tflite.save(str(tmp_path), _served(tmp_path, MODELS["classifier"]()))
  values = [json.loads((tmp_path / file).read_text()) for file in FILES]
  assert values == [[False, []], [True, ["float16"]], [True, []]]


def test_keras_loads_an_export_with_the_same_outputs(tmp_path):
  model = MODELS["classifier"]()
  export.save(str(tmp_path / "export"), _served(tmp_path, model), ["keras"])
  again = keras.saving.load_model(tmp_path / "export" / "model.keras")
  inputs = _inputs(model, 3, 7)
  _assert_close(again(inputs), model(inputs), 1e-6)


def test_a_loaded_lstm_still_runs_on_any_device():
  lstm = heads.BiLstm(4, use_cudnn=False)
  again = heads.BiLstm.from_config(lstm.get_config())
  assert again.stack[0].forward_layer.use_cudnn is False


# --- The table of formats -------------------------------------------------


def test_help_and_docs_name_each_format_and_engine():
  done = programs.python(["run_ner.py", "--help"])
  text = (programs.ROOT / "docs/serving.md").read_text()
  for name, row in FORMATS.items():
    assert f"{name}:" in done.stdout and f"\n| `{name}` |" in text
    assert all(f"`{file}`" in text for file in row.files.values())
    assert callable(row.module.save)
  assert all(f'"{engine}"' in text for engine in ENGINES if engine != "auto")
