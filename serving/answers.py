"""Answers raw text: the Answers of a task, and the files of an export.

Beside a model's file, an export has task.json (the task and its settings),
tokenizer_config.json (with transformers' keys) and vocab.txt, and labels.txt if
the classes have names.
"""

import json
import os
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from data import labels, tokenization
from data.vocab import Tokenizer
from storage import UserError, files, textfiles

Row = Mapping[str, np.ndarray]  # int32: [T], or [C, T]
Outputs = dict[str, np.ndarray]
SIGNATURE = "serving_features"
TASK_FILE = "task.json"
_TOKENIZER_FILE = "tokenizer_config.json"
# One example: for each input by name, a text or a list of texts.
Texts = Mapping[str, Any]
# CSS and JavaScript that the pages of serve.py and visualize.py share.
STYLE = Path(__file__).with_suffix(".css")
SCRIPT = Path(__file__).with_suffix(".js")
# Inputs that the common names `text` and `text_pair` may stand for.
_OTHER_NAMES = {"text_a": "text", "tokens": "text", "sent1": "text"}
_OTHER_NAMES |= {"text_b": "text_pair", "sent2": "text_pair"}
_ID = "id"  # the answer repeats the id of a line
# Larger arrays keep long decimals: short ones, such as 0.2, take long to make.
_MAX_SHORT_FLOATS = 10_000


@dataclass(frozen=True)
class TextConfig:
  """Tokenizer, maximum length in tokens, and names of the classes."""

  tokenizer: Tokenizer
  max_seq_length: int
  labels: Sequence[str] | None = None


class Encoded(NamedTuple):
  """Rows of one example, with a `context` for `Answers.decode`."""

  rows: list[Row]
  context: Any = None


class Answers(Protocol):
  """Encodes texts into rows of a model, and decodes outputs into an answer.

  Each task has a subclass. `inputs` maps the name of an input to 0 for a
  text, or to 1 for a list of texts. An example may lack `optional` inputs. A
  text in `word_lists` may be a list of words. `settings` are JSON values for
  the constructor.
  """

  task: str  # name of the task's folder
  config: TextConfig
  settings: dict[str, Any]
  inputs: dict[str, int]
  optional: frozenset[str] = frozenset()
  word_lists: frozenset[str] = frozenset()
  outputs: tuple[str, ...] = ("logits",)  # that `decode` needs

  def __init__(self, config: TextConfig, **settings: Any): ...

  def encode(self, texts: Texts) -> Encoded:
    """Encodes the texts of one example, by input, into rows."""

  def decode(self, encoded: Encoded, outputs: list[Outputs]) -> dict:
    """Decodes the outputs of the rows into named, plain Python values."""


class Engine(Protocol):
  """A model as a function of rows.

  `max_rows` is the largest batch: 1 if rows are faster alone. `features` maps
  an input to its number of axes in a row. `outputs` maps an output to its shape
  in a batch, in which -1 is any size.
  """

  name: str  # for people
  max_rows: int
  features: dict[str, int]
  outputs: dict[str, list[int]]

  def warm_up(self) -> None:
    """Prepares what makes later calls of `run` faster, if there is anything."""
    return  # not an abstract method

  def run(self, rows: Iterable[Row]) -> Iterable[Outputs]:
    """Computes outputs of rows of any length; UserError for a refused row."""


class TextModel:
  """A function from texts to answers, which joins an engine and Answers."""

  def __init__(self, answers: Answers, engine: Engine):
    self.answers, self.engine = answers, engine

  def __call__(self, examples: Sequence[Texts]) -> list[dict]:
    """Answers examples, dicts from an input to a text or a list of texts."""
    return list(self.stream(examples))

  def stream(self, examples: Iterable[Texts]) -> Iterator[dict]:
    """Yields each answer as soon as the engine has the example's outputs."""
    encoded = deque[Encoded]()

    def rows():
      for texts in examples:
        encoded.append(self.answers.encode(texts))
        yield from encoded[-1].rows

    outputs = iter(self.engine.run(rows()))  # this fills `encoded`
    for output in outputs:
      while not (first := encoded.popleft()).rows:
        yield self.answers.decode(first, [])
      yield self.answers.decode(
        first, [output, *islice(outputs, len(first.rows) - 1)]
      )
    for left in encoded:  # without rows
      yield self.answers.decode(left, [])

  def warm_up(self) -> dict:
    self.engine.warm_up()
    text = f". {self.answers.config.tokenizer.special.mask}"
    ranks = self.answers.inputs.items()
    texts = {name: [text] if rank else text for name, rank in ranks}
    return self([texts])[0]


def row(ids: Sequence[int], segments: Sequence[int], **more) -> Row:
  """Builds a row without padding from token ids, segments and more inputs."""
  inputs = {"input_ids": ids, "input_mask": [1] * len(ids)}
  inputs |= {"segment_ids": segments, **more}
  return {name: np.array(v, np.int32) for name, v in inputs.items()}


def stack(rows: Sequence[Row]) -> dict[str, np.ndarray]:
  """Stacks rows into a batch; zeros, which the mask hides, pad short rows."""
  result = {}
  for name, first in rows[0].items():
    longest = max(row[name].shape[-1] for row in rows)
    shape = len(rows), *first.shape[:-1], longest
    result[name] = np.zeros(shape, np.int32)
    for array, row in zip(result[name], rows, strict=True):
      array[..., : row[name].shape[-1]] = row[name]
  return result


def sigmoid(logits: np.ndarray) -> np.ndarray:
  """Elementwise 1 / (1 + exp(-x)), but exp cannot overflow."""
  return np.exp(-np.logaddexp(0, -logits))


def softmax(logits: np.ndarray) -> np.ndarray:
  powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
  return powers / powers.sum(axis=-1, keepdims=True)


def to_list(values: np.ndarray) -> list:
  """Nested lists of numbers; small arrays get the digits of a float32.

  NaN and infinity, which JSON lacks, become None.
  """
  if values.dtype == np.float32 and values.size < _MAX_SHORT_FLOATS:
    values = values.astype("U").astype(float)
  if values.dtype.kind == "f" and not np.isfinite(values).all():
    return np.where(np.isfinite(values), values, np.array(None)).tolist()
  return values.tolist()


# --- JSON lines ------------------------------------------------------------


def read_lines(lines: Iterable[bytes], predict) -> Iterator[dict]:
  """Yields a dict from inputs to texts for each line; UserErrors name the line.

  A line is a JSON object, or a single input: a text or a list of words.
  """
  for number, line in enumerate(lines, 1):
    if not line.strip():
      continue
    try:
      row = json.loads(line)
    except (ValueError, RecursionError) as error:
      raise UserError(
        f"line {number} is not JSON: {error}; put a text into double quotes, "
        "and save the lines as UTF-8"
      ) from None
    if isinstance(row, str | list):
      row = {"text": row}
    if not isinstance(row, dict):
      names = ", ".join(predict.inputs)
      raise UserError(f"line {number} is not an object with {names}")
    try:
      yield check(row, predict)
    except UserError as error:
      raise UserError(f"line {number}: {error}") from None


def check(row: Mapping, predict) -> dict:
  """Renames and checks a row; UserError if an input is missing or unknown."""
  row = rename(row, predict.inputs)
  checked = predict.check({name: [row[name]] for name in row if name != _ID})
  return row | {name: text for name, [text] in checked.items()}


def rename(texts: Mapping, inputs: Collection[str]) -> dict:
  """Renames `text` and `text_pair` to the names of a model's inputs."""
  own = [x for x in _OTHER_NAMES if x in inputs and x not in texts]
  names = {_OTHER_NAMES[name]: name for name in own}
  return {names.get(name, name): text for name, text in texts.items()}


def answer_rows(predict, rows: Iterator[dict], size: int) -> Iterator[dict]:
  """Answers rows in batches of `size`; an answer begins with its row's id."""
  while batch := list(islice(rows, size)):
    texts = [{k: v for k, v in row.items() if k != _ID} for row in batch]
    for row, answer in zip(batch, predict.answer(texts), strict=True):
      yield {_ID: row[_ID], **answer} if _ID in row else answer


# --- Files -----------------------------------------------------------------


def save(folder: str, answers: Answers) -> None:
  """Writes the task, its settings, tokenizer and labels beside a model."""
  config = answers.config
  config.tokenizer.save(folder)
  if config.labels is not None:
    labels.save(config.labels, folder)
  tokenizer = {
    "do_lower_case": config.tokenizer.do_lower_case,
    "model_max_length": config.max_seq_length,
    "vocab_fingerprint": config.tokenizer.fingerprint,
  }
  task = {"task": answers.task} | answers.settings
  for name, value in {_TOKENIZER_FILE: tokenizer, TASK_FILE: task}.items():
    text = json.dumps(value, indent=2) + "\n"
    files.write_text(os.path.join(folder, name), text)


def load(folder: str) -> tuple[str, TextConfig, dict[str, Any]]:
  """Loads task, config and settings of a folder; UserError if incomplete."""
  try:
    settings = textfiles.read_json(os.path.join(folder, TASK_FILE))
    tokenizer = textfiles.read_json(os.path.join(folder, _TOKENIZER_FILE))
    paths = [os.path.join(folder, name) for name in tokenization.names()]
    path = next(filter(files.exists, paths), paths[0])
    config = TextConfig(
      tokenization.open_tokenizer(path, tokenizer["do_lower_case"]),
      tokenizer["model_max_length"],
      list(labels.load(folder)) if labels.exist(folder) else None,
    )
    if not config.tokenizer.fits(tokenizer["vocab_fingerprint"]):
      raise ValueError("the vocabulary has other tokens than the exported one")
  except (FileNotFoundError, ValueError, KeyError) as error:
    raise UserError(
      f"{folder} is not a complete export ({error}): export the model again, "
      "or name the folder of an export"
    ) from None
  return settings.pop("task", ""), config, settings
