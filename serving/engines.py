"""Engines compute a model's outputs for rows of token ids.

TensorFlow is imported by those that need it. B rows, T tokens, C choices.
"""

import contextlib
import http.client
import json
import os
import re
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain, islice

import numpy as np

from serving import answers
from serving.answers import LITERT_FILES, SIGNATURE, Outputs, Row, TextModel
from storage import UserError
from storage.progress import no_stderr

NAMES = ("auto", "savedmodel", *LITERT_FILES)
# Tokens of a batch: enough to keep a processor busy, few enough for its caches.
_CPU_TOKENS = 1024
_GPU_TOKENS = 1 << 15
_MIN_ROWS, _MAX_ROWS = 8, 32
# The line before it, in errors of TensorFlow and of LiteRT.
_NODE = re.compile(r"(?m)^(.*?)(?:\n\s*\[\[\{\{node |Node number \d+ \()")
_MAX_RESPONSE = 1 << 30  # bytes of a remote answer
_MAX_ERRORS = 1 << 16  # characters of all errors of a LiteRT interpreter
_MAX_COPIES = 1 << 29  # bytes of LiteRT's copies of the weights, for each core


# --- Batches ---------------------------------------------------------------


def batches(rows: Sequence[Row], max_tokens: int) -> Iterator[list[int]]:
  """Indices of rows that run together: of similar length, for less padding."""
  shapes = [row["input_ids"].shape for row in rows]
  batch: list[int] = []
  for index in sorted(range(len(rows)), key=shapes.__getitem__):
    shape = shapes[index]
    tokens = (len(batch) + 1) * int(np.prod(shape))
    is_full = len(batch) >= _MIN_ROWS and tokens > max_tokens
    is_other = batch and shape[:-1] != shapes[batch[0]][:-1]
    if is_other or is_full or len(batch) == _MAX_ROWS:
      yield batch
      batch = []
    batch.append(index)
  if batch:
    yield batch


class Batches:
  """Base of engines that take several rows, of `max_tokens`, at a time."""

  max_rows = _MAX_ROWS
  max_tokens = _CPU_TOKENS

  def __init__(self, features: dict[str, int], outputs: dict[str, list[int]]):
    self.features, self.outputs = features, outputs
    # Outputs [B, N, ...] with N of this input: T, C or masked positions.
    self._length_of = {
      name: "masked_lm_positions" if "masked_lm" in name else "input_ids"
      for name, shape in outputs.items()
      if shape[1:2] == [-1]
    }

  def run(self, rows: Iterable[Row]) -> list[Outputs]:
    rows = list(rows)
    results: list[Outputs] = [{} for _ in rows]
    for indices in batches(rows, self.max_tokens):
      outputs = self._call(answers.stack([rows[i] for i in indices]))
      for number, index in enumerate(indices):
        results[index] = {k: v[number] for k, v in outputs.items()}
        for name, other in self._length_of.items():
          length = len(rows[index][other])
          results[index][name] = results[index][name][:length]
    return results

  def _call(self, inputs: dict[str, np.ndarray]) -> Outputs:
    raise NotImplementedError


class TensorFlowEngine(Batches):
  """A concrete function of TensorFlow; `owner` keeps its variables alive."""

  def __init__(self, function, owner):
    from tensorflow import config  # noqa: PLC0415

    if config.list_physical_devices("GPU"):
      self.max_tokens = _GPU_TOKENS
    specs = function.structured_input_signature[1]
    features = {name: spec.shape.rank - 1 for name, spec in specs.items()}
    outputs = {
      name: [-1 if n is None else n for n in value.shape]
      for name, value in function.structured_outputs.items()
    }
    super().__init__(features, outputs)
    self._function, self._owner = function, owner

  @classmethod
  def load(cls, folder: str) -> "TensorFlowEngine":
    """The signature of rows of a SavedModel; UserError if it has none."""
    import tensorflow as tf  # noqa: PLC0415

    model = tf.saved_model.load(folder)
    if SIGNATURE not in model.signatures:
      raise UserError(
        f"{folder} has no signature {SIGNATURE}: name what --do_export wrote"
      )
    return cls(model.signatures[SIGNATURE], model)

  def _call(self, inputs):
    from tensorflow import constant, errors  # noqa: PLC0415

    try:
      outputs = self._function(**{k: constant(v) for k, v in inputs.items()})
    except errors.InvalidArgumentError as error:
      raise UserError(first_line(error.message)) from None
    return {name: value.numpy() for name, value in outputs.items()}


def text_model(served) -> TextModel:
  """The function of raw text that an export of a ServedModel would be."""
  from serving.export import outputs_function  # noqa: PLC0415

  engine = TensorFlowEngine(outputs_function(served.model), served.model)
  return TextModel(served.answers, engine)


# --- LiteRT ----------------------------------------------------------------


class LiteRtEngine:
  """A LiteRT file, which takes one row at a time.

  int8 models quantize activations by the largest of a tensor, so that another
  row would change the result. A row alone is computed on all cores; several at
  the same time on a core each, or on more where the interpreters, which do not
  share packed weights, would need too much memory. Threads may call it.
  """

  max_rows = 1

  def __init__(self, file: str):
    self._file = file
    cores = num_cores()
    with no_stderr():  # a line about XNNPACK, once in a process
      self._alone = _Interpreter(file, cores)
    factor = 4 if "float16" in os.path.basename(file) else 1  # packed anew
    others = cores * _MAX_COPIES // (factor * os.path.getsize(file)) - 1
    self._num_workers = min(max(others, 1), cores)
    self._threads = cores // self._num_workers
    function = self._alone.function
    inputs = function.get_input_details()
    self.features = {
      name: len(info["shape_signature"]) - 1 for name, info in inputs.items()
    }
    self.outputs = {
      name: [-1, *info["shape_signature"][1:].tolist()]
      for name, info in function.get_output_details().items()
    }
    self._own = threading.local()
    self._idle = threading.Lock()  # held while `_alone` computes
    self._num_running = 0
    self._count = threading.Lock()  # held while `_num_running` changes
    self._pool = ThreadPoolExecutor(self._num_workers, "litert")

  def run(self, rows: Iterable[Row]) -> Iterator[Outputs]:
    rows = iter(rows)
    first = list(islice(rows, 2))
    if len(first) < 2 and not self._num_running and self._idle.acquire(False):
      try:
        results = [self._alone(row) for row in first]
      finally:
        self._idle.release()
      yield from results
      return
    waiting = map(self._submit, chain(first, rows))
    # A few at a time, so that a long request leaves room for others.
    running = deque(islice(waiting, 4 * self._num_workers))
    while running:
      result = running.popleft().result()
      running.extend(islice(waiting, 1))
      yield result

  def _submit(self, row):
    with self._count:
      self._num_running += 1
    return self._pool.submit(self._run_in_thread, row)

  def _run_in_thread(self, row):
    try:
      if self._num_workers == 1:
        with self._idle:
          return self._alone(row)
      if not hasattr(self._own, "interpreter"):
        self._own.interpreter = _Interpreter(self._file, self._threads)
      return self._own.interpreter(row)
    finally:
      with self._count:
        self._num_running -= 1


def num_cores() -> int:
  """Cores that this process may use."""
  affinity = getattr(os, "sched_getaffinity", None)  # not on macOS
  return len(affinity(0)) if affinity else os.cpu_count() or 1


class _Interpreter:
  """A LiteRT file as a function of a row, which one thread calls at a time.

  LiteRT repeats all earlier errors of an interpreter before a new one; when
  there are many the file is loaded again.
  """

  def __init__(self, file, num_threads):
    self._load = partial(_load_litert, file, num_threads)
    self.function = self._load()
    self._errors = ""

  def __call__(self, row):
    inputs = {name: value[None] for name, value in row.items()}
    try:
      outputs = self.function(**inputs)
    except (RuntimeError, ValueError) as error:
      text, before = str(error), self._errors
      if text.startswith(before):
        self._errors = text
      if len(text) > _MAX_ERRORS:
        self.function, self._errors = self._load(), ""
      raise UserError(first_line(text.removeprefix(before) or text)) from None
    return {name: value[0] for name, value in outputs.items()}


def _load_litert(file, num_threads):
  """A file's function of arrays."""
  try:
    from ai_edge_litert.interpreter import Interpreter  # noqa: PLC0415
  except ImportError:
    import tensorflow as tf  # noqa: PLC0415

    Interpreter = tf.lite.Interpreter  # its module is another one
  try:
    interpreter = Interpreter(file, num_threads=num_threads)
    interpreter.allocate_tensors()
  except ValueError as error:
    raise UserError(f"{file} is damaged, export it again: {error}") from None
  return interpreter.get_signature_runner("serving_default")


def first_line(message: str) -> str:
  """The line that says what is wrong, without TensorFlow's stack traces."""
  node = _NODE.search(message)
  return (node[1] if node else message.strip().split("\n")[0])[:500]


# --- TensorFlow Serving ----------------------------------------------------


class RemoteError(OSError):
  """A server that does not answer, or answers with an error."""


class RemoteEngine(Batches):
  """A model of a TF Serving, by its URL, perhaps with /versions/N behind it.

  Each request may take `timeout` seconds. Raises RemoteError, or UserError for
  a model without a signature for rows.
  """

  def __init__(self, url: str, timeout: float = 30.0):
    self._url, self._timeout = url.rstrip("/"), timeout
    document = self._fetch("/metadata")
    try:
      signatures = document["metadata"]["signature_def"]["signature_def"]
      signature = signatures.get(SIGNATURE)
    except (KeyError, TypeError, AttributeError):
      raise RemoteError(f"{url} is no model of a TF Serving") from None
    if signature is None:
      raise UserError(
        f"{url} has no signature {SIGNATURE}: let it serve an export"
      )
    inputs, outputs = (_shapes(signature[k]) for k in ("inputs", "outputs"))
    super().__init__({k: len(v) - 1 for k, v in inputs.items()}, outputs)

  def _call(self, inputs):
    columns = {name: value.tolist() for name, value in inputs.items()}
    body = {"signature_name": SIGNATURE, "inputs": columns}
    document = self._fetch(":predict", json.dumps(body).encode())
    try:
      outputs = document["outputs"]
      if len(self.outputs) == 1:  # a single output goes without its name
        outputs = dict.fromkeys(self.outputs, outputs)
      result = {name: np.array(outputs[name], "f4") for name in self.outputs}
      [_] = {len(inputs["input_ids"]), *map(len, result.values())}
    except (KeyError, TypeError, ValueError):
      message = f"{self._url} answered something else than {SIGNATURE}"
      raise RemoteError(message) from None
    return result

  def _fetch(self, path, body=None):
    url = urllib.parse.quote(self._url + path, safe="%:/?&=[]@")
    request = urllib.request.Request(url, body)
    try:
      with urllib.request.urlopen(request, timeout=self._timeout) as response:
        return json.loads(response.read(_MAX_RESPONSE))
    except urllib.error.HTTPError as error:
      text = error.read(1 << 16).decode("utf-8", "replace")
      with contextlib.suppress(ValueError, KeyError, TypeError):
        text = str(json.loads(text)["error"])  # of some servers an object
      message = first_line(text) or error.reason
      if error.code == 400 and body:
        raise UserError(f"{self._url}: {message}") from None
      raise RemoteError(f"{self._url}: {error.code}, {message}") from None
    except TimeoutError:
      message = f"did not answer within {self._timeout:g} s: raise timeout=..."
    except (OSError, http.client.HTTPException) as error:
      reason = getattr(error, "reason", error)
      message = f"cannot be reached: {reason}; is the server running?"
    except ValueError:  # no JSON
      message = "is no model of a TF Serving"
    raise RemoteError(f"{self._url} {message}")


def remote_model(url: str, texts: answers.Answers, timeout: float) -> TextModel:
  """A RemoteEngine behind Answers; UserError if they are of another model."""
  engine = RemoteEngine(url, timeout)
  labels = len(texts.config.labels or ())
  width = engine.outputs.get("logits", [-1])[-1]
  is_same_task = {*texts.outputs} <= {*engine.outputs}
  if not is_same_task or (labels and width not in (-1, labels)):
    raise UserError(
      f"{url} has the outputs {engine.outputs}, but files=... (--files) is an "
      f"export with the outputs {', '.join(texts.outputs)} and {labels} labels"
    )
  return TextModel(texts, engine)


def _shapes(infos):
  dims = {name: info["tensor_shape"]["dim"] for name, info in infos.items()}
  return {n: [int(size["size"]) for size in dim] for n, dim in dims.items()}
