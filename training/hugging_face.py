"""Hugging Face BERT folders: config.json, model.safetensors, vocab.txt.

Names there follow from the original's by a few substitutions; dense kernels are
transposed, and "gelu" means the exact form.
"""

import json
import os
import re

import numpy as np
from safetensors import SafetensorError, safe_open

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
# Buffers, and copies of the tied embedding and its bias.
_REDUNDANT = re.compile(r"position_ids$|^cls\.predictions\.decoder\.")


def original_name(name: str) -> str:
  """The original's name of a tensor: "a.b.weight" -> "a/b/kernel"."""
  for pattern, replacement in _SUBSTITUTIONS:
    name = re.sub(pattern, replacement, name)
  return name


def read_config(folder: str) -> dict:
  """config.json as the values of a bert_config.json.

  Raises:
    FileNotFoundError: there is none.
    ValueError: it is of another kind of model, or of a BERT that the original
      cannot express; names key and value.
  """
  path = os.path.join(folder, "config.json")
  try:
    with open(path, encoding="utf-8") as file:
      values = json.load(file)
  except FileNotFoundError:
    raise FileNotFoundError(
      f"{folder} has no config.json; expected a Hugging Face BERT folder"
    ) from None
  except ValueError as error:
    raise ValueError(f"{path}: {error}") from None
  for key, wanted in (
    ("model_type", "bert"),
    ("position_embedding_type", "absolute"),
    ("layer_norm_eps", 1e-12),
  ):
    if values.get(key, wanted) != wanted:
      raise ValueError(f"{path}: {key} is {values[key]!r}, not {wanted!r}")
  act = values.get("hidden_act", "gelu")
  if act not in _ACTIVATIONS:
    raise ValueError(f"{path}: hidden_act {act!r} is unknown to BERT")
  return values | {"hidden_act": _ACTIVATIONS[act]}


def read_weights(folder: str) -> tuple[dict[str, np.ndarray], list[str]]:
  """All tensors of model.safetensors under the original's names, float32.

  Returns:
    {name: value} and the tensors that are left out, being copies or constants.

  Raises:
    FileNotFoundError: there is no model.safetensors.
    ValueError: it is no safetensors file.
  """
  path = os.path.join(folder, "model.safetensors")
  if not os.path.exists(path):
    raise FileNotFoundError(
      f"{folder} has no model.safetensors (a pytorch_model.bin is a pickle and "
      "not read: save the model with safe_serialization=True)"
    )
  values, left = {}, []
  try:
    with safe_open(path, "np") as file:
      for key in file.keys():  # noqa: SIM118, it is no dict
        if _REDUNDANT.search(key):
          left.append(key)
          continue
        name = original_name(key)
        value = file.get_tensor(key).astype(np.float32)
        values[name] = value.T if name.endswith("/kernel") else value
  except SafetensorError as error:
    raise ValueError(f"{path} is no safetensors file: {error}") from None
  return values, left
