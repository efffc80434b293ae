"""Hugging Face BERT folders from a model with the original's names.

Each kind of head is a class of its own there, which takes nothing that it has
no place for. What it has no place for (the pooler of a tagger, say) goes to a
file that only hugging_face.py reads, so that nothing is lost there and back.

Legend: H hidden.
"""

import json
import os

import numpy as np
from absl import logging
from safetensors.numpy import save

from training.conversion import interchange
from training.conversion.hugging_face import (
  ASIDE,
  CONFIG,
  TOKENIZER,
  VOCABULARY,
  WEIGHTS,
  their_name,
)
from training.conversion.interchange import HEADS, Bert, Head

# In the original's bert_config.json -> in Hugging Face's config.json.
_ACTIVATIONS = {
  "gelu_erf": "gelu",
  "gelu": "gelu_new",
  "relu": "relu",
  "tanh": "tanh",
  "linear": "linear",
}
_SIZES = (
  "vocab_size",
  "hidden_size",
  "num_hidden_layers",
  "num_attention_heads",
  "intermediate_size",
  "hidden_dropout_prob",
  "attention_probs_dropout_prob",
  "max_position_embeddings",
  "type_vocab_size",
  "initializer_range",
)


def targets(folder: str) -> list[str]:
  """Paths that `write` would make."""
  names = (CONFIG, WEIGHTS, ASIDE, TOKENIZER, VOCABULARY)
  return [os.path.join(folder, name) for name in names]


def write(bert: Bert, folder: str, head: str) -> None:
  """Writes a folder that transformers loads without a missing tensor.

  Args:
    bert: the model; `left` is told what its class has no place for.
    folder: where to, on this machine.
    head: a key of HEADS.

  Raises:
    ValueError: its labels are not as many as its classes.
  """
  kind = HEADS[head]
  settings = _their_config(bert, kind)
  tensors, aside = _divide(bert, kind)
  os.makedirs(folder, exist_ok=True)
  _write_json(os.path.join(folder, CONFIG), settings)
  _save(tensors, os.path.join(folder, WEIGHTS))
  if aside:
    _save(aside, os.path.join(folder, ASIDE))
  elif os.path.exists(os.path.join(folder, ASIDE)):
    os.remove(os.path.join(folder, ASIDE))  # of what was here before
  if bert.vocabulary:
    interchange.copy(bert.vocabulary, os.path.join(folder, VOCABULARY))
    _write_json(os.path.join(folder, TOKENIZER), _tokenizer(bert))
  else:
    logging.warning(
      "%s has no vocabulary, so there is no tokenizer: --vocab_file names it",
      bert.origin,
    )


def _save(tensors, path):
  """Writes a file that is there whole or not at all."""
  with open(f"{path}.unfinished", "wb") as file:
    # Without "format" transformers refuses it.
    file.write(save(tensors, {"format": "pt"}))
  os.replace(f"{path}.unfinished", path)


def _divide(bert: Bert, kind: Head) -> tuple[dict, dict]:
  """Tensors that the class has, and the variables that it has not."""
  tensors, aside = {}, {}
  for name, value in bert.values.items():
    if not _has_place(name, kind):
      aside[name] = value
    elif name == "cls/choice":
      tensors["classifier.weight"] = value[np.newaxis]  # [1, H]
      tensors["classifier.bias"] = np.zeros(1, value.dtype)
    else:
      key = their_name(name)
      if not kind.variables:
        key = key.removeprefix("bert.")
      value = value.T if name.endswith("/kernel") else value
      tensors[key] = np.ascontiguousarray(value)
  for name in aside:
    bert.leave(
      name, f"{kind.architecture} has no place for it; kept in {ASIDE}"
    )
  return tensors, aside


def _has_place(name, kind):
  if name.startswith("bert/pooler/"):
    return kind.pools
  return name.startswith("bert/") or name in kind.variables


def _their_config(bert: Bert, kind: Head) -> dict:
  settings = {key: bert.config[key] for key in _SIZES} | {
    "architectures": [kind.architecture],
    "model_type": "bert",
    "hidden_act": _ACTIVATIONS[bert.config["hidden_act"]],
    "layer_norm_eps": 1e-12,
    "pad_token_id": 0,  # the original pads with 0, whatever the vocabulary says
    "tie_word_embeddings": True,
  }
  if "output_weights" in kind.variables:
    interchange.check_labels(bert)
    names = bert.labels or [f"LABEL_{i}" for i in range(bert.num_labels)]
    settings["id2label"] = {str(i): name for i, name in enumerate(names)}
    settings["label2id"] = {name: i for i, name in enumerate(names)}
    if kind.pools and bert.num_labels == 1:
      settings["problem_type"] = "regression"
  return settings


def _tokenizer(bert: Bert) -> dict:
  return {
    "tokenizer_class": "BertTokenizer",
    "do_lower_case": bert.lower_case is not False,
    "strip_accents": None,  # exactly where it lower-cases
    "tokenize_chinese_chars": True,
    "model_max_length": bert.config["max_position_embeddings"],
    "pad_token": "[PAD]",
    "unk_token": "[UNK]",
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "mask_token": "[MASK]",
  }


def _write_json(path, values):
  with open(path, "w", encoding="utf-8") as file:
    json.dump(values, file, indent=2, ensure_ascii=False, sort_keys=True)
    file.write("\n")
