"""Exports a trained model, and builds the three signatures of a SavedModel.

serving_features: the model's outputs for rows of token ids.
serving_examples: the same outputs for serialized tf.train.Examples, [B] string.
serving_default: named answers to raw text; the same as serving_features if the
  graph cannot compute answers.
"""

import contextlib
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import keras
import tensorflow as tf
from absl import logging

from data.tokenization_ops import GraphTokenizer, join, truncate_pair
from serving import answers
from serving.answers import SIGNATURE, Answers
from serving.formats import FORMATS
from storage import files


class TextSignature(tf.Module):
  """Base class of graphs that answer raw text; `texts` has the input specs."""

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
    raise NotImplementedError

  def _encode(self, text_a, text_b=None, keep_empty=False):
    """Encodes texts, [B] string each, as RowEncoder does, by `join`."""
    first = self._tokenizer.tokenize(text_a)
    if text_b is None:
      return join(first[:, : self._seq_length - 2], None, *self._ends)
    second = self._tokenizer.tokenize(text_b)
    # A second text keeps [SEP] even if truncation leaves no token.
    lengths = second.row_lengths()
    has_second = tf.cast((lengths > 0) | keep_empty, tf.int64)
    limit = self._seq_length - 2 - has_second
    pair = truncate_pair(first, second, limit)
    return join(*pair, *self._ends, has_second)


class ServedModel(NamedTuple):
  """A model for inference on any device, with the Answers of a task."""

  model: keras.Model
  answers: Answers
  in_graph: type[TextSignature] | None = None  # None if the task has none


class Exported(tf.Module):
  """Holds a model to save; `functions` has the signatures by name."""

  def __init__(self, served: ServedModel):
    super().__init__(name="served")
    model, config = served.model, served.answers.config
    # Variables only: Keras would save more than inference needs.
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
    # Some tokenizers have no operations for the graph.
    if served.in_graph and (tokenizer := config.tokenizer.in_graph()):
      self._text = text = served.in_graph(tokenizer, served.answers)
      self.functions["serving_default"] = trace(
        lambda **texts: text.from_text(model, **texts), text.texts
      )


def outputs_function(model: keras.Model):
  """Concrete function from a model's inputs to float32 outputs."""

  def run(**inputs):
    checks = []
    if "masked_lm_positions" in inputs:
      # A position outside the row would read another row, maybe of a stranger.
      positions = inputs["masked_lm_positions"]
      length = tf.shape(inputs["input_ids"])[1]
      is_inside = tf.reduce_all((positions >= 0) & (positions < length))
      message = "masked_lm_positions beyond the tokens of a row"
      checks = [tf.debugging.Assert(is_inside, [message])]
    with tf.control_dependencies(checks):
      inputs = {name: tf.identity(value) for name, value in inputs.items()}
    outputs = model(inputs, training=False)
    return {name: tf.cast(value, tf.float32) for name, value in outputs.items()}

  return trace(run, specs(model))


def specs(model: keras.Model) -> dict[str, tf.TensorSpec]:
  """Input specs of a model by name, for any batch size and length."""
  ranks = {name: len(value.shape) for name, value in model.input.items()}
  return {k: tf.TensorSpec([None] * n, tf.int32, k) for k, n in ranks.items()}


def trace(function: Callable, specs: Mapping[str, tf.TensorSpec]):
  return tf.function(function, autograph=False).get_concrete_function(**specs)


def _parse(examples, model, seq_length):
  # Labels may be absent. Records store choices, [C, T], one after another.
  feature = partial(tf.io.FixedLenSequenceFeature, allow_missing=True)
  features = {
    name: feature([seq_length] * (len(value.shape) - 2), tf.int64)
    for name, value in model.input.items()
  }
  batch = tf.io.parse_example(examples, features)
  return {name: tf.cast(value, tf.int32) for name, value in batch.items()}


# --- Files -----------------------------------------------------------------


def save(directory: str, served: ServedModel, names: Sequence[str]) -> None:
  """Exports a model to a new or empty folder; `names` are keys of FORMATS.

  The folder appears when complete. Raises FileExistsError if files are there.
  """
  with new_folder(directory) as folder:
    for name in names:
      FORMATS[name].module.save(folder, served)
    answers.save(folder, served.answers)


@contextlib.contextmanager
def new_folder(directory: str) -> Iterator[str]:
  """Yields a temporary folder; at the end, renames it to `directory`."""
  files.check_is_free(directory)
  # Another process may export to the same folder.
  unfinished = f"{directory.rstrip('/')}.unfinished-{secrets.token_hex(4)}"
  files.make_folder(unfinished)
  try:
    yield unfinished
    files.check_is_free(directory)  # another process may have been faster
    files.rename(unfinished, directory)
  except BaseException:
    files.remove_folder(unfinished)
    raise
  logging.info("exported to %s", directory)
