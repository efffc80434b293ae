"""BERT presets of KerasHub on disk: config.json, model.weights.h5, assets.

A layer's variables have numbers, not names. Tested with keras-hub 0.21 and
0.32; presets from before Keras 3 are untested.
"""

import os
import re

import h5py
import numpy as np

from conversion import interchange
from conversion.interchange import CanonicalModel
from storage import UserError, files, textfiles

_CONFIG, _WEIGHTS = "config.json", "model.weights.h5"
_TASK, _TASK_WEIGHTS = "task.json", "task.weights.h5"
_VOCABULARY = os.path.join("assets", "tokenizer", "vocabulary.txt")
_TOP = re.compile(r"(layers|_layer_checkpoint_dependencies)/")

# config.json -> bert_config.json.
_SIZES = {
  "vocabulary_size": "vocab_size",
  "hidden_dim": "hidden_size",
  "num_layers": "num_hidden_layers",
  "num_heads": "num_attention_heads",
  "intermediate_dim": "intermediate_size",
  "max_sequence_length": "max_position_embeddings",
  "num_segments": "type_vocab_size",
}
_NON_BLOCK = {
  "layer_normalization": "bert/embeddings/LayerNorm",
  "dense": "bert/pooler/dense",
}
_BLOCK = {
  "self_attention_layer/query_dense": "attention/self/query",
  "self_attention_layer/key_dense": "attention/self/key",
  "self_attention_layer/value_dense": "attention/self/value",
  "self_attention_layer/output_dense": "attention/output/dense",
  "self_attention_layer_norm": "attention/output/LayerNorm",
  "feedforward_intermediate_dense": "intermediate/dense",
  "feedforward_output_dense": "output/dense",
  "feedforward_layer_norm": "output/LayerNorm",
}
_TRANSFORM = "cls/predictions/transform"
_MASKED_LM = {
  "masked_lm_head/intermediate_dense": f"{_TRANSFORM}/dense",
  "masked_lm_head/intermediate_layer_norm": f"{_TRANSFORM}/LayerNorm",
}


@interchange.names_path
def read(folder: str) -> CanonicalModel:
  """Reads a preset: the backbone and, if there is a task, the task's head."""
  described = textfiles.read_json(os.path.join(folder, _CONFIG))
  if (kind := described.get("class_name")) != "BertBackbone":
    raise UserError(f"{folder} describes a {kind}, not a BertBackbone")
  config = {name: described["config"][key] for key, name in _SIZES.items()}
  bert = CanonicalModel(folder, config=config | {"hidden_act": "gelu"})
  vocabulary = os.path.join(folder, _VOCABULARY)
  bert.vocabulary = vocabulary if files.exists(vocabulary) else None
  if files.exists(tokenizer := os.path.join(folder, "tokenizer.json")):
    bert.lower_case = textfiles.read_json(tokenizer)["config"].get("lowercase")
  arrays = _read_arrays(os.path.join(folder, _WEIGHTS))
  lengths = {
    config["vocab_size"]: "word_embeddings",
    config["type_vocab_size"]: "token_type_embeddings",
  }
  for name in [name for name in arrays if "embedding" in name.split("/")[0]]:
    table = arrays.pop(name)
    is_position = name.startswith("position_embedding")
    kind = "position_embeddings" if is_position else lengths[len(table)]
    bert.values[f"bert/embeddings/{kind}"] = table
  _convert(bert, arrays, _NON_BLOCK)
  for i in range(config["num_hidden_layers"]):
    block = f"transformer_encoder_{i}" if i else "transformer_encoder"
    _convert(bert, arrays, _BLOCK, f"{block}/", f"bert/encoder/layer_{i}/")
  for name in arrays:
    bert.skip(name, "of no layer that the original has")
  if files.exists(os.path.join(folder, _TASK)):
    _convert_head(bert, folder)
  return bert


def _read_arrays(path):
  """Returns {path of a variable: value}; paths are spelled as in Keras 3."""
  arrays = {}

  def add(name, item):
    if isinstance(item, h5py.Dataset) and _TOP.match(name):
      name = _TOP.sub("", name, count=1).replace("/_", "/")
      name = name.replace("layernorm", "layer_norm")
      kind = item.attrs.get("dtype", item.dtype.name)  # HDF5 lacks bfloat16
      if kind in ("int8", "uint8"):
        raise UserError(f"{path}: {name} is {kind}: save it before quantize()")
      arrays[name.removeprefix("_")] = item.astype(kind)[()].astype(np.float32)

  with files.open_for_reading(path) as file, h5py.File(file) as variables:
    variables.visititems(add)
  return arrays


def _convert(bert, arrays, layers, block="", scope=""):
  for layer, name in layers.items():
    leaves = ("gamma", "beta") if name.endswith("Norm") else ("kernel", "bias")
    for i, leaf in enumerate(leaves):
      path = f"{scope}{name}/{leaf}"
      value = arrays.pop(f"{block}{layer}/vars/{i}")
      bert.values[path] = interchange.merge_heads(path, value)


def _convert_head(bert, folder):
  task = textfiles.read_json(os.path.join(folder, _TASK)).get("class_name")
  arrays = _read_arrays(os.path.join(folder, _TASK_WEIGHTS))
  if task == "BertMaskedLM":
    # KerasHub's head has the exact GELU and an epsilon of 1e-5.
    _convert(bert, arrays, _MASKED_LM)
    bert.values["cls/predictions/output_bias"] = arrays["masked_lm_head/vars/0"]
  elif task in ("BertTextClassifier", "BertClassifier"):
    bert.values["output_weights"] = arrays["dense/vars/0"].T
    bert.values["output_bias"] = arrays["dense/vars/1"]
  else:
    bert.skip(task, "of a task that the original does not have")
