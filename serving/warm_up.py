"""Requests that make a model ready: one for each shape that it meets.

An export has them in a TFRecord file of PredictionLog messages
(tensorflow_serving/apis/prediction_log.proto), which TensorFlow Serving sends
through a model before it serves it. The part in use is described below, so that
the package tensorflow-serving-api is not needed.
"""

import functools
import os
import sys
from collections.abc import Callable, Iterator

import tensorflow as tf
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from tensorflow.core.framework.tensor_pb2 import TensorProto

from storage.progress import Progress

FILE = os.path.join("assets.extra", "tf_serving_warmup_requests")
_SIGNATURE = "serving_default"
# Message: fields with their number and type; * marks a repeated one.
_MESSAGES = {
  "PredictionLog": ("predict_log 6 PredictLog",),
  "PredictLog": ("request 1 PredictRequest",),
  "PredictRequest": ("model_spec 1 ModelSpec", "inputs 2 Input*"),
  "ModelSpec": ("signature_name 3 string",),
  "Input": ("key 1 string", "value 2 bytes"),
}


def save(folder: str, texts: Iterator[dict[str, tf.Tensor]]) -> None:
  """Writes the file of an export."""
  path = os.path.join(folder, FILE)
  tf.io.gfile.makedirs(os.path.dirname(path))
  with tf.io.TFRecordWriter(path) as writer:
    for request in texts:
      log = _message()()
      body = log.predict_log.request
      body.model_spec.signature_name = _SIGNATURE
      for name, value in request.items():
        tensor = tf.make_tensor_proto(value)
        body.inputs.add(key=name, value=tensor.SerializeToString())
      writer.write(log.SerializeToString())


def load(folder: str) -> list[dict[str, tf.Tensor]]:
  """Reads an export's requests of `serving_default`; none without a file."""
  path = os.path.join(folder, FILE)
  if not tf.io.gfile.exists(path):
    return []
  result = []
  for record in tf.data.TFRecordDataset(path).as_numpy_iterator():
    body = _message().FromString(record).predict_log.request
    if body.model_spec.signature_name not in ("", _SIGNATURE):
      continue
    inputs = {}
    for entry in body.inputs:
      tensor = TensorProto.FromString(entry.value)
      inputs[entry.key] = tf.constant(tf.make_ndarray(tensor))
    if inputs:  # else another kind of request
      result.append(inputs)
  return result


def run(function: Callable, texts: list[dict[str, tf.Tensor]]) -> None:
  """Sends requests through a signature; prints progress to standard error."""
  log = functools.partial(print, file=sys.stderr)
  progress = Progress("warmed up", len(texts), "shapes", log=log)
  for request in texts:
    function(**request)
    progress.add(1)
  progress.say()


@functools.cache
def _message():
  """Class of PredictionLog, in a pool of its own."""
  file = descriptor_pb2.FileDescriptorProto(
    name="prediction_log.proto", package="warm_up", syntax="proto3"
  )
  kinds = descriptor_pb2.FieldDescriptorProto
  for name, fields in _MESSAGES.items():
    message = file.message_type.add(name=name)
    for text in fields:
      field_name, number, kind = text.split()
      field = message.field.add(name=field_name, number=int(number))
      repeated = kind.endswith("*")
      field.label = kinds.LABEL_REPEATED if repeated else kinds.LABEL_OPTIONAL
      kind = kind.rstrip("*")
      if kind in _MESSAGES:
        field.type, field.type_name = kinds.TYPE_MESSAGE, f".warm_up.{kind}"
      else:
        field.type = getattr(kinds, f"TYPE_{kind.upper()}")
  pool = descriptor_pool.DescriptorPool()
  pool.Add(file)
  return message_factory.GetMessageClass(
    pool.FindMessageTypeByName("warm_up.PredictionLog")
  )
