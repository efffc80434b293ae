"""Raw text to answers: a task's Answers over an engine, and their files.

The files lie beside an exported model: task.json (the task and its settings),
tokenizer_config.json (by transformers' names), vocab.txt and, if the model's
classes have names, labels.txt.
"""

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple, Protocol

import numpy as np

from data import labels, tokenization
from data.tokenizer import Tokenizer
from storage import UserError, files, textfiles

Row = Mapping[str, np.ndarray]  # int32: [T], or [C, T]
Outputs = dict[str, np.ndarray]
SIGNATURE = "serving_features"
TASK_FILE = "task.json"
_TOKENIZER_FILE = "tokenizer_config.json"
# Texts and lists of texts of one example, by input.
Texts = Mapping[str, Any]
# Writing a float32 in few digits (0.2) takes too long for so many numbers.
_MAX_SHORT_FLOATS = 10_000


@dataclass(frozen=True)
class TextConfig:
  """Tokenizer, tokens of a text at most, and names of the model's classes."""

  tokenizer: Tokenizer
  max_seq_length: int
  labels: Sequence[str] | None = None


class Encoded(NamedTuple):
  """Rows of one example, and what else `Answers.decode` needs to know."""

  rows: list[Row]
  context: Any = None


class Answers(Protocol):
  """Texts of an example to rows of a model, and its outputs to an answer.

  `inputs` has 0 for each input that is a text, 1 for a list of texts; those in
  `optional` may be missing, and a text of those in `word_lists` may be a list
  of its words. `settings` are JSON values: the class is called with a
  TextConfig and these. All tasks have one, in tasks/<task>/answers.py.
  """

  task: str  # name of its folder
  config: TextConfig
  settings: dict[str, Any]
  inputs: dict[str, int]
  optional: frozenset[str] = frozenset()
  word_lists: frozenset[str] = frozenset()
  outputs: tuple[str, ...] = ("logits",)  # of the model, for `decode`

  def __init__(self, config: TextConfig, **settings: Any): ...

  def encode(self, texts: Texts) -> Encoded:
    """Rows of the model for the texts of one example, by input."""

  def decode(self, encoded: Encoded, outputs: list[Outputs]) -> dict:
    """Named answers, plain Python values, for the outputs of the rows."""


class Engine(Protocol):
  """A model as a function of rows.

  `max_rows` is the number of rows that are faster together than alone.
  `features` has the rank of each input of a row, `outputs` the shape of each
  output with the batch, -1 for what depends on the row.
  """

  max_rows: int
  features: dict[str, int]
  outputs: dict[str, list[int]]

  def run(self, rows: Iterable[Row]) -> Iterable[Outputs]:
    """Outputs of rows of any lengths, in order, without padding.

    Raises UserError for a row that the model does not take.
    """


class TextModel:
  """A function from texts to answers; `inputs` as those of its Answers."""

  def __init__(self, answers: Answers, engine: Engine):
    self.answers, self.engine = answers, engine

  def __call__(self, examples: Sequence[Texts]) -> list[dict]:
    """Answers to examples, each a text or a list of texts by input."""
    encoded = []

    def rows():
      for texts in examples:
        encoded.append(self.answers.encode(texts))
        yield from encoded[-1].rows

    outputs = iter([*self.engine.run(rows())])  # then all are encoded
    return [
      self.answers.decode(example, list(islice(outputs, len(example.rows))))
      for example in encoded
    ]

  def warm_up(self) -> dict:
    """Answers a short example, so that the next one does not wait."""
    text = f". {self.answers.config.tokenizer.special.mask}"
    ranks = self.answers.inputs.items()
    texts = {name: [text] if rank else text for name, rank in ranks}
    return self([texts])[0]


def row(ids: Sequence[int], segments: Sequence[int], **more) -> Row:
  """The encoder's inputs for ids without padding, and more inputs."""
  inputs = {
    "input_ids": ids,
    "input_mask": [1] * len(ids),
    "segment_ids": segments,
  }
  return {name: np.array(v, np.int32) for name, v in (inputs | more).items()}


def stack(rows: Sequence[Row]) -> dict[str, np.ndarray]:
  """Stacks rows, with zeros behind the shorter ones.

  The zeros of the mask hide the others: id 0 may be any token.
  """
  result = {}
  for name, first in rows[0].items():
    longest = max(row[name].shape[-1] for row in rows)
    shape = len(rows), *first.shape[:-1], longest
    result[name] = np.zeros(shape, np.int32)
    for array, row in zip(result[name], rows, strict=True):
      array[..., : row[name].shape[-1]] = row[name]
  return result


def sigmoid(logits: np.ndarray) -> np.ndarray:
  """Probabilities from logits, one by one; 1 / (1 + exp(-x)) can overflow."""
  return np.exp(-np.logaddexp(0, -logits))


def softmax(logits: np.ndarray) -> np.ndarray:
  """Probabilities from logits, along the last axis."""
  powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
  return powers / powers.sum(axis=-1, keepdims=True)


def to_list(values: np.ndarray) -> list:
  """Nested lists of numbers, with the digits of a float32 if they are few."""
  if values.dtype.kind == "f" and values.size < _MAX_SHORT_FLOATS:
    return values.astype(np.float32).astype("U").astype(float).tolist()
  return values.tolist()


# --- Files -----------------------------------------------------------------


def save(folder: str, answers: Answers, has_task: bool = True) -> None:
  """Writes the files of a model; task.json only with `has_task`."""
  config = answers.config
  config.tokenizer.save(folder)
  tokenizer = {
    "do_lower_case": config.tokenizer.do_lower_case,
    "model_max_length": config.max_seq_length,
  }
  _write_json(os.path.join(folder, _TOKENIZER_FILE), tokenizer)
  if config.labels is not None:
    labels.save(config.labels, folder)
  if has_task:
    settings = {"task": answers.task} | answers.settings
    _write_json(os.path.join(folder, TASK_FILE), settings)


def load(folder: str) -> tuple[str, TextConfig, dict[str, Any]]:
  """The task's name, the config and the settings that `save` wrote.

  Raises UserError if an earlier version wrote the folder, or it is corrupt.
  """
  try:
    settings = textfiles.read_json(os.path.join(folder, TASK_FILE))
    tokenizer = textfiles.read_json(os.path.join(folder, _TOKENIZER_FILE))
    config = TextConfig(
      tokenization.open_saved(folder, tokenizer["do_lower_case"]),
      tokenizer["model_max_length"],
      list(labels.load(folder)) if labels.exist(folder) else None,
    )
  except (FileNotFoundError, ValueError, KeyError) as error:
    raise UserError(
      f"{folder} is no complete export ({error}): export the model again, "
      "or name the folder of an export"
    ) from None
  return settings.pop("task", ""), config, settings


def _write_json(path, value):
  files.write_text(path, json.dumps(value, indent=2) + "\n")
