"""Exports of a trained model: SavedModel, LiteRT and Keras files.

A SavedModel has the signatures `serving_features`, the model's outputs for its
inputs; `serving_examples`, the same for serialized tf.train.Examples, [B]
string; and `serving_default`, named answers to raw text, or `serving_features`
again where the answers are not in the graph.
"""

import contextlib
import glob
import logging as python_logging
import os
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import keras
import tensorflow as tf
from absl import logging

from data.tokenization_ops import GraphTokenizer, join, truncate_pair
from modeling import tracing
from serving import answers
from serving.answers import LITERT_FILES, SIGNATURE, Answers
from storage import UserError, files, tfrecord
from storage.progress import no_stderr
from storage.tfrecord import encode_field
from training import processes

WARM_UP_FILE = os.path.join("assets.extra", "tf_serving_warmup_requests")


class TextSignature(tf.Module):
  """Base of classes that answer raw text, of specs `texts`, in the graph."""

  def __init__(self, tokenizer: GraphTokenizer, answers: Answers):
    super().__init__()
    self._tokenizer, self._answers = tokenizer, answers
    self._seq_length = answers.config.max_seq_length
    words = answers.config.tokenizer
    self._ends = words.cls, words.sep
    self.texts = {
      name: tf.TensorSpec([None] * (1 + rank), tf.string, name)
      for name, rank in answers.inputs.items()
      if name not in answers.optional
    }

  def from_text(self, model, *_, **texts: tf.Tensor) -> dict[str, tf.Tensor]:
    """Named answers for raw text."""
    raise NotImplementedError

  def _encode(
    self,
    text_a: tf.Tensor,
    text_b: tf.Tensor | None = None,
    keep_empty: bool = False,
  ) -> dict[str, tf.Tensor]:
    """Rows of [B] string each, as RowEncoder; see `join`."""
    first = self._tokenizer.tokenize(text_a)
    if text_b is None:
      return join(first[:, : self._seq_length - 2], None, *self._ends)
    second = self._tokenizer.tokenize(text_b)
    # A text that is truncated to nothing gets its [SEP], too.
    lengths = second.row_lengths()
    has_second = tf.cast((lengths > 0) | keep_empty, tf.int64)
    limit = self._seq_length - 2 - has_second
    pair = truncate_pair(first, second, limit)
    return join(*pair, *self._ends, has_second)


class ServedModel(NamedTuple):
  """A model for inference on any device, and its answers to texts."""

  model: keras.Model
  answers: Answers
  in_graph: type[TextSignature] | None = None  # of its task, if it has one


class Exported(tf.Module):
  """A model with its signatures, to be saved: `functions` by name."""

  def __init__(self, served: ServedModel):
    super().__init__(name="served")
    model, config = served.model, served.answers.config
    # Not the model itself, with which Keras would save more.
    self._variables = [variable.value for variable in model.variables]
    features = outputs_function(model)
    length = config.max_seq_length
    self.functions = {
      "serving_default": features,
      SIGNATURE: features,
      "serving_examples": _trace(
        lambda examples: features(**_parse(examples, model, length)),
        {"examples": tf.TensorSpec([None], tf.string, "examples")},
      ),
    }
    # Another kind of tokenizer may have no operations.
    if served.in_graph and (tokenizer := config.tokenizer.in_graph()):
      self._text = text = served.in_graph(tokenizer, served.answers)
      self.functions["serving_default"] = _trace(
        lambda **texts: text.from_text(model, **texts), text.texts
      )


def outputs_function(model: keras.Model):
  """A model's outputs, in float32, as a concrete function of its inputs."""

  def run(**inputs):
    with tf.control_dependencies(_check_positions(inputs)):
      inputs = {name: tf.identity(value) for name, value in inputs.items()}
    outputs = model(inputs, training=False)
    return {name: tf.cast(value, tf.float32) for name, value in outputs.items()}

  return _trace(run, _specs(model))


def _specs(model):
  return {
    name: tf.TensorSpec([None] * len(value.shape), tf.int32, name)
    for name, value in model.input.items()
  }


def _check_positions(inputs):
  """Else another row's tokens would be read, perhaps those of another client.

  Raises InvalidArgumentError for a masked position beyond the row.
  """
  if "masked_lm_positions" not in inputs:
    return []
  positions = inputs["masked_lm_positions"]
  length = tf.shape(inputs["input_ids"])[1]
  is_inside = (positions >= 0) & (positions < length)
  message = "masked_lm_positions beyond the tokens of a row"
  return [tf.debugging.Assert(tf.reduce_all(is_inside), [message])]


def _trace(function, specs):
  # TensorFlow keeps gradients of a loaded model in memory when it is dropped.
  with tracing.mode(gradients=False):
    traced = tf.function(function, autograph=False)
    return traced.get_concrete_function(**specs)


def _parse(examples, model, seq_length):
  """Inputs of records; rows may be short and have any number of choices."""
  # Labels may be absent. Choices, [C, T], are stored one after the other.
  features = {
    name: tf.io.FixedLenSequenceFeature(
      [seq_length] * (len(value.shape) - 2), tf.int64, allow_missing=True
    )
    for name, value in model.input.items()
  }
  batch = tf.io.parse_example(examples, features)
  # Rows of an empty batch need a length, too.
  extra = tf.cast(tf.equal(tf.size(examples), 0), tf.int32)
  return {
    name: tf.pad(
      tf.cast(value, tf.int32),
      [[0, 0], [0, extra]] + [[0, 0]] * (value.shape.rank - 2),
    )
    for name, value in batch.items()
  }


# --- Files -----------------------------------------------------------------


def save(directory: str, served: ServedModel, formats: Sequence[str]) -> None:
  """Writes exports of a model, all into one folder, which is new or empty.

  `formats` are some of FORMATS. The folder appears when it is complete. Raises
  FileExistsError if there are files in it.
  """
  with new_folder(directory) as folder:
    for name in formats:
      FORMATS[name](folder, served)
    answers.save(folder, served.answers, has_task=formats != ["keras"])


@contextlib.contextmanager
def new_folder(directory: str) -> Iterator[str]:
  """Temporary folder, renamed when complete; see files.check_is_free."""
  files.check_is_free(directory)
  base = f"{directory.rstrip('/')}.unfinished-"
  unfinished = f"{base}{os.getpid()}"
  for left in files.glob_files(f"{glob.escape(base)}*"):
    pid = left.rstrip("/").removeprefix(base)
    if pid.isdigit() and processes.has_ended(int(pid)):
      files.remove_folder(left)  # of an export that was killed
  tf.io.gfile.makedirs(unfinished)
  try:
    yield unfinished
    files.check_is_free(directory)  # another process may have been faster
  except BaseException:
    files.remove_folder(unfinished)
    raise
  tf.io.gfile.rename(unfinished, directory, overwrite=True)
  logging.info("exported to %s", directory)


def save_savedmodel(directory: str, served: ServedModel) -> None:
  """Writes a SavedModel, with a request that makes a TF Serving ready."""
  exported = Exported(served)
  with _no_information():
    tf.saved_model.save(exported, directory, exported.functions)
  default = exported.functions["serving_default"]
  specs = default.structured_input_signature[1]
  inputs = {name: _short_input(spec) for name, spec in specs.items()}
  with files.open_for_writing(os.path.join(directory, WARM_UP_FILE)) as file:
    file.write(tfrecord.frame(prediction_log(inputs)))


@contextlib.contextmanager
def _no_information():
  """Context without TensorFlow's line for each name that it saves."""
  before = python_logging.root.manager.disable
  python_logging.disable(python_logging.INFO)
  try:
    yield
  finally:
    python_logging.disable(before)


def _short_input(spec):
  """One text, one list of a text, or a row of a few tokens."""
  if spec.dtype == tf.string:
    return tf.fill([1] * spec.shape.rank, ".")
  return tf.ones([1] * (spec.shape.rank - 1) + [8], spec.dtype)


def prediction_log(inputs: dict[str, tf.Tensor]) -> bytes:
  """A request for `serving_default`, as TF Serving reads it from WARM_UP_FILE.

  PredictionLog{6: PredictLog{1: PredictRequest{1: spec, 2: inputs}}}, written
  here, so that the package tensorflow-serving-api is not needed.
  """
  request = encode_field(1, encode_field(3, b"serving_default"))
  for name, value in inputs.items():
    tensor = tf.make_tensor_proto(value).SerializeToString()
    request += encode_field(
      2, encode_field(1, name.encode()) + encode_field(2, tensor)
    )
  return encode_field(6, encode_field(1, request))


def save_tflite(directory: str, served: ServedModel) -> None:
  """Writes model_float32.tflite, model_float16.tflite and model_int8.tflite.

  float16 halves all weights; int8 quantizes matrices to a quarter, and
  activations dynamically. The signature `serving_default` takes one row, of any
  length, by the model's names: with a batch of any size, shapes would be
  computed between the operations and keep XNNPACK from running them in one go.
  Raises UserError if LiteRT lacks an operation of the model.
  """
  model = served.model
  module = tf.Module()
  module.variables_of_model = [variable.value for variable in model.variables]
  specs = {
    name: tf.TensorSpec([1, *spec.shape[1:]], spec.dtype, name)
    for name, spec in _specs(model).items()
  }
  with tracing.mode(fused=False):  # what is faster in TensorFlow is not here
    function = _trace(lambda **inputs: model(inputs, training=False), specs)
  for file_name in LITERT_FILES.values():
    converter = tf.lite.TFLiteConverter.from_concrete_functions(
      [function], module
    )
    if "float32" not in file_name:
      converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if "float16" in file_name:
      converter.target_spec.supported_types = [tf.float16]
    content = _convert(converter)
    with files.open_for_writing(os.path.join(directory, file_name)) as file:
      file.write(content)
    logging.info("%s: %.1f MB", file_name, len(content) / 1e6)


def _convert(converter):
  try:
    with _no_information(), no_stderr():
      return converter.convert()
  except Exception as error:  # its class is not public
    raise UserError(
      "LiteRT does not have all operations of this model: export it with "
      "--export_format=savedmodel"
    ) from error


def save_keras(directory: str, served: ServedModel) -> None:
  """Writes model.keras, which takes tokens."""
  served.model.save(os.path.join(directory, "model.keras"))


# Functions by the name in --export_format.
FORMATS = {
  "savedmodel": save_savedmodel,
  "tflite": save_tflite,
  "keras": save_keras,
}
