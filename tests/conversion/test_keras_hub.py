"""KerasHub presets: values and names of layers.

keras-hub 0.32.0 wrote golden/keras_hub/preset (BertMaskedLM, random weights,
`save_to_preset`). golden/keras_hub/classifier has the files that differ in a
BertTextClassifier on the same backbone. outputs.npz has both models' outputs.
"""

import json
import shutil
from pathlib import Path

import h5py
import numpy as np
import pytest

from conversion import interchange, keras_hub, original
from modeling.config import BertConfig
from tests.conversion.test_hugging_face import MODELS

GOLDEN = Path(__file__).parent / "golden" / "keras_hub"


@pytest.fixture
def preset(tmp_path):
  return Path(shutil.copytree(GOLDEN / "preset", tmp_path / "preset"))


@pytest.fixture
def expected():
  return np.load(GOLDEN / "outputs.npz")


def _outputs(bert, head, expected):
  model = MODELS[head](BertConfig.from_dict(bert.config))
  original.assign(model, bert, head)
  return model({name: expected[name] for name in model.input})


def test_a_converted_encoder_computes_equal_outputs(preset, expected):
  bert = keras_hub.read(str(preset))
  result = _outputs(bert, "encoder", expected)
  for name in ("sequence_output", "pooled_output"):
    np.testing.assert_allclose(result[name], expected[name], atol=1e-5)
  assert bert.skipped == {}
  assert bert.lower_case is False
  assert Path(bert.vocabulary).read_text().startswith("[PAD]\n")


@pytest.mark.parametrize("name", ["BertTextClassifier", "BertClassifier"])
def test_a_converted_classifier_computes_equal_outputs(preset, expected, name):
  shutil.copytree(GOLDEN / "classifier", preset, dirs_exist_ok=True)
  (preset / "task.json").write_text(json.dumps({"class_name": name}))
  bert = keras_hub.read(str(preset))
  assert interchange.head_of(bert) == "classification"
  result = _outputs(bert, "classification", expected)
  np.testing.assert_allclose(result["logits"], expected["logits"], atol=1e-5)


def test_a_converted_masked_lm_head_has_nearly_equal_outputs(preset, expected):
  bert = keras_hub.read(str(preset))
  assert interchange.head_of(bert) == "masked_lm"
  result = _outputs(bert, "masked_lm", expected)["masked_lm_logits"]
  # KerasHub's head has the exact GELU and an epsilon of 1e-5.
  assert 0 < np.max(np.abs(result - expected["masked_lm_logits"])) < 5e-3


# Names of layers from Keras 2, and the names from Keras 3.
LAYERS = {
  "a/_self_attention_layer/_query_dense": "a/self_attention_layer/query_dense",
  "a/_feedforward_layernorm": "a/feedforward_layer_norm",
  "_pooled_dense": "pooled_dense",
}


def test_the_layer_names_of_keras_2_and_bfloat16_are_read(tmp_path):
  path = str(tmp_path / "model.weights.h5")
  with h5py.File(path, "w") as file:
    for name in LAYERS:
      name = f"_layer_checkpoint_dependencies/{name}/vars/0"
      file[name] = np.array([1.5], "bfloat16")
      file[name].attrs["dtype"] = "bfloat16"
  names = {f"{name}/vars/0" for name in LAYERS.values()}
  assert keras_hub._read_arrays(path) == dict.fromkeys(names, 1.5)


@pytest.mark.parametrize(
  ("change", "message"),
  [
    (lambda c: c.update(class_name="Roberta"), "Roberta, not a BertBackbone"),
    (lambda c: c["config"].pop("num_heads"), "corrupt: KeyError.'num_heads'"),
    (lambda c: c["config"].update(num_layers=3), "KeyError.*_encoder_2/"),
  ],
)
def test_a_preset_of_a_wrong_class_or_size_is_refused(preset, change, message):
  path = preset / "config.json"
  described = json.loads(path.read_text())
  change(described)
  path.write_text(json.dumps(described))
  with pytest.raises(ValueError, match=message):
    keras_hub.read(str(preset))


def test_corrupt_and_quantized_weights_are_reported(preset):
  weights = preset / "model.weights.h5"
  weights.write_bytes(b"no HDF5")
  with pytest.raises(ValueError, match=r"preset is not laid out .* OSError"):
    keras_hub.read(str(preset))
  with h5py.File(weights, "w") as file:
    file["layers/a/vars/0"] = np.int8([1])
  with pytest.raises(ValueError, match=r"a/vars/0 is int8: .* quantize\(\)"):
    keras_hub.read(str(preset))


def test_a_preset_of_an_unknown_task_gives_the_encoder(preset):
  (preset / "task.json").write_text('{"class_name": "BertTextEmbedder"}')
  bert = keras_hub.read(str(preset))
  reason = "of a task that the original does not have"
  assert bert.skipped == {reason: ["BertTextEmbedder"]}
  assert interchange.head_of(bert) == "encoder"
