"""Hugging Face BERT folders: config.json, model.safetensors, vocab.txt.

Names there follow from the original's by a few substitutions; dense kernels are
transposed, and "gelu" means the exact form. hugging_face_export.py writes such
folders.
"""

import json
import os
import re

import numpy as np
from absl import logging
from safetensors import SafetensorError, safe_open

from training.conversion.interchange import (
  HEAD_VARIABLES,
  HEADS,
  Bert,
  names_what_it_reads,
)

CONFIG = "config.json"
WEIGHTS = "model.safetensors"
ASIDE = "left_over.safetensors"
TOKENIZER = "tokenizer_config.json"
VOCABULARY = "vocab.txt"

# In Hugging Face's config.json -> in the original's bert_config.json.
_ACTIVATIONS = {
  "gelu": "gelu_erf",
  "gelu_new": "gelu",
  "gelu_pytorch_tanh": "gelu",
  "gelu_python": "gelu_erf",
  "relu": "relu",
  "tanh": "tanh",
  "linear": "linear",
}
# What Hugging Face takes where config.json is silent and the original differs.
_DEFAULTS = {"type_vocab_size": 2}
# What the original cannot express.
_FIXED = {
  "model_type": "bert",
  "position_embedding_type": "absolute",
  "layer_norm_eps": 1e-12,
  "is_decoder": False,
  "add_cross_attention": False,
}
_SUBSTITUTIONS = (
  (r"^(embeddings|encoder|pooler)\.", r"bert.\1."),
  (r"\.layer\.(\d+)\.", r".layer_\1."),
  (r"_embeddings\.weight$", "_embeddings"),
  (r"LayerNorm\.weight$", "LayerNorm.gamma"),
  (r"LayerNorm\.bias$", "LayerNorm.beta"),
  (r"^cls\.predictions\.bias$", "cls.predictions.output_bias"),
  (r"^cls\.seq_relationship\.weight$", "cls.seq_relationship.output_weights"),
  (r"^cls\.seq_relationship\.bias$", "cls.seq_relationship.output_bias"),
  (r"^classifier\.weight$", "output_weights"),
  (r"^classifier\.bias$", "output_bias"),
  (r"^qa_outputs\.weight$", "cls.squad.output_weights"),
  (r"^qa_outputs\.bias$", "cls.squad.output_bias"),
  (r"\.weight$", ".kernel"),
  (r"\.", "/"),
)
_SUBSTITUTIONS_BACK = (
  (r"/", "."),
  (r"\.layer_(\d+)\.", r".layer.\1."),
  (r"_embeddings$", "_embeddings.weight"),
  (r"\.(kernel|gamma)$", ".weight"),
  (r"\.beta$", ".bias"),
  (r"^cls\.predictions\.output_bias$", "cls.predictions.bias"),
  (r"^cls\.seq_relationship\.output_weights$", "cls.seq_relationship.weight"),
  (r"^cls\.seq_relationship\.output_bias$", "cls.seq_relationship.bias"),
  (r"^output_weights$", "classifier.weight"),
  (r"^output_bias$", "classifier.bias"),
  (r"^cls\.squad\.output_weights$", "qa_outputs.weight"),
  (r"^cls\.squad\.output_bias$", "qa_outputs.bias"),
)
_POSITIONS = re.compile(r"(position|token_type)_ids$")
_TIED = {
  "cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
  "cls.predictions.decoder.bias": "cls.predictions.bias",
}


def original_name(name: str) -> str:
  """The original's name of a tensor: "a.b.weight" -> "a/b/kernel"."""
  return _substitute(name, _SUBSTITUTIONS)


def their_name(name: str) -> str:
  """A tensor's name of the original's: "a/b/kernel" -> "a.b.weight"."""
  return _substitute(name, _SUBSTITUTIONS_BACK)


def _substitute(name, substitutions):
  for pattern, replacement in substitutions:
    name = re.sub(pattern, replacement, name)
  return name


def recognizes(path: str) -> bool:
  """Whether this is such a folder."""
  names = (CONFIG, WEIGHTS, "pytorch_model.bin")
  return any(os.path.exists(os.path.join(path, name)) for name in names)


@names_what_it_reads
def read(folder: str) -> Bert:
  """Reads a folder.

  Raises:
    FileNotFoundError: config.json or model.safetensors is not there.
    ValueError: it is of another kind of model, or of a BERT that the original
      cannot express; names what it is.
  """
  settings = _read_json(folder, CONFIG)
  vocabulary = os.path.join(folder, VOCABULARY)
  bert = Bert(
    folder,
    {},
    _our_config(settings, os.path.join(folder, CONFIG)),
    vocabulary if os.path.exists(vocabulary) else None,
    _lower_case(folder),
    _labels(settings),
  )
  tensors = _read_tensors(os.path.join(folder, WEIGHTS))
  _drop_copies(bert, tensors, settings.get("tie_word_embeddings", True))
  architectures = settings.get("architectures") or ()
  for key, head in HEADS.items():
    if head.architecture in architectures:
      bert.head = key
  if bert.head == "multiple_choice":
    _take_choice(bert, tensors)
  for key, value in tensors.items():
    name = original_name(key)
    if name.startswith("bert/") or name in HEAD_VARIABLES:
      value = value.astype(np.float32)
      bert.values[name] = value.T if name.endswith("/kernel") else value
    else:
      bert.leave(key, "of no head that the original has")
  if os.path.exists(os.path.join(folder, ASIDE)):
    bert.values |= _read_tensors(os.path.join(folder, ASIDE))
  return bert


def _read_json(folder, name):
  path = os.path.join(folder, name)
  try:
    with open(path, encoding="utf-8") as file:
      values = json.load(file)
  except FileNotFoundError:
    raise FileNotFoundError(
      f"{folder} has no {name}; expected a Hugging Face BERT folder"
    ) from None
  except ValueError as error:
    raise ValueError(f"{path}: {error}") from None
  if not isinstance(values, dict):
    raise ValueError(f"{path}: expected a JSON object")
  return values


def _our_config(settings, path):
  """config.json as the values of a bert_config.json."""
  for key, wanted in _FIXED.items():
    if settings.get(key, wanted) != wanted:
      raise ValueError(f"{path}: {key} is {settings[key]!r}, not {wanted!r}")
  act = settings.get("hidden_act", "gelu")
  if act not in _ACTIVATIONS:
    raise ValueError(f"{path}: hidden_act {act!r} is unknown to BERT")
  return _DEFAULTS | settings | {"hidden_act": _ACTIVATIONS[act]}


def _lower_case(folder):
  if not os.path.exists(os.path.join(folder, TOKENIZER)):
    return None
  settings = _read_json(folder, TOKENIZER)
  lower = settings.get("do_lower_case", True)
  if settings.get("strip_accents") not in (None, lower):
    logging.warning(
      "%s: strip_accents is %s; the original strips them exactly where it "
      "lower-cases, so texts with accents get other tokens",
      os.path.join(folder, TOKENIZER),
      settings["strip_accents"],
    )
  return lower


def _labels(settings):
  """Names of the classes; none if they are but LABEL_0, LABEL_1, ..."""
  names = settings.get("id2label") or {}
  labels = tuple(names[key] for key in sorted(names, key=int))
  if all(label == f"LABEL_{i}" for i, label in enumerate(labels)):
    return ()
  return labels


def _read_tensors(path):
  if not os.path.exists(path):
    raise FileNotFoundError(
      f"{os.path.dirname(path)} has no {os.path.basename(path)} (a "
      "pytorch_model.bin is a pickle and not read: save the model with "
      "safe_serialization=True)"
    )
  try:
    with safe_open(path, "np") as file:
      return {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
  except SafetensorError as error:
    raise ValueError(f"{path} is no safetensors file: {error}") from None


def _drop_copies(bert, tensors, is_tied):
  """Takes out constants, and what is tied to another tensor."""
  for key, source in _TIED.items():
    value = tensors.pop(key, None)
    if value is None:
      continue
    if not is_tied and not np.array_equal(value, tensors.get(source)):
      raise ValueError(
        f"{bert.origin}: {key} is not {source}, to which the original ties it"
      )
    bert.leave(key, f"tied to {source}")
  for key in filter(_POSITIONS.search, list(tensors)):
    del tensors[key]
    bert.leave(key, "a constant")


def _take_choice(bert, tensors):
  bert.values["cls/choice"] = (
    tensors.pop("classifier.weight").astype(np.float32).reshape(-1)
  )
  if np.any(tensors.pop("classifier.bias", 0)):
    bert.leave("classifier.bias", "it moves all choices alike")
