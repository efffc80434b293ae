"""Writes --export_format=tflite, and runs the files with LiteRT."""

import os
import threading
import weakref
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain, islice

from absl import logging

from serving.answers import Engine, Outputs, Row
from serving.engines import first_line, num_cores
from serving.formats import FORMATS
from storage import UserError, files, no_stderr, setting

_MAX_COPIES = 1 << 29  # bytes of copied weights for each core
_OPEN_FILES = "/proc/self/fd"  # names of open files, by descriptor
_engines: weakref.WeakSet = weakref.WeakSet()


class LiteRtEngine(Engine):
  """Runs a LiteRT file, one row at a time; safe to call from threads.

  A batch would change results: int8 models scale activations by the largest
  value of a tensor. A single row uses all cores. Several rows use one core
  each, or more if memory limits the number of interpreters. Each interpreter
  packs a copy of the weights.
  """

  max_rows = 1

  def __init__(self, path: str):
    descriptor = os.open(path, os.O_RDONLY)
    weakref.finalize(self, os.close, descriptor)
    # Threads open interpreters later, when the path may be gone or replaced.
    self._file = os.path.abspath(path), descriptor
    self.name = f"LiteRT, {os.path.basename(path)}"
    cores = num_cores()
    with no_stderr():  # XNNPACK prints a line, once in a process
      self._alone = _Interpreter(self._file, cores)
    # An interpreter needs more memory for float16, which it unpacks.
    factor = 4 if "float16" in os.path.basename(path) else 1
    others = cores * _MAX_COPIES // (factor * os.path.getsize(path)) - 1
    self._num_workers = min(max(others, 1), cores)
    self._threads = cores // self._num_workers
    function = self._alone.function
    inputs = function.get_input_details().items()
    self.features = {k: len(v["shape_signature"]) - 1 for k, v in inputs}
    self.outputs = {
      name: [-1, *info["shape_signature"][1:].tolist()]
      for name, info in function.get_output_details().items()
    }
    self._start_threads()
    _engines.add(self)

  def _start_threads(self):
    self._local = threading.local()
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
    submit = partial(self._pool.submit, self._run_in_thread)
    waiting = map(submit, chain(first, rows))
    # Submit a few rows at a time, so that other requests can come between.
    running = deque(islice(waiting, 4 * self._num_workers))
    try:
      while running:
        result = running.popleft().result()
        running.extend(islice(waiting, 1))
        yield result
    finally:  # after an error, other requests need not wait for the rest
      for future in running:
        future.cancel()

  def _run_in_thread(self, row):
    with self._count:
      self._num_running += 1
    try:
      if self._num_workers == 1:
        with self._idle:
          return self._alone(row)
      if not hasattr(self._local, "interpreter"):
        self._local.interpreter = _Interpreter(self._file, self._threads)
      return self._local.interpreter(row)
    finally:
      with self._count:
        self._num_running -= 1


class _Interpreter:
  """A LiteRT file as a function of a row, for one thread at a time."""

  def __init__(self, file, num_threads):
    self._file, self._num_threads = file, num_threads
    self._load()

  def __call__(self, row):
    if self.function is None:
      self._load()
    try:
      outputs = self.function(**{k: value[None] for k, value in row.items()})
    except (RuntimeError, ValueError) as error:
      self.function = None  # it would repeat this error's text in later errors
      raise UserError(first_line(str(error))) from None
    return {name: value[0] for name, value in outputs.items()}

  def _load(self):
    from ai_edge_litert.interpreter import Interpreter  # noqa: PLC0415

    path, descriptor = self._file
    name = f"{_OPEN_FILES}/{descriptor}"
    if not os.path.exists(name):  # not Linux
      name = path
    try:
      interpreter = Interpreter(name, num_threads=self._num_threads)
      interpreter.allocate_tensors()
    except ValueError as error:
      message = f"{path} is damaged, export it again: {first_line(str(error))}"
      raise UserError(message) from None
    self.function = interpreter.get_signature_runner("serving_default")


def _after_fork():
  """Makes a child process independent of threads that only its parent has."""
  for engine in list(_engines):
    # To free it would wait for threads, which only the parent has.
    alone = engine._alone
    alone.of_parent, alone.function = alone.function, None
    engine._start_threads()


os.register_at_fork(after_in_child=_after_fork)
load = LiteRtEngine


def save(folder: str, served) -> None:
  """Writes three files: float32, float16, and int8 (matrices and activations).

  `serving_default` takes one row of any length. A free batch size would add
  shape computations, which keep XNNPACK from running all operations in one go.
  Raises UserError if LiteRT lacks an operation of the model.
  """
  import tensorflow as tf  # noqa: PLC0415

  from modeling import tracing  # noqa: PLC0415
  from serving import export  # noqa: PLC0415

  model = served.model
  module = tf.Module()
  module.variables_of_model = [variable.value for variable in model.variables]
  specs = {
    name: tf.TensorSpec([1, *spec.shape[1:]], spec.dtype, name)
    for name, spec in export.specs(model).items()
  }
  with tracing.mode(fused=False):  # fused operations are slower in LiteRT
    function = export.trace(lambda **x: model(x, training=False), specs)
  make = tf.lite.TFLiteConverter.from_concrete_functions
  for name in FORMATS["tflite"].files.values():
    converter = make([function], module)
    if "float32" not in name:
      converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if "float16" in name:
      converter.target_spec.supported_types = [tf.float16]
    try:
      with no_stderr():
        content = converter.convert()
    except Exception as error:  # its class is not public
      raise UserError(
        "LiteRT does not have all operations of this model: export it with "
        f"{setting('export_format', 'savedmodel')}"
      ) from error
    with files.open_for_writing(os.path.join(folder, name)) as file:
      file.write(content)
    logging.info("%s: %.1f MB", name, len(content) / 1e6)
