"""Versions of real SavedModels."""

import numpy as np
import pytest
import tensorflow as tf

from serving import warm_up
from serving.server.models import Settings
from serving.server.rest import RestError
from serving.server.saved_model import Version


def save(folder):
  """Writes a SavedModel that measures texts and halves numbers."""

  @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")])
  def measure(text):
    return {"length": tf.strings.length(text), "text": text}

  @tf.function(input_signature=[tf.TensorSpec([None], tf.int32, name="index")])
  def look_up(index):
    return {"y": tf.gather([2.5, 3.0, 4.5], index)}

  module = tf.Module()
  signatures = {"serving_default": measure, "look_up": look_up}
  tf.saved_model.save(module, str(folder), signatures=signatures)


@pytest.fixture(name="folder", scope="module")
def _folder(tmp_path_factory):
  folder = tmp_path_factory.mktemp("saved") / "1"
  save(folder)
  return str(folder)


@pytest.fixture(name="version", scope="module")
def _version(folder):
  sizes = []
  version = Version(folder, Settings(warm_up=False), sizes.append)
  version.sizes = sizes
  yield version
  version.batcher.close()


def _ask(version, name, **inputs):
  future = version.batcher.submit(version.functions[name], inputs)
  return {key: value.tolist() for key, value in future.result(20).items()}


def test_answers(version):
  texts = np.array([b"abc", "né".encode()], object)
  answer = _ask(version, "serving_default", text=texts)
  assert answer == {"length": [3, 3], "text": [b"abc", "né".encode()]}
  answer = _ask(version, "look_up", index=np.array([2, 0], np.int32))
  assert answer == {"y": [4.5, 2.5]}
  assert version.sizes == [2, 2]


def test_an_error_of_tensorflow_has_its_status(version):
  with pytest.raises(RestError, match=r"indices\[0\] = 7") as error:
    _ask(version, "look_up", index=np.array([7], np.int32))
  assert error.value.status == 400


def test_metadata_is_that_of_tf_serving(version):
  assert version.signature_def["look_up"] == {
    "inputs": {
      "index": {
        "name": "look_up_index:0",
        "dtype": "DT_INT32",
        "tensor_shape": {
          "dim": [{"size": "-1", "name": ""}],
          "unknown_rank": False,
        },
      }
    },
    "outputs": {
      "y": {
        "name": "PartitionedCall:0",
        "dtype": "DT_FLOAT",
        "tensor_shape": {
          "dim": [{"size": "-1", "name": ""}],
          "unknown_rank": False,
        },
      }
    },
    "method_name": "tensorflow/serving/predict",
    "defaults": {},
  }
  text = version.signature_def["serving_default"]["inputs"]["text"]
  assert text["dtype"] == "DT_STRING"


def test_warm_up_calls_the_model_and_says_so(folder, capsys):
  version = Version(folder, Settings(), lambda size: None)
  version.batcher.close()
  assert "warmed up 1 of 1 shapes" in capsys.readouterr().err


def test_warm_up_sends_what_the_export_has_for_it(tmp_path, capsys):
  folder = str(tmp_path / "1")
  save(folder)
  texts = [{"text": tf.constant(["a"] * number)} for number in (1, 2, 4)]
  warm_up.save(folder, iter(texts))
  version = Version(folder, Settings(), lambda size: None)
  version.batcher.close()
  assert "warmed up 3 of 3 shapes" in capsys.readouterr().err
