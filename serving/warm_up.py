"""A request that makes TensorFlow Serving ready, before it serves a model.

It is a PredictionLog (tensorflow_serving/apis/prediction_log.proto) in a file
of the export. The few fields in use are written here, so that the package
tensorflow-serving-api is not needed.
"""

import os

import tensorflow as tf

FILE = os.path.join("assets.extra", "tf_serving_warmup_requests")


def save(folder: str, specs: dict[str, tf.TensorSpec]) -> None:
  """Writes a request for `serving_default`, with its specs by input."""
  path = os.path.join(folder, FILE)
  tf.io.gfile.makedirs(os.path.dirname(path))
  with tf.io.TFRecordWriter(path) as writer:
    writer.write(prediction_log({n: _example(s) for n, s in specs.items()}))


def _example(spec):
  """One text, one list of a text, or a row of a few tokens."""
  if spec.dtype == tf.string:
    return tf.fill([1] * spec.shape.rank, ".")
  return tf.ones([1] * (spec.shape.rank - 1) + [8], spec.dtype)


def prediction_log(inputs: dict[str, tf.Tensor]) -> bytes:
  """PredictionLog{6: PredictLog{1: PredictRequest{1: spec, 2: inputs}}}."""
  request = _field(1, _field(3, b"serving_default"))
  for name, value in inputs.items():
    tensor = tf.make_tensor_proto(value).SerializeToString()
    request += _field(2, _field(1, name.encode()) + _field(2, tensor))
  return _field(6, _field(1, request))


def _field(number: int, content: bytes) -> bytes:
  """A field of bytes in protobuf's encoding."""
  size, digits = len(content), []
  while size >= 128:
    digits.append(size % 128 + 128)
    size //= 128
  return bytes([number << 3 | 2, *digits, size]) + content
