"""Writes SavedModels, and runs SavedModels with TensorFlow."""

import os
import re
from collections.abc import Mapping
from contextlib import suppress

from serving.answers import SIGNATURE, TextModel
from serving.engines import Batches, first_line
from storage import UserError, files, tfrecord
from storage.tfrecord import encode_field

WARM_UP_FILE = os.path.join("assets.extra", "tf_serving_warmup_requests")
_GPU_TOKENS = 1 << 15  # in a batch


class TensorFlowEngine(Batches):
  """A concrete function; `owner` keeps the variables alive."""

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
    names = " ".join(variable.name for variable in function.variables)
    self.num_layers = len({*re.findall(r"encoder/(layer_\d+)/", names)})

  def _call(self, inputs):
    from tensorflow import constant, errors  # noqa: PLC0415

    try:
      outputs = self._function(**{k: constant(v) for k, v in inputs.items()})
    except errors.InvalidArgumentError as error:
      raise UserError(first_line(error.message)) from None
    return {name: value.numpy() for name, value in outputs.items()}


def load(path: str) -> TensorFlowEngine:
  """Loads the folder around saved_model.pb; UserError without SIGNATURE."""
  import tensorflow as tf  # noqa: PLC0415

  for gpu in tf.config.list_physical_devices("GPU"):
    with suppress(RuntimeError):  # a GPU that is in use already
      # A server leaves the rest of the memory to others.
      tf.config.experimental.set_memory_growth(gpu, True)
  folder = os.path.dirname(path)
  model = tf.saved_model.load(folder)
  if SIGNATURE not in model.signatures:
    raise UserError(
      f"{folder} has no signature {SIGNATURE}: name an export of this project"
    )
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
  with export.no_information():
    tf.saved_model.save(exported, folder, exported.functions)
  default = exported.functions["serving_default"]
  inputs = {}
  for name, spec in default.structured_input_signature[1].items():
    # One text, one list with a text, or one row of eight tokens.
    ones = [1] * spec.shape.rank
    is_text = spec.dtype == tf.string
    value = tf.fill(ones, ".") if is_text else tf.ones([*ones[1:], 8], tf.int32)
    inputs[name] = tf.make_tensor_proto(value).SerializeToString()
  with files.open_for_writing(os.path.join(folder, WARM_UP_FILE)) as file:
    file.write(tfrecord.frame(prediction_log(inputs)))


def prediction_log(inputs: Mapping[str, bytes]) -> bytes:
  """Encodes a `serving_default` request for TF Serving's WARM_UP_FILE.

  The message is PredictionLog{6: PredictLog{1: PredictRequest{1: spec, 2:
  inputs}}} of tensorflow-serving-api. `inputs` are serialized TensorProtos.
  """
  request = encode_field(1, encode_field(3, b"serving_default"))
  for name, tensor in inputs.items():
    entry = encode_field(1, name.encode()) + encode_field(2, tensor)
    request += encode_field(2, entry)
  return encode_field(6, encode_field(1, request))
