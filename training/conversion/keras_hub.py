"""BERT presets of KerasHub on disk: config.json, model.weights.h5, assets.

In model.weights.h5 layers are numbered by kind and variables by place. Presets
from before Keras 3 have another top group in it and other spellings.

The head of a masked language model is the original's but for two constants:
KerasHub has the exact GELU and an epsilon of 1e-5 there.

Tested on what keras-hub 0.21 and 0.32 write. The older layout follows from the
code that reads it in Keras 3; no preset of that age was at hand.
"""

import json
import os
import re

import h5py
import numpy as np
from absl import logging

from training.conversion.interchange import (
  Bert,
  in_two_axes,
  names_what_it_reads,
)

_CONFIG, _WEIGHTS = "config.json", "model.weights.h5"
_TASK, _TASK_WEIGHTS = "task.json", "task.weights.h5"
_VOCABULARY = os.path.join("assets", "tokenizer", "vocabulary.txt")
_TOP = re.compile(r"(layers|_layer_checkpoint_dependencies)/")

# In KerasHub's config.json -> in bert_config.json.
_SIZES = {
  "vocabulary_size": "vocab_size",
  "hidden_dim": "hidden_size",
  "num_layers": "num_hidden_layers",
  "num_heads": "num_attention_heads",
  "intermediate_dim": "intermediate_size",
  "max_sequence_length": "max_position_embeddings",
  "num_segments": "type_vocab_size",
}
_DROPOUTS = ("hidden_dropout_prob", "attention_probs_dropout_prob")
_AROUND = {
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
_HEAD, _TRANSFORM = "masked_lm_head", "cls/predictions/transform"
_MASKED_LM = {
  f"{_HEAD}/intermediate_dense": f"{_TRANSFORM}/dense",
  f"{_HEAD}/intermediate_layer_norm": f"{_TRANSFORM}/LayerNorm",
}


def recognizes(path: str) -> bool:
  """Whether this is such a folder."""
  names = (_WEIGHTS, _TASK)
  return any(os.path.exists(os.path.join(path, name)) for name in names)


@names_what_it_reads
def read(folder: str) -> Bert:
  """Reads a preset: its backbone, and the head of its task if it has one.

  Raises:
    FileNotFoundError: a file of it is not there.
    ValueError: it is no BERT, or its weights are not laid out as a BERT's.
  """
  config = _config(folder)
  vocabulary = os.path.join(folder, _VOCABULARY)
  bert = Bert(
    folder,
    {},
    config,
    vocabulary if os.path.exists(vocabulary) else None,
    _lower_case(folder),
  )
  path = os.path.join(folder, _WEIGHTS)
  arrays = _read_arrays(path)
  _take_embeddings(bert, path, arrays)
  layers = dict(_AROUND)
  depth = config["num_hidden_layers"]
  if depth > len(arrays):  # before a wrong number fills the memory
    raise ValueError(
      f"{folder}/{_CONFIG} says num_layers {depth}, and {path} has "
      f"no more than {len(arrays)} variables"
    )
  for i in range(depth):
    block = f"transformer_encoder_{i}" if i else "transformer_encoder"
    layers |= {
      f"{block}/{theirs}": f"bert/encoder/layer_{i}/{ours}"
      for theirs, ours in _BLOCK.items()
    }
  _take(bert, path, arrays, layers)
  for name in arrays:
    bert.leave(name, "of nothing that the original has")
  if os.path.exists(os.path.join(folder, _TASK)):
    _take_head(bert, folder)
  return bert


def _read_json(folder, name):
  path = os.path.join(folder, name)
  try:
    with open(path, encoding="utf-8") as file:
      return json.load(file)
  except FileNotFoundError:
    raise FileNotFoundError(
      f"{folder} has no {name}; expected a preset of KerasHub"
    ) from None
  except ValueError as error:
    raise ValueError(f"{path}: {error}") from None


def _config(folder):
  described = _read_json(folder, _CONFIG)
  kind = described.get("class_name")
  if kind != "BertBackbone":
    raise ValueError(
      f"{folder}/{_CONFIG} describes a {kind}; only a BertBackbone is a BERT"
    )
  theirs = described["config"]
  missing = _SIZES.keys() - theirs.keys()
  if missing:
    raise ValueError(f"{folder}/{_CONFIG} does not say {min(missing)}")
  config = {ours: theirs[key] for key, ours in _SIZES.items()}
  dropout = theirs.get("dropout", 0.1)
  return config | {"hidden_act": "gelu"} | dict.fromkeys(_DROPOUTS, dropout)


def _lower_case(folder):
  if not os.path.exists(os.path.join(folder, "tokenizer.json")):
    return None
  return _read_json(folder, "tokenizer.json")["config"].get("lowercase")


def _read_arrays(path):
  """{path of a variable: value}, spelt alike whatever Keras wrote it."""
  if not os.path.exists(path):
    raise FileNotFoundError(
      f"{path} is not there; a preset with weights in several files "
      "(model.weights.json) is not read"
    )
  arrays = {}

  def add(name, item):
    if isinstance(item, h5py.Dataset) and _TOP.match(name):
      name = _TOP.sub("", name, count=1).replace("/_", "/")
      name = name.replace("layernorm", "layer_norm")
      arrays[name.removeprefix("_")] = np.asarray(item)

  try:
    with h5py.File(path) as file:
      file.visititems(add)
  except OSError as error:
    raise ValueError(f"{path} cannot be read: {error}") from None
  return arrays


def _take_embeddings(bert, path, arrays):
  """The three tables, two of which only their lengths tell apart."""
  lengths = {
    bert.config["vocab_size"]: "word_embeddings",
    bert.config["type_vocab_size"]: "token_type_embeddings",
  }
  for name in [name for name in arrays if "embedding" in name.split("/")[0]]:
    length = len(arrays[name])
    ours = lengths.get(length, "unknown")
    if name.startswith("position_embedding"):
      ours = "position_embeddings"
    if ours == "unknown":
      raise ValueError(
        f"{path}: {name} has {length} rows, {_CONFIG} says "
        f"{' or '.join(map(str, lengths))}"
      )
    bert.values[f"bert/embeddings/{ours}"] = _float(arrays.pop(name))


def _take(bert, path, arrays, layers):
  """Moves layers, {their path: our name}, from the arrays to the model."""
  for theirs, ours in layers.items():
    leaves = ("gamma", "beta") if ours.endswith("Norm") else ("kernel", "bias")
    for i, leaf in enumerate(leaves):
      key, name = f"{theirs}/vars/{i}", f"{ours}/{leaf}"
      if key not in arrays:
        raise ValueError(
          f"{path} has no {key}; it has {', '.join(sorted(arrays)[:3])}, ..."
        )
      bert.values[name] = in_two_axes(name, _float(arrays.pop(key)))


def _take_head(bert, folder):
  """What task.weights.h5 has beside the backbone, if that is known here."""
  task = _read_json(folder, _TASK).get("class_name")
  path = os.path.join(folder, _TASK_WEIGHTS)
  arrays = _read_arrays(path)
  if task == "BertMaskedLM":
    _take(bert, path, arrays, _MASKED_LM)
    bias = _float(arrays.pop(f"{_HEAD}/vars/0"))
    bert.values["cls/predictions/output_bias"] = bias
    logging.warning(
      "KerasHub's masked-LM head has the exact GELU and an epsilon of 1e-5, "
      "the original's has neither: its logits will differ slightly"
    )
  elif task in ("BertTextClassifier", "BertClassifier"):
    bert.values["output_weights"] = _float(arrays.pop("dense/vars/0")).T
    bert.values["output_bias"] = _float(arrays.pop("dense/vars/1"))
  else:
    bert.leave(task, "a task that the original has not")


def _float(value):
  return value.astype(np.float32)
