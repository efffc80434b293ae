"""A loaded SavedModel: its signatures as functions of batches."""

from collections.abc import Callable

import tensorflow as tf
from google.protobuf import json_format
from tensorflow.core.protobuf import saved_model_pb2

from serving import warm_up
from serving.server.batching import Batcher, Function
from serving.server.models import Settings
from serving.server.rest import RestError

_DEFAULT = "serving_default"
# HTTP statuses of TF Serving for TensorFlow's errors; else 500.
_STATUSES = {
  tf.errors.INVALID_ARGUMENT: 400,
  tf.errors.FAILED_PRECONDITION: 400,
  tf.errors.OUT_OF_RANGE: 400,
  tf.errors.NOT_FOUND: 404,
  tf.errors.RESOURCE_EXHAUSTED: 429,
  tf.errors.UNIMPLEMENTED: 501,
}


class Version:
  """A version of a model: signatures of a SavedModel, in batches.

  `on_batch` gets the number of texts of each batch; `specs` has a TensorSpec by
  input by signature, `signature_def` is that of the saved file, as JSON has it.
  """

  def __init__(
    self, folder: str, settings: Settings, on_batch: Callable[[int], None]
  ):
    self._model = tf.saved_model.load(folder)  # owns the variables
    signatures = self._model.signatures
    self.specs = {
      name: signature.structured_input_signature[1]
      for name, signature in signatures.items()
    }
    self.functions = {n: to_function(n, s) for n, s in signatures.items()}
    self.signature_def = _read_signature_def(f"{folder}/saved_model.pb")
    if settings.warm_up:
      self._warm_up(folder)
    self.batcher = Batcher(
      settings.max_batch_size,
      settings.batch_timeout_ms / 1000,
      settings.max_queue_size,
      on_batch,
    )

  def _warm_up(self, folder):
    """Sends the export's requests for it, or a text, through the model."""
    specs = self.specs.get(_DEFAULT, {})
    texts = warm_up.load(folder)
    if not texts and {spec.dtype for spec in specs.values()} == {tf.string}:
      shapes = {name: [n or 1 for n in s.shape] for name, s in specs.items()}
      texts = [{name: tf.fill(shape, "a") for name, shape in shapes.items()}]
    if texts:
      warm_up.run(self._model.signatures[_DEFAULT], texts)


def to_function(name: str, signature) -> Function:
  """Function of a signature: how it runs, and if requests may share a batch."""
  specs = signature.structured_input_signature[1]
  outputs = signature.structured_outputs

  def run(inputs):
    try:
      tensors = {k: tf.constant(inputs[k], s.dtype) for k, s in specs.items()}
      return {k: v.numpy() for k, v in signature(**tensors).items()}
    except tf.errors.OpError as error:
      message = str(error.message).rpartition("<stack traces unavailable>\n")[2]
      message = message.strip().split("\n")[0][:500]
      raise RestError(_STATUSES.get(error.error_code, 500), message) from None

  shapes = [value.shape for value in (*specs.values(), *outputs.values())]
  if not all(shape.rank and shape[0] is None for shape in shapes):
    return Function(run)
  padded = {
    key
    for key, value in outputs.items()
    if value.shape.rank > 1 and value.shape[1] is None
  }
  # Rows of raw text's outputs are as long as the longest of the batch, which
  # `num_...` undoes. Those of other inputs are as long as the inputs.
  is_text = all(
    s.shape.rank == 1 and s.dtype == tf.string for s in specs.values()
  )
  if not padded or not is_text:
    return Function(run, can_join=True)
  counts = [key for key in outputs if key.startswith("num_")]
  if name == "serving_examples" or len(counts) != 1:
    return Function(run)
  return Function(run, True, counts[0], frozenset(padded))


def _read_signature_def(path):
  saved_model = saved_model_pb2.SavedModel()
  with tf.io.gfile.GFile(path, "rb") as file:
    saved_model.ParseFromString(file.read())
  return {
    name: json_format.MessageToDict(
      signature,
      preserving_proto_field_name=True,
      always_print_fields_with_no_presence=True,
    )
    for name, signature in saved_model.meta_graphs[0].signature_def.items()
  }
