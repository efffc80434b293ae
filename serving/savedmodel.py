"""Writes SavedModels, and runs SavedModels with TensorFlow."""

import os
from contextlib import suppress
from importlib.util import find_spec
from itertools import product
from threading import Thread

import numpy as np
from absl import logging

from serving.answers import SIGNATURE, TextModel
from serving.engines import Batches, first_line
from storage import UserError, files, tfrecord

WARM_UP_FILE = os.path.join("assets.extra", "tf_serving_warmup_requests")
# Limits of a batch on a GPU.
_GPU_TOKENS, _GPU_ROWS = 1 << 15, 512
# XLA compiles programs for small batches, which a GPU computes faster than the
# host starts operations. Programs have these rows; lengths double from 32.
_FEW_ROWS, _SHORTEST = (1, 2, 4, 8), 32
_owners = set[int]()  # IDs of the processes that opened a model


def check_process() -> None:
  """Raises UserError without TensorFlow, or in a fork of a process with it."""
  if not find_spec("tensorflow"):
    raise UserError(
      "this model needs TensorFlow: pip install -r requirements.txt; only an "
      "export in the format tflite does not"
    )
  if _owners - {os.getpid()}:  # TensorFlow would wait without end
    raise UserError(
      "this process was forked after a model was opened, which TensorFlow does "
      "not survive: start processes by spawn, or use an export for LiteRT"
    )


class TensorFlowEngine(Batches):
  """Runs a concrete function; `owner` keeps the variables alive.

  On a GPU, small batches are padded to a few shapes that `warm_up` compiles.
  """

  def __init__(self, function, owner):
    from tensorflow import config  # noqa: PLC0415

    self._on_gpu = bool(config.list_physical_devices("GPU"))
    if self._on_gpu:
      self.max_tokens, self.max_rows = _GPU_TOKENS, _GPU_ROWS
    specs = function.structured_input_signature[1]
    features = {name: spec.shape.rank - 1 for name, spec in specs.items()}
    outputs = {
      name: [-1 if n is None else n for n in value.shape]
      for name, value in function.structured_outputs.items()
    }
    super().__init__(features, outputs)
    self._function, self._owner = function, owner
    _owners.add(os.getpid())
    self._programs = {}  # by rows and length

  def warm_up(self) -> None:
    """Compiles programs in a thread. Meanwhile batches run without programs."""
    # Models with masked positions or choices get no programs: XLA would ignore
    # the check of positions, and choices have one more axis.
    if self._on_gpu and [*self.features.values()] == [1] * 3:
      Thread(target=self._compile, daemon=True).start()

  def _compile(self):
    import tensorflow as tf  # noqa: PLC0415

    tables = (v for v in self._function.variables if "position_emb" in v.name)
    longest = next(tables).shape[0]
    lengths = [min(_SHORTEST, longest)]
    while lengths[-1] < longest:
      lengths.append(min(2 * lengths[-1], longest))
    for shape in product(_FEW_ROWS, lengths):
      specs = {name: tf.TensorSpec(shape, tf.int32) for name in self.features}
      program = tf.function(
        lambda **x: self._function(**x), autograph=False, jit_compile=True
      ).get_concrete_function(**specs)
      program(**{name: tf.zeros(shape, tf.int32) for name in specs})
      self._programs[shape] = program
    logging.info("XLA compiled %d programs", len(self._programs))

  def _call(self, inputs):
    from tensorflow import constant, errors  # noqa: PLC0415

    check_process()
    rows, *_, length = inputs["input_ids"].shape
    # Copied, because a thread may add programs.
    fitting = (x for x in [*self._programs] if x[0] >= rows and x[1] >= length)
    function = self._function
    if shape := min(fitting, default=None):
      function = self._programs[shape]
      pads = (0, shape[0] - rows), (0, shape[1] - length)
      inputs = {name: np.pad(value, pads) for name, value in inputs.items()}
    try:
      outputs = function(**{k: constant(v) for k, v in inputs.items()})
    except errors.InvalidArgumentError as error:
      raise UserError(first_line(error.message)) from None
    return {name: value.numpy() for name, value in outputs.items()}


def load(path: str) -> TensorFlowEngine:
  """Loads the folder around saved_model.pb; UserError if it is damaged."""
  check_process()
  import tensorflow as tf  # noqa: PLC0415

  for gpu in tf.config.list_physical_devices("GPU"):
    with suppress(RuntimeError):  # a GPU that is in use already
      # Take memory as needed, and leave the rest to other processes.
      tf.config.experimental.set_memory_growth(gpu, True)
  folder = os.path.dirname(path)
  try:
    model = tf.saved_model.load(folder)
  except Exception as error:  # of many types
    text = f"{folder} is damaged, export it again: {first_line(str(error))}"
    raise UserError(text) from error
  return TensorFlowEngine(model.signatures[SIGNATURE], model)


def text_model(served) -> TextModel:
  """Returns a TextModel that answers as an exported SavedModel would."""
  from serving.export import outputs_function  # noqa: PLC0415

  engine = TensorFlowEngine(outputs_function(served.model), served.model)
  return TextModel(served.answers, engine)


def save(folder: str, served) -> None:
  """Writes a SavedModel, with a request that warms TF Serving up."""
  import tensorflow as tf  # noqa: PLC0415

  from serving import export  # noqa: PLC0415

  exported = export.Exported(served)
  verbosity = logging.get_verbosity()
  logging.set_verbosity(logging.WARNING)  # not a line for each saved name
  try:
    tf.saved_model.save(exported, folder, exported.functions)
  finally:
    logging.set_verbosity(verbosity)
  default = exported.functions["serving_default"]
  log = tfrecord.messages()["PredictionLog"]()
  request = log.predict_log.request
  request.spec.signature_name = "serving_default"
  for name, spec in default.structured_input_signature[1].items():
    # One text, one list with a text, or one row of eight tokens.
    ones = [1] * spec.shape.rank
    is_text = spec.dtype == tf.string
    value = tf.fill(ones, ".") if is_text else tf.ones([*ones[1:], 8], tf.int32)
    tensor = tf.make_tensor_proto(value)
    request.inputs.add(name=name, tensor=tensor.SerializeToString())
  with files.open_for_writing(os.path.join(folder, WARM_UP_FILE)) as file:
    file.write(tfrecord.frame(log.SerializeToString()))
