"""The HTML file: a template, its style and script, and the numbers in it.

It loads nothing, and shows texts as plain text. Attention is a byte each, 255
for all of it, deflated and in base 64.
"""

import base64
import json
import re
import zlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from serving.export import ServedModel
from serving.visualization.internals import Internals

_HERE = Path(__file__).parent
_SERVER = _HERE.parent / "server"  # its page shows answers in the same way
_VECTORS = {"sentence", "token_vectors", "tokens", "num_tokens"}


def render(
  served: ServedModel, internals: Internals, texts: Mapping, name: str
) -> str:
  """The page of an example; `name` is that of the model."""
  tokenizer = served.answers.config.tokenizer
  config = served.model.get_layer("bert").config
  answer = internals.answer
  if "sentence" in answer:  # nobody reads vectors
    answer = {k: v for k, v in answer.items() if k not in _VECTORS}
  if "words" in answer:
    answer = answer | {"pieces": [*map(tokenizer.tokenize, answer["words"])]}
  data = internals._asdict() | {
    "facts": {
      "model": name,
      "task": served.answers.task.replace("_", " "),
      "layers": config.num_hidden_layers,
      "heads": config.num_attention_heads,
      "hidden size": config.hidden_size,
      "vocabulary": f"{config.vocab_size:,}",
      "attention": config.attention.replace("_", " "),
    },
    "texts": texts,
    "answer": answer,
    "sequences": [_sequence(tokenizer, s) for s in internals.sequences],
  }
  # In a script, "<" could end it or begin a comment.
  text = json.dumps(data, ensure_ascii=False).replace("<", r"\u003c")
  parts = {
    "style": _read(_SERVER / "answers.css") + _read(_HERE / "page.css"),
    "data": text,
    "script": _read(_SERVER / "answers.js") + _read(_HERE / "page.js"),
  }
  template = _read(_HERE / "page.html")
  return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], template)


def _read(path):
  return path.read_text(encoding="utf-8")


def _sequence(tokenizer, sequence):
  attention = np.rint(sequence.attention * 255).astype(np.uint8).tobytes()
  ids = sequence.ids.tolist()
  return {
    "ids": ids,
    "tokens": tokenizer.convert_ids_to_tokens(ids),
    "segments": sequence.segments.tolist(),
    "length": sequence.length,
    "heads": sequence.attention.shape[1],
    "attention": base64.b64encode(zlib.compress(attention, 9)).decode(),
  } | {
    name: [float(f"{value:.4g}") for value in values]
    for name, values in sequence.values.items()
  }
