"""A version of a model, and the threads that answer its requests in order."""

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from absl import logging

from serving.answers import SIGNATURE, TextModel
from serving.engines import num_cores
from storage import UserError

# A list of examples to a list of their answers, in order.
Function = Callable[[Sequence[Any]], Sequence[Any]]
_REFUSED = "the model refuses a row: an id is too large, or the row too long"
_DTYPES = {bool: "BOOL", int: "INT32", float: "FLOAT"}


class Spec(NamedTuple):
  """An input: "string" or a type of integers; its rank with the batch."""

  dtype: str
  rank: int
  is_optional: bool = False
  takes_words: bool = False  # a text may be a list of its words


class WrongRow(Exception):
  """A row that the model does not take; clients may read the message."""


class Version:
  """Signatures of a model by name: `specs` of their inputs, `functions`.

  `serving_default` takes the texts of the model's Answers, `serving_features`
  rows. `signature_def` describes both as JSON has it.
  """

  def __init__(
    self,
    model: TextModel,
    max_queue_size: int,
    on_call: Callable[[int], None] = lambda size: None,
  ):
    answers, engine = model.answers, model.engine
    optional, word_lists = answers.optional, answers.word_lists
    self.specs = {
      "serving_default": {
        name: Spec("string", 1 + rank, name in optional, name in word_lists)
        for name, rank in answers.inputs.items()
      },
      SIGNATURE: {
        name: Spec("int32", 1 + rank) for name, rank in engine.features.items()
      },
    }
    rows = partial(_answer_rows, engine)
    self.functions = {"serving_default": model, SIGNATURE: rows}
    answer = model.warm_up()
    answer.pop("entities", None)  # objects, which are no tensor
    answer = answer.items()
    outputs = {
      "serving_default": {k: _describe(v) for k, v in answer if v is not None},
      SIGNATURE: {k: ("FLOAT", v) for k, v in engine.outputs.items()},
    }
    self.signature_def = {
      name: _signature_def(name, specs, outputs[name])
      for name, specs in self.specs.items()
    }
    # With several workers, rows that are faster together would run apart.
    number = 1 if engine.max_rows > 1 else num_cores()
    self.workers = Workers(max_queue_size, number, engine.max_rows, on_call)


def _answer_rows(engine, rows: Sequence[Mapping]) -> list[dict]:
  rows = [{n: np.asarray(v, np.int32) for n, v in r.items()} for r in rows]
  for row in rows:
    _check_row(row)
  try:
    return list(engine.run(rows))
  except UserError as error:
    logging.info("rows were refused: %s", error)
    raise WrongRow(_REFUSED) from None


def _check_row(row):
  """Raises WrongRow for sizes that differ, and positions beyond the row."""
  shapes = {n: v.shape for n, v in row.items() if n != "masked_lm_positions"}
  if len(set(shapes.values())) > 1 or 0 in shapes["input_ids"]:
    raise WrongRow(f"inputs have other shapes, or are empty: {shapes}")
  positions = row.get("masked_lm_positions")
  length = shapes["input_ids"][-1]
  if positions is not None and np.any((positions < 0) | (positions >= length)):
    raise WrongRow("masked_lm_positions beyond the tokens of a row")


def _signature_def(name, specs, outputs):
  """A SignatureDef as TF Serving's metadata has it."""
  return {
    "inputs": {
      key: _tensor_info(f"{name}_{key}", spec.dtype.upper(), [-1] * spec.rank)
      for key, spec in specs.items()
    },
    "outputs": {
      key: _tensor_info("StatefulPartitionedCall", *output)
      for key, output in outputs.items()
    },
    "method_name": "tensorflow/serving/predict",
  }


def _describe(value):
  """Type and shape, with the batch, of a row's answer; all sizes are free."""
  shape = [-1]
  while isinstance(value, list) and value:
    value, shape = value[0], [*shape, -1]
  return _DTYPES.get(type(value), "STRING"), shape


def _tensor_info(name, dtype, shape):
  sizes = [{"size": str(size), "name": ""} for size in shape]
  return {
    "dtype": f"DT_{dtype}",
    "tensor_shape": {"dim": sizes, "unknown_rank": False},
    "name": f"{name}:0",
  }


# --- Workers ---------------------------------------------------------------


class QueueFull(Exception):
  """More examples are waiting than the queue may hold."""


class Closed(Exception):
  """The workers take no more requests."""


class _Request(NamedTuple):
  function: Function
  examples: Sequence[Any]
  future: Future


class Workers:
  """A number of threads; the oldest request is answered first.

  A worker that becomes free takes the requests of one function that wait, up to
  `max_rows` examples, in one call. At most `capacity` examples wait; `queued`
  is their number. `on_call` gets the number of examples of each call.
  """

  def __init__(
    self,
    capacity: int,
    number: int,
    max_rows: int = 1,
    on_call: Callable[[int], None] = lambda size: None,
  ):
    self.queued = 0
    self._capacity, self._max_rows, self._on_call = capacity, max_rows, on_call
    self._waiting: deque[_Request] = deque()
    self._changed = threading.Condition()
    self._is_closed = False
    for _ in range(number):
      threading.Thread(target=self._work, daemon=True).start()

  def submit(self, function: Function, examples: Sequence[Any]) -> Future:
    """Queues a request: future of its answers. Raises QueueFull or Closed."""
    request = _Request(function, examples, Future())
    with self._changed:
      if self._is_closed:
        raise Closed
      if self.queued + len(examples) > self._capacity:
        raise QueueFull
      self._waiting.append(request)
      self.queued += len(examples)
      self._changed.notify()
    return request.future

  def close(self) -> None:
    """Answers what is waiting, then ends the threads."""
    with self._changed:
      self._is_closed = True
      self._changed.notify_all()

  def _work(self):
    while (batch := self._take()) is not None:
      requests = [r for r in batch if r.future.set_running_or_notify_cancel()]
      if requests:
        self._on_call(sum(len(request.examples) for request in requests))
        _answer(requests)
      del batch, requests  # not held while waiting

  def _take(self) -> list[_Request] | None:
    """Waits for requests that run together; None after `close`."""
    with self._changed:
      while not self._waiting:
        if self._is_closed:
          return None
        self._changed.wait()
      first = self._waiting.popleft()
      requests, size = [first], len(first.examples)
      others: deque[_Request] = deque()
      for request in self._waiting:
        joint_size = size + len(request.examples)
        if request.function == first.function and joint_size <= self._max_rows:
          requests.append(request)
          size = joint_size
        else:
          others.append(request)
      self._waiting = others
      self.queued -= size
      return requests


def _answer(requests: list[_Request]) -> None:
  examples = [example for r in requests for example in r.examples]
  try:
    answers = iter(requests[0].function(examples))
  except Exception as error:
    if len(requests) == 1:
      requests[0].future.set_exception(error)
    else:
      for request in requests:  # only the culprit gets the error
        _answer([request])
    return
  for request in requests:
    request.future.set_result([next(answers) for _ in request.examples])
