"""A version of a model, and the threads that answer requests in order."""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from absl import logging
from prometheus_client import Histogram

from serving.answers import SIGNATURE, TextModel
from serving.engines import num_cores
from serving.server import RestError
from storage import UserError, setting

# Maps a list of examples to their answers, in order.
Function = Callable[[Sequence[Any]], Iterable[Any]]
Sizes = Histogram | None  # observes the number of examples of each batch
_REFUSED = (
  "the model refuses a row: give inputs of one length, at most the model's "
  "maximum, ids of the vocabulary, and positions of tokens in the row"
)
_TURN = 4  # answers of a large request before another request's turn
_DTYPES = {bool: "BOOL", int: "INT32", float: "FLOAT"}


class Spec(NamedTuple):
  """An input of a signature.

  `dtype` is "string" or an integer type. `rank` includes the axis of rows.
  """

  dtype: str
  rank: int
  is_optional: bool = False
  takes_words: bool = False  # a text may be a list of its words


class Version:
  """The signatures of a loaded model.

  `specs` maps a signature to its inputs, `functions` to its function. The
  signature `serving_default` takes texts, SIGNATURE takes rows. `signature_def`
  is JSON for TF Serving's metadata. The server's page shows `facts`.
  """

  def __init__(self, model: TextModel, capacity: int, sizes: Sizes = None):
    answers, engine = model.answers, model.engine
    self.facts = {
      "task": answers.task.replace("_", " "),
      "engine": engine.name,
      "max_seq_length": answers.config.max_seq_length,
      "labels": answers.config.labels,
    }
    optional, word_lists = answers.optional, answers.word_lists
    texts = {
      name: Spec("string", 1 + rank, name in optional, name in word_lists)
      for name, rank in answers.inputs.items()
    }
    rows = {k: Spec("int32", 1 + rank) for k, rank in engine.features.items()}
    self.specs = {"serving_default": texts, SIGNATURE: rows}
    answer_rows = partial(_answer_rows, engine)
    self.functions = {"serving_default": model.stream, SIGNATURE: answer_rows}
    answer = model.warm_up()
    answer.pop("entities", None)  # a list of objects is not a tensor
    named = {k: _describe(v) for k, v in answer.items() if v is not None}
    outputs = {k: ("FLOAT", shape) for k, shape in engine.outputs.items()}
    self.signature_def = {
      "serving_default": _signature_def("serving_default", texts, named),
      SIGNATURE: _signature_def(SIGNATURE, rows, outputs),
    }
    # One worker collects batches; several workers would split the batches.
    number = 1 if engine.max_rows > 1 else num_cores()
    self.workers = Workers(capacity, number, engine.max_rows, sizes)


def _answer_rows(engine, rows: Sequence[Mapping]) -> Iterator[dict]:
  rows = [{n: np.asarray(v, np.int32) for n, v in r.items()} for r in rows]
  for row in rows:
    shapes = {v.shape for n, v in row.items() if n != "masked_lm_positions"}
    is_negative = any(np.any(value < 0) for value in row.values())
    length = row["input_ids"].shape[-1]
    is_outside = np.any(row.get("masked_lm_positions", np.int32(0)) >= length)
    # LiteRT does not check these, and would read other memory. (An empty row is
    # refused because 0 is outside of it.)
    if len(shapes) > 1 or is_negative or is_outside:
      raise RestError(_REFUSED)
  try:
    yield from engine.run(rows)
  except UserError as error:
    logging.info("rows were refused: %s", error)
    raise RestError(_REFUSED) from None


def _signature_def(name, specs, outputs):
  def info(tensor, dtype, shape):
    sizes = [{"size": str(size), "name": ""} for size in shape]
    tensor_shape = {"dim": sizes, "unknown_rank": False}
    facts = {"dtype": f"DT_{dtype}", "tensor_shape": tensor_shape}
    return facts | {"name": f"{tensor}:0"}

  return {
    "inputs": {
      key: info(f"{name}_{key}", spec.dtype.upper(), [-1] * spec.rank)
      for key, spec in specs.items()
    },
    "outputs": {
      key: info("StatefulPartitionedCall", *output)
      for key, output in outputs.items()
    },
    "method_name": "tensorflow/serving/predict",
  }


def _describe(value):
  shape = [-1]
  while isinstance(value, list) and value:
    value, shape = value[0], [*shape, -1]
  return _DTYPES.get(type(value), "STRING"), shape


# --- Workers ---------------------------------------------------------------


@dataclass(eq=False)
class _Request:
  """Examples that wait for answers."""

  function: Function
  examples: Sequence[Any]
  future: Future = field(default_factory=Future)
  answers: list = field(default_factory=list)
  left: Iterator | None = None  # answers to compute; None before the first


class Workers:
  """Runs `number` threads that answer the oldest request first.

  After a few answers of a large request, the next request gets its turn. A free
  worker batches new requests for the same function, up to `max_rows` examples;
  `sizes` observes each batch. At most `capacity` examples wait.
  """

  def __init__(
    self, capacity: int, number: int, max_rows: int = 1, sizes: Sizes = None
  ):
    self._capacity, self._max_rows, self._sizes = capacity, max_rows, sizes
    self._turn = _TURN if max_rows == 1 else 4 * max_rows
    self._waiting: list[_Request] = []
    self._changed = threading.Condition()
    self._is_closed = False
    for _ in range(number):
      threading.Thread(target=self._work, daemon=True).start()

  @property
  def queued(self) -> int:
    """Number of examples of requests that no worker has begun."""
    with self._changed:
      new = [r for r in self._waiting if not (r.left or r.future.cancelled())]
      return sum(len(request.examples) for request in new)

  def submit(self, function: Function, examples: Sequence[Any]) -> Future:
    """Queues a request, returns its Future; RestError if the queue is full."""
    request = _Request(function, examples)
    with self._changed:
      if self.queued + len(examples) > self._capacity:
        flag = setting("max_queue_size", self._capacity)
        message = f"the queue is full ({flag})"
        logging.log_every_n_seconds(logging.WARNING, message, 60)
        raise RestError(f"{message}: try again later", 503)
      self._waiting.append(request)
      self._changed.notify()
      if self._is_closed:  # after the request has found this version
        threading.Thread(target=self._work, daemon=True).start()
    return request.future

  def close(self) -> None:
    """Ends the threads after the answers to all requests."""
    with self._changed:
      self._is_closed = True
      self._changed.notify_all()

  def _work(self):
    while (requests := self._take()) is not None:
      if self._sizes and not requests[0].left:
        self._sizes.observe(sum(len(r.examples) for r in requests))
      if len(requests) == 1:
        if not _answer_some(requests[0], self._turn):
          with self._changed:
            self._waiting.append(requests[0])
            self._changed.notify()
        continue
      examples = [example for r in requests for example in r.examples]
      try:
        answers = iter([*requests[0].function(examples)])
      except Exception:
        for request in requests:  # alone, so that only wrong requests fail
          _answer_some(request, len(request.examples))
        continue
      for request in requests:
        with suppress(InvalidStateError):  # cancelled
          request.future.set_result([next(answers) for _ in request.examples])

  def _take(self) -> list[_Request] | None:
    """Waits for requests to answer jointly; None after `close`."""
    with self._changed:
      # Nobody waits for the answer of a cancelled request.
      while not (
        waiting := [r for r in self._waiting if not r.future.cancelled()]
      ):
        if self._is_closed:
          return None
        self._changed.wait()
      first, *others = waiting
      requests, size = [first], len(first.examples)
      for request in others:
        is_new = not (first.left or request.left)
        fits = size + len(request.examples) <= self._max_rows
        if is_new and fits and request.function == first.function:
          requests.append(request)
          size += len(request.examples)
      self._waiting = [r for r in others if r not in requests]
      return requests


def _answer_some(request: _Request, number: int) -> bool:
  """Computes up to `number` answers; True if the request needs no more."""
  try:
    request.left = request.left or iter(request.function(request.examples))
    new = [*islice(request.left, number)]
    request.answers += new
    is_last = len(new) < number or len(request.answers) == len(request.examples)
    if not is_last and not request.future.cancelled():
      return False
    with suppress(InvalidStateError):  # cancelled
      request.future.set_result(request.answers)
  except Exception as error:
    with suppress(InvalidStateError):
      request.future.set_exception(error)
  return True
