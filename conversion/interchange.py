"""Formats in which a BERT is stored, and the model that all readers return."""

import functools
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from absl import logging

from data import labels
from storage import UserError, files, setting
from training import checkpoint_files

ORIGINAL, HUGGING_FACE = "original", "hugging_face"
KERAS_HUB, MODEL_GARDEN, TF_HUB = "KerasHub", "Model Garden", "TensorFlow Hub"
HUB, ZIPS = "hf://", ("https://", "http://")  # how a URL begins
# {format: files}. A folder with one of the files has the format.
_MARKS = {
  KERAS_HUB: ("model.weights.h5",),
  HUGGING_FACE: ("config.json", "model.safetensors", "modules.json"),
  TF_HUB: ("saved_model.pb",),
}
VOCABULARY = "vocab.txt"
GRAPH_KEY = "_CHECKPOINTABLE_OBJECT_GRAPH"  # of object-based checkpoints
CHECKPOINT, BERT_CONFIG = "bert_model.ckpt", "bert_config.json"
# Files that each format's writer may write or remove.
FILES = {
  ORIGINAL: (
    f"{CHECKPOINT}.index",
    f"{CHECKPOINT}.data-00000-of-00001",
    BERT_CONFIG,
    VOCABULARY,
    labels.FILE_NAME,
    *labels.THRESHOLD_FILES,
  ),
  HUGGING_FACE: (
    "config.json",
    "model.safetensors",
    "left_over.safetensors",
    "tokenizer_config.json",
    VOCABULARY,
    # transformers would prefer these files of an earlier model to vocab.txt.
    "tokenizer.json",
    "added_tokens.json",
    "special_tokens_map.json",
  ),
}
_TAG = re.compile(r"[BI]-.")
# Variables with a row for each token have names with one of these endings.
_VOCABULARY_ROWS = ("embeddings/word_embeddings", "predictions/output_bias")


def format_of(path: str) -> str:
  if path.startswith((HUB, *ZIPS)):
    return HUGGING_FACE if path.startswith(HUB) else ORIGINAL
  for name, marks in _MARKS.items():
    if any(files.exists(os.path.join(path, mark)) for mark in marks):
      return name
  prefix = checkpoint_files.find_checkpoint(path)
  has_objects = GRAPH_KEY in checkpoint_files.shapes(prefix)
  return MODEL_GARDEN if has_objects else ORIGINAL


def names_path(read: Callable) -> Callable:
  """Decorates a reader, so that its errors name the path."""

  @functools.wraps(read)
  def checked(path, *arguments, **options):
    try:
      return read(path, *arguments, **options)
    except (UserError, FileNotFoundError):
      raise
    except Exception as error:
      message = f"{path} is not laid out as expected, or corrupt: {error!r}"
      raise UserError(message) from error

  return checked


def write_json(path: str, values: dict) -> None:
  text = json.dumps(values, indent=2, ensure_ascii=False, sort_keys=True)
  files.write_text(path, f"{text}\n")


@dataclass
class CanonicalModel:
  """A model with the original's names. None means unknown or absent."""

  origin: str  # path of the source, for messages
  # The arrays by variable name, without training state.
  values: dict[str, np.ndarray] = field(default_factory=dict)
  config: Any = None  # content of bert_config.json, a dict
  vocabulary: str | None = None  # path of vocab.txt or tokenizer.json
  mark: str | None = None  # fingerprint of the training's vocabulary
  lower_case: bool | None = None  # the tokenizer's do_lower_case
  labels: tuple[str, ...] = ()  # class names, in order
  multi_label: bool = False  # a text may have several labels
  is_tied: bool = True  # the masked-LM head multiplies by the word embeddings
  # {name in labels.THRESHOLD_FILES: path}
  thresholds: Mapping[str, str] = field(default_factory=dict)
  head: str | None = None  # key of HEADS, if the source states one
  step: np.ndarray | None = None  # number of updates, `global_step`
  # {reason: names of variables that are not in `values`}
  skipped: dict[str, list[str]] = field(default_factory=dict)

  @property
  def num_labels(self) -> int:
    return len(self.values["output_bias"])

  def skip(self, name: str, reason: str) -> None:
    self.skipped.setdefault(reason, []).append(name)

  def drop_head(self) -> None:
    """Keeps the encoder; removes all other variables and the labels."""
    reason = f"of a head, which {setting('head', 'encoder')} leaves out"
    for name in sorted(self.values):
      if not name.startswith("bert/"):
        del self.values[name]
        self.skip(name, reason)
    self.labels, self.thresholds, self.multi_label = (), {}, False

  def set_words(self, pieces: Mapping[int, Sequence[int]]) -> None:
    """Sets a word's embedding and output bias to the mean over its pieces.

    `pieces` maps a word's id to its pieces' ids. An id beyond the vocabulary
    appends rows. All other rows keep their bits.
    """
    new_size = max(self.config["vocab_size"], 1 + max(pieces))
    for name, rows in self.values.items():
      if name.endswith(_VOCABULARY_ROWS):
        table = np.resize(rows, (new_size, *rows.shape[1:]))
        for index, others in pieces.items():
          table[index] = rows[list(others)].mean(axis=0)
        self.values[name] = table
    self.config["vocab_size"] = new_size

  def summarize(self) -> None:
    encoder = sum(name.startswith("bert/") for name in self.values)
    text = "read from %s: %d variables of the encoder, %d others"
    logging.info(text, self.origin, encoder, len(self.values) - encoder)
    if "bert/pooler/dense/kernel" not in self.values:
      logging.warning("no pooler: a model that needs one gets a random one")
    for reason, names in self.skipped.items():
      shown = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
      logging.info("left out, %d %s: %s", len(names), reason, shown)


class Head(NamedTuple):
  """A kind of model: the encoder with a head, or alone."""

  architecture: str  # class of transformers
  pools: bool  # whether transformers' class has a pooler
  variables: tuple[str, ...]  # names of the head's variables


# A model is of the first kind whose variables all exist.
HEADS = {
  kind: Head(architecture, pools, checkpoint_files.HEADS[kind])
  for kind, architecture, pools in (
    ("multiple_choice", "BertForMultipleChoice", True),
    ("question_answering", "BertForQuestionAnswering", False),
    ("tagging", "BertForTokenClassification", False),
    ("classification", "BertForSequenceClassification", True),
    ("pretraining", "BertForPreTraining", True),
    ("masked_lm", "BertForMaskedLM", False),
    ("encoder", "BertModel", True),
  )
}
HEAD_VARIABLES = {n for head in HEADS.values() for n in head.variables}


def head_of(bert: CanonicalModel, expected: str | None = None) -> str:
  """Returns a model's kind of head; ValueError if it lacks the `expected` one.

  A classifier and a tagger have the same variables. Unless `bert.head` decides,
  labels that are tags ("O" and "B-..." or "I-...") make a tagger.
  """
  complete = checkpoint_files.kinds_of(bert.values)
  if expected and expected not in complete:
    missing = set(HEADS[expected].variables) - set(bert.values)
    raise UserError(
      f"{bert.origin} has no head for {expected}: there is no "
      f"{min(missing)}; it has the variables for {', '.join(complete)}"
    )
  kind = expected or bert.head
  if kind in complete:
    return kind
  has_tags = "O" in bert.labels and any(map(_TAG.match, bert.labels))
  if "tagging" in complete and not has_tags:
    complete.remove("tagging")
  return complete[0]


def merge_heads(name: str, value: np.ndarray) -> np.ndarray:
  """Merges axes A (heads) and D (size) of [H, A, D], [A, D, H] or [A, D]."""
  if "/attention/self/" in name:
    width = (-1,) if name.endswith("/bias") else (value.shape[0], -1)
    return value.reshape(width)
  if name.endswith("/attention/output/dense/kernel"):
    return value.reshape(-1, value.shape[-1])
  return value
