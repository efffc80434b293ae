"""Formats of a BERT on disk, and the model that their readers return."""

import dataclasses
import functools
import json
import os
import re
import shutil
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from absl import logging

from data import labels, vocab
from storage import UserError, files, setting
from training import checkpoint_files

ORIGINAL, HUGGING_FACE = "original", "hugging_face"
KERAS_HUB, MODEL_GARDEN = "KerasHub", "Model Garden"
# Files by which a folder's format is recognized.
_MARKS = {
  KERAS_HUB: ("model.weights.h5", "task.json"),
  HUGGING_FACE: ("config.json", "model.safetensors", "modules.json"),
}
VOCABULARY = "vocab.txt"
GRAPH_KEY = "_CHECKPOINTABLE_OBJECT_GRAPH"  # of object-based checkpoints
CHECKPOINT, BERT_CONFIG = "bert_model.ckpt", "bert_config.json"
# Files that the writer of a format may write.
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
  ),
}
_TAG = re.compile(r"[BI]-.")
# Ends of names of variables with a row for each token.
_VOCABULARY_ROWS = ("embeddings/word_embeddings", "predictions/output_bias")


def format_of_folder(path: str) -> str | None:
  """KERAS_HUB, HUGGING_FACE, or None for a checkpoint of TensorFlow."""
  for name, marks in _MARKS.items():
    if any(files.exists(os.path.join(path, mark)) for mark in marks):
      return name
  return None


def is_object_based(prefix: str) -> bool:
  """True for a checkpoint of Model Garden; False if it cannot be read."""
  return GRAPH_KEY in checkpoint_files.shapes(prefix)


def names_path(read: Callable) -> Callable:
  """Decorates a reader: errors that do not name the path become ValueErrors."""

  @functools.wraps(read)
  def checked(path, *arguments, **options):
    try:
      return read(path, *arguments, **options)
    except Exception as error:
      is_known = isinstance(error, OSError) and path in str(error)
      if is_known or isinstance(error, UserError):
        raise
      raise UserError(
        f"{path} is not laid out as expected, or corrupt: {error!r}"
      ) from error

  return checked


def write_json(path: str, values: dict) -> None:
  text = json.dumps(values, indent=2, ensure_ascii=False, sort_keys=True)
  files.write_text(path, f"{text}\n")


@dataclasses.dataclass
class CanonicalModel:
  """A model with the original's names; None is unknown or absent."""

  origin: str  # path that it was read from, for messages
  # By variable, without training state.
  values: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)
  config: dict | None = None  # as bert_config.json
  vocabulary: str | None = None  # path of vocab.txt or tokenizer.json
  lower_case: bool | None = None  # do_lower_case of its tokenizer
  labels: tuple[str, ...] = ()  # names of its classes in order
  multi_label: bool = False  # a text may have several of them
  # Paths of labels.THRESHOLD_FILES, by name.
  thresholds: Mapping[str, str] = dataclasses.field(default_factory=dict)
  head: str | None = None  # key of HEADS that its configuration states
  step: np.ndarray | None = None  # number of updates, `global_step`
  # Names, by reason, of values that are not in `values`.
  skipped: dict[str, list[str]] = dataclasses.field(default_factory=dict)

  @property
  def num_labels(self) -> int:
    """L of its classifier or tagger."""
    return len(self.values["output_bias"])

  def skip(self, name: str, reason: str) -> None:
    """Records that a value is not converted."""
    self.skipped.setdefault(reason, []).append(name)

  def drop_head(self) -> None:
    """Removes all variables but the encoder's, and the labels."""
    reason = f"of a head, which {setting('head', 'encoder')} leaves out"
    for name in sorted(self.values):
      if not name.startswith("bert/"):
        del self.values[name]
        self.skip(name, reason)
    self.labels, self.thresholds = (), {}

  def set_words(self, pieces: Mapping[int, Sequence[int]]) -> None:
    """Sets embeddings and output biases of words to the means of their pieces'.

    `pieces` maps the id of a word to the ids of its pieces; ids beyond the
    vocabulary append rows. All other rows keep their bits.
    """
    old_size = self.config["vocab_size"]
    new_size = max(old_size, 1 + max(pieces))
    for name, rows in self.values.items():
      if not name.endswith(_VOCABULARY_ROWS):
        continue
      if len(rows) != old_size:
        raise UserError(
          f"{self.origin}: {name} has {len(rows)} rows, vocab_size in "
          f"{BERT_CONFIG} is {old_size}: it is of another model"
        )
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


@dataclasses.dataclass(frozen=True)
class Head:
  """A kind of model: the encoder with a head."""

  architecture: str  # class of transformers
  variables: tuple[str, ...]  # names of the head's
  pools: bool  # uses the pooler; else transformers' class has none


# A model is of the first kind whose variables it has.
HEADS = {
  kind: Head(architecture, checkpoint_files.HEADS[kind], pools)
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
  """A model's head, a key of HEADS; ValueError unless it is `expected`.

  A classifier and a tagger have the same variables. Without a stated head, it
  is a tagger if its labels are tags ("O" and "B-..." or "I-...").
  """
  complete = checkpoint_files.kinds_of(bert.values)
  if expected is None:
    if bert.head in complete:
      return bert.head
    has_tags = "O" in bert.labels and any(map(_TAG.match, bert.labels))
    if "tagging" in complete and not has_tags:
      complete.remove("tagging")
    return complete[0]
  if expected not in complete:
    missing = set(HEADS[expected].variables) - set(bert.values)
    raise UserError(
      f"{bert.origin} has no head for {expected}: there is no "
      f"{min(missing)}; it has the variables for {', '.join(complete)}"
    )
  return expected


def merge_heads(name: str, value: np.ndarray) -> np.ndarray:
  """Merges the axes of heads and their size: [H, A, D], [A, D, H] or [A, D]."""
  if "/attention/self/" in name:
    width = (-1,) if name.endswith("/bias") else (value.shape[0], -1)
    return value.reshape(width)
  if name.endswith("/attention/output/dense/kernel"):
    return value.reshape(-1, value.shape[-1])
  return value


def copy(source: str, target: str) -> None:
  """Copies a file unless source and target are the same."""
  if target.endswith(VOCABULARY):  # the source may be a tokenizer.json
    files.write_text(target, vocab.read_text(source))
  elif os.path.realpath(source) != os.path.realpath(target):
    with (
      files.open_for_reading(source) as original,
      files.open_for_writing(target) as file,
    ):
      shutil.copyfileobj(original, file)
