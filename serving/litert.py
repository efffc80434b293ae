"""LiteRT models as functions of raw text: numpy and LiteRT, no TensorFlow.

LiteRT is ai-edge-litert, or TensorFlow where that is not installed.
"""

import json
import os
from pathlib import Path

import numpy as np

from data.tokenization import FullTokenizer

SETTINGS = "task.json"
_DEFAULT_FILE = "model_float32.tflite"


class LiteRtExport:
  """A folder of --export_format=tflite, with one of its models.

  Arguments:
    path: of the folder, for its float32 model, or of a model in it.

  Attributes:
    settings: of the task, as `SETTINGS` has them.
    tokenizer: text to tokens.
    max_seq_length: T.
    labels: in the order of the logits; None if they have no names.

  Raises:
    FileNotFoundError: a file is missing.
    ValueError: an earlier version wrote the folder.
  """

  def __init__(self, path: str):
    file = Path(path)
    if file.is_dir():
      file = file / _DEFAULT_FILE
    folder = file.parent
    if not (folder / SETTINGS).exists():
      raise ValueError(
        f"{folder} has no {SETTINGS}, which says what the model answers: "
        "export the model again"
      )
    self.settings = _read_json(folder / SETTINGS)
    config = _read_json(folder / "tokenizer_config.json")
    self.tokenizer = FullTokenizer(
      folder / "vocab.txt", config["do_lower_case"]
    )
    self.max_seq_length = config["model_max_length"]
    labels = folder / "labels.txt"
    self.labels = None
    if labels.exists():
      self.labels = labels.read_text(encoding="utf-8").split("\n")[:-1]
    interpreter = _interpreter(str(file))
    self._run = interpreter.get_signature_runner("serving_default")

  def run(self, **inputs: list) -> dict[str, np.ndarray]:
    """Outputs for inputs, as lists of the model's rank without the batch."""
    arrays = {n: np.array([value], np.int32) for n, value in inputs.items()}
    return {name: value[0] for name, value in self._run(**arrays).items()}

  def run_row(self, ids: list[int], segments: list[int], **inputs: list):
    """Outputs for a row without padding."""
    mask = [1] * len(ids)
    return self.run(
      input_ids=ids, input_mask=mask, segment_ids=segments, **inputs
    )


class TextModel:
  """Base of the tasks' functions of raw text.

  A row at a time: int8 models quantize activations by the largest of a batch,
  so that others in it would change an answer.

  Attributes:
    ranks: {input: 0 for a text, 1 for a list of texts}.

  Call arguments:
    rows: texts in the order of the sorted names of inputs.

  Returns:
    A dict for each row.
  """

  ranks: dict[str, int]

  def __init__(self, export: LiteRtExport):
    self.export = export

  def __call__(self, rows: list[tuple]) -> list[dict]:
    names = sorted(self.ranks)
    texts = map(_to_text, rows)
    return [self.answer(**dict(zip(names, row, strict=True))) for row in texts]

  def warm_up(self) -> None:
    """Answers once."""
    texts = {name: ["."] if rank else "." for name, rank in self.ranks.items()}
    self.answer(**texts)

  def answer(self, **texts) -> dict:
    """Named answers for a row of texts."""
    raise NotImplementedError


def softmax(logits: np.ndarray) -> list:
  """Probabilities of the last axis."""
  weights = np.exp(logits - logits.max(-1, keepdims=True))
  return (weights / weights.sum(-1, keepdims=True)).tolist()


def _to_text(value):
  """Decodes bytes in nested lists as the graph does."""
  if isinstance(value, bytes):
    return value.decode("utf-8", "replace")
  return value if isinstance(value, str) else [_to_text(v) for v in value]


def _read_json(path):
  value = json.loads(path.read_text(encoding="utf-8"))
  if not isinstance(value, dict):
    raise ValueError(f"{path} is damaged, export the model again")
  return value


def _interpreter(file):
  if not os.path.exists(file):
    raise FileNotFoundError(f"there is no file {file}")
  try:
    from ai_edge_litert.interpreter import Interpreter  # noqa: PLC0415
  except ImportError:
    from tensorflow.lite import Interpreter  # noqa: PLC0415
  try:
    return Interpreter(file, num_threads=os.cpu_count())
  except ValueError as error:
    raise ValueError(f"{file} is damaged, export it again: {error}") from None
