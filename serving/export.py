"""A trained model as a graph that an export holds: its signatures.

A SavedModel has the signatures `serving_features`, the model's outputs for its
inputs; `serving_examples`, the same for serialized tf.train.Examples, [B]
string; and `serving_default`, named answers to raw text, or `serving_features`
again where the answers are not in the graph.
"""

import contextlib
import glob
import logging as python_logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import keras
import tensorflow as tf
from absl import logging

from data.tokenization_ops import GraphTokenizer, join, truncate_pair
from modeling import tracing
from serving import answers
from serving.answers import SIGNATURE, Answers
from serving.formats import FORMATS
from storage import files
from training import processes


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
      "serving_examples": trace(
        lambda examples: features(**_parse(examples, model, length)),
        {"examples": tf.TensorSpec([None], tf.string, "examples")},
      ),
    }
    # Another kind of tokenizer may have no operations.
    if served.in_graph and (tokenizer := config.tokenizer.in_graph()):
      self._text = text = served.in_graph(tokenizer, served.answers)
      self.functions["serving_default"] = trace(
        lambda **texts: text.from_text(model, **texts), text.texts
      )


def outputs_function(model: keras.Model):
  """A model's outputs, in float32, as a concrete function of its inputs."""

  def run(**inputs):
    with tf.control_dependencies(_check_positions(inputs)):
      inputs = {name: tf.identity(value) for name, value in inputs.items()}
    outputs = model(inputs, training=False)
    return {name: tf.cast(value, tf.float32) for name, value in outputs.items()}

  return trace(run, specs(model))


def specs(model: keras.Model) -> dict[str, tf.TensorSpec]:
  """The inputs of a model, of any batch and length, by name."""
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


def trace(function: Callable, specs: Mapping[str, tf.TensorSpec]):
  """Concrete function of named inputs."""
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


def save(directory: str, served: ServedModel, names: Sequence[str]) -> None:
  """Writes exports of a model, all into one folder, which is new or empty.

  `names` are of formats.FORMATS. The folder appears when it is complete. Raises
  FileExistsError if there are files in it.
  """
  rows = [FORMATS[name] for name in names]
  with new_folder(directory) as folder:
    for row in rows:
      row.module.save(folder, served)
    has_engine = any(row.files for row in rows)
    answers.save(folder, served.answers, has_task=has_engine)


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


@contextlib.contextmanager
def no_information():
  """Context without TensorFlow's line for each name that it saves."""
  before = python_logging.root.manager.disable
  python_logging.disable(python_logging.INFO)
  try:
    yield
  finally:
    python_logging.disable(before)
