"""LiteRT models as functions of raw text: numpy and LiteRT, no TensorFlow.

LiteRT is ai-edge-litert, or TensorFlow where that is not installed.
"""

import json
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from data import labels
from data.tokenization import FullTokenizer
from serving import quiet
from storage import UserError

SETTINGS = "task.json"
_DEFAULT_FILE = "model_float32.tflite"
# Rows that are answered at the same time, each by an interpreter of its own,
# which holds a copy of the weights.
_WORKERS = min(2, os.cpu_count())


class LiteRtExport:
  """A folder of --export_format=tflite, with a model of it, by default float32.

  `settings` are the task's, `labels` in the order of the logits or None. Raises
  FileNotFoundError, or ValueError if an earlier version wrote it.
  """

  def __init__(self, path: str):
    file = Path(path)
    if file.is_dir():
      file = file / _DEFAULT_FILE
    folder = file.parent
    if not (folder / SETTINGS).exists():
      raise UserError(
        f"{folder} has no {SETTINGS}, which says what the model answers: "
        "export the model again"
      )
    self.settings = _read_json(folder / SETTINGS)
    config = _read_json(folder / "tokenizer_config.json")
    self.tokenizer = FullTokenizer(
      folder / "vocab.txt", config["do_lower_case"]
    )
    self.max_seq_length = config["model_max_length"]
    self.labels = None
    if labels.exist(str(folder)):
      self.labels = list(labels.load(str(folder)))
    self._file = str(file)
    self._run = _signature(self._file, os.cpu_count())
    self._lock = threading.Lock()
    self._own = threading.local()

  def open_for_thread(self) -> None:
    """Gives the calling thread an interpreter that uses a part of the cores."""
    self._own.run = _signature(self._file, os.cpu_count() // _WORKERS)

  def run(self, **inputs: list) -> dict[str, np.ndarray]:
    """Outputs for inputs, as lists of the model's rank without the batch."""
    arrays = {n: np.array([value], np.int32) for n, value in inputs.items()}
    if run := getattr(self._own, "run", None):
      outputs = run(**arrays)
    else:
      with self._lock:  # an interpreter computes for one thread at a time
        outputs = self._run(**arrays)
    return {name: value[0] for name, value in outputs.items()}

  def run_row(self, ids: list[int], segments: list[int], **inputs: list):
    """Outputs for a row without padding."""
    mask = [1] * len(ids)
    return self.run(
      input_ids=ids, input_mask=mask, segment_ids=segments, **inputs
    )


class TextModel:
  """Base of the tasks' functions of raw text: rows of texts to dicts.

  The model gets one row: int8 models quantize activations by the largest of a
  batch, so that others in it would change an answer. Two rows at the same time,
  on half of the cores each, take less time than one after the other. `ranks`
  has for each input 0 for a text, 1 for a list of texts; texts of a row are in
  the order of the sorted names.
  """

  ranks: dict[str, int]

  def __init__(self, export: LiteRtExport):
    self.export = export
    self._pool = ThreadPoolExecutor(
      _WORKERS, initializer=export.open_for_thread
    )

  def __call__(self, rows: list[tuple]) -> list[dict]:
    names = sorted(self.ranks)
    texts = [dict(zip(names, _to_text(row), strict=True)) for row in rows]
    if len(texts) == 1:
      return [self.answer(**texts[0])]
    return list(self._pool.map(lambda row: self.answer(**row), texts))

  def warm_up(self) -> None:
    """Answers one row, then several."""
    ranks = (self.ranks[name] for name in sorted(self.ranks))
    row = tuple(["."] if rank else "." for rank in ranks)
    for number in (1, _WORKERS):
      self([row] * number)

  def answer(self, **texts) -> dict:
    """Named answers for a row of texts."""
    raise NotImplementedError


def _to_text(value):
  """Decodes bytes in nested lists as the graph does."""
  if isinstance(value, bytes):
    return value.decode("utf-8", "replace")
  return value if isinstance(value, str) else [_to_text(v) for v in value]


def _read_json(path):
  try:
    value = json.loads(path.read_text(encoding="utf-8"))
  except ValueError:
    value = None
  if not isinstance(value, dict):
    raise UserError(f"{path} is damaged, export the model again")
  return value


def _signature(file, num_threads):
  if not os.path.exists(file):
    raise FileNotFoundError(f"there is no file {file}")
  try:
    from ai_edge_litert.interpreter import Interpreter  # noqa: PLC0415
  except ImportError:
    from tensorflow.lite import Interpreter  # noqa: PLC0415
  try:
    with quiet.no_stderr():  # a line about XNNPACK
      interpreter = Interpreter(file, num_threads=num_threads)
      interpreter.allocate_tensors()
  except ValueError as error:
    raise UserError(f"{file} is damaged, export it again: {error}") from None
  return interpreter.get_signature_runner("serving_default")
