"""Exports of a trained model, and their signature as a Python function.

Formats are SavedModel of raw text, LiteRT and Keras.
"""

import contextlib
import json
import os
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

import keras
import tensorflow as tf
from absl import logging

from data.labels import save as save_labels
from modeling import tracing
from serving import compiled_model, litert, packing_ops, quiet, warm_up
from storage import UserError, files


class Task(Protocol):
  """Raw text to named answers, in the graph.

  `texts` has a TensorSpec for each argument of `from_text`. `schema` has the
  features of a record, the model's inputs among them, each with its `shape`.
  `settings` are JSON values for tasks/litert.py.
  """

  texts: dict[str, tf.TensorSpec]
  schema: dict
  settings: dict

  def from_text(self, model, **texts: tf.Tensor) -> dict[str, tf.Tensor]:
    """Named answers for raw text."""

  def from_features(self, model, **inputs: tf.Tensor) -> dict[str, tf.Tensor]:
    """Named answers for the model's inputs."""


class ServedModel(NamedTuple):
  """A model for inference on any device, its task and names of classes."""

  model: keras.Model
  task: Task
  labels: Sequence[str] | None = None

  @property
  def signatures(self) -> dict:
    """Signatures as those of a loaded SavedModel."""
    return {"serving_default": from_text(self.model, self.task)}


class Signature:
  """The signature `serving_default` of a model: rows of texts to dicts.

  `ranks` has 0 for each input that is a text, 1 for a list of texts. Texts of a
  row are in the order of the sorted names. Answers are without padding.
  """

  def __init__(self, model, requests):
    self._model = model  # owns the variables
    self._requests = requests  # to warm up
    self._function = model.signatures["serving_default"]
    specs = self._function.structured_input_signature[1]
    self.ranks = {name: specs[name].shape.rank - 1 for name in sorted(specs)}

  @classmethod
  def load(cls, folder: str) -> "Signature":
    """Loads a SavedModel, with the requests of its file to warm up.

    Raises ValueError if its signature `serving_default` does not take texts.
    """
    model = tf.saved_model.load(folder)
    function = model.signatures.get("serving_default")
    specs = function.structured_input_signature[1] if function else {}
    if {spec.dtype for spec in specs.values()} != {tf.string}:
      raise UserError(
        f"{folder} has no signature serving_default of texts: name what "
        "--do_export wrote"
      )
    return cls(model, warm_up.load(folder))

  @classmethod
  def of(cls, served: ServedModel) -> "Signature":
    """The signature that an export of a model would have here."""
    model = served.model
    is_compiled = compiled_model.is_compiled(model, None)
    if is_compiled:
      model = compiled_model.CompiledModel(model)
    requests = list(warm_up_requests(served.task, is_compiled))
    return cls(served._replace(model=model), requests)

  def warm_up(self) -> None:
    """Calls the model with each shape; prints progress."""
    warm_up.run(self._function, self._requests)

  def __call__(self, rows: list[tuple]) -> list[dict]:
    columns = zip(self.ranks, zip(*rows, strict=True), strict=True)
    outputs = self._function(
      **{name: tf.constant(column, tf.string) for name, column in columns}
    )
    arrays = {name: value.numpy() for name, value in outputs.items()}
    shapes = {n: v.shape for n, v in self._function.structured_outputs.items()}
    for count in [n for n in arrays if n.startswith("num_")]:
      for name, shape in shapes.items():
        if shape.rank > 1 and shape[1] is None:  # rows are padded
          pairs = zip(arrays[name], arrays[count], strict=True)
          arrays[name] = [row[:length] for row, length in pairs]
    columns = [_to_python(arrays[name]) for name in sorted(arrays)]
    rows = zip(*columns, strict=True)
    return [dict(zip(sorted(arrays), row, strict=True)) for row in rows]


def _to_python(value):
  """Converts arrays to lists and bytes to strings."""
  value = value.tolist() if hasattr(value, "tolist") else value
  if isinstance(value, list):
    return [_to_python(part) for part in value]
  return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


class Exported(tf.Module):
  """A model with its signatures, to be saved: `functions` by name.

  `serving_default` takes raw text, `serving_features` the model's inputs and
  `serving_examples` the same as serialized tf.train.Examples, [B] string. If
  `compiled`, these run the model under XLA, and `serving_plain` is
  `serving_default` without.
  """

  def __init__(self, model, task: Task, compiled: bool = False):
    super().__init__(name="served")
    # Not the model itself, with which Keras would save more.
    self._variables = [variable.value for variable in model.variables]
    self._task = task
    plain = {}
    if compiled:
      plain["serving_plain"] = from_text(model, task)
      model = compiled_model.CompiledModel(model)
    fields = {name: task.schema[name].shape for name in model.input}
    self.functions = plain | {
      "serving_default": from_text(model, task),
      "serving_features": _function(
        lambda **inputs: task.from_features(model, **inputs),
        {
          name: tf.TensorSpec([None] * (1 + len(shape)), tf.int32)
          for name, shape in fields.items()
        },
      ),
      "serving_examples": _function(
        lambda examples: task.from_features(model, **_parse(examples, fields)),
        {"examples": tf.TensorSpec([None], tf.string)},
      ),
    }


def from_text(model, task: Task):
  """The signature `serving_default`, which does not keep the model alive."""
  return _function(lambda **texts: task.from_text(model, **texts), task.texts)


def _function(function, specs):
  named = {
    name: tf.TensorSpec(spec.shape, spec.dtype, name=name)
    for name, spec in specs.items()
  }
  # TensorFlow keeps gradients of a loaded model in memory when it is dropped.
  with tracing.mode(gradients=False):
    traced = tf.function(function, autograph=False)
    return traced.get_concrete_function(**named)


def _parse(examples, fields):
  # Labels may be absent, rows shorter than in training, and the number of
  # choices any.
  features = {
    name: tf.io.FixedLenSequenceFeature(shape[1:], tf.int64, allow_missing=True)
    for name, shape in fields.items()
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


def save(directory: str, model, task: Task, compiled: bool = False) -> None:
  """Writes an Exported model atomically; FileExistsError if there are files."""
  with new_folder(directory) as folder:
    exported = Exported(model, task, compiled)
    with quiet.no_information():
      tf.saved_model.save(exported, folder, exported.functions)
    warm_up.save(folder, warm_up_requests(task, compiled))
  for name, function in exported.functions.items():
    specs = tf.nest.flatten(function.structured_input_signature)
    logging.info(
      "%s: %s -> %s",
      name,
      ", ".join(spec.name for spec in specs),
      ", ".join(sorted(function.structured_outputs)),
    )


def warm_up_requests(
  task: Task, compiled: bool
) -> Iterator[dict[str, tf.Tensor]]:
  """Texts of a task's signature, by input: one request for each shape.

  `static_length` of the task says that all rows are as long as its schema's. If
  `compiled`, of all shapes with a program; else of the smallest and the
  largest.
  """
  max_length = task.schema["input_ids"].shape[-1]
  is_static = getattr(task, "static_length", False)
  lengths = compiled_model.lengths(max_length)
  if is_static or not compiled:
    lengths = [max_length]
  for length in lengths:
    sizes = compiled_model.ROWS
    if not is_static:
      largest = int(packing_ops.batch_size(length))
      sizes = [size for size in sizes if size <= largest]
    for size in sizes if compiled else (1, sizes[-1]):
      yield _texts(task.texts, size, length)


def _texts(specs, size, length):
  """`size` texts that become `length` tokens: every "." is one."""
  longest = "context" if "context" in specs else max(specs)
  others = len(specs) - 1
  # Each text ends with [SEP]; the first one begins with [CLS].
  words = max(length - 2 - 2 * min(others, 1) - max(others - 1, 0), 1)
  result = {}
  for name, spec in specs.items():
    text = " ".join(["."] * (words if name == longest else 1))
    if spec.shape.rank > 1:  # as many choices as SWAG has
      result[name] = tf.fill([size, 4], text)
    else:
      result[name] = tf.fill([size], text)
  return result


@contextlib.contextmanager
def new_folder(directory: str) -> Iterator[str]:
  """Temporary folder, renamed when complete; see files.check_is_free."""
  files.check_is_free(directory)
  unfinished = f"{directory.rstrip('/')}.unfinished"
  files.remove_folder(unfinished)  # of an export that was killed
  tf.io.gfile.makedirs(unfinished)
  try:
    yield unfinished
  except BaseException:
    files.remove_folder(unfinished)
    raise
  # Replaces at most an empty folder.
  tf.io.gfile.rename(unfinished, directory, overwrite=True)
  logging.info("exported to %s", directory)


def save_tflite(directory: str, model) -> None:
  """Writes model_float32.tflite, model_float16.tflite and model_int8.tflite.

  They take tokens. float16 halves all weights; int8 quantizes matrices to a
  quarter, and activations dynamically. Inputs and outputs have the model's
  names in the signature `serving_default`; all dimensions are dynamic. Raises
  ValueError if LiteRT lacks an operation of the model.
  """
  module = tf.Module()
  module.variables_of_model = [variable.value for variable in model.variables]
  specs = {
    name: tf.TensorSpec([None] * len(value.shape), tf.int32)
    for name, value in model.input.items()
  }
  function = _function(lambda **inputs: model(inputs, training=False), specs)
  for name in ("float32", "float16", "int8"):
    converter = tf.lite.TFLiteConverter.from_concrete_functions(
      [function], module
    )
    if name != "float32":
      converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if name == "float16":
      converter.target_spec.supported_types = [tf.float16]
    content = _convert(converter)
    path = os.path.join(directory, f"model_{name}.tflite")
    with files.open_for_writing(path) as file:
      file.write(content)
    logging.info("%s: %.1f MB", os.path.basename(path), len(content) / 1e6)


def _convert(converter):
  try:
    with quiet.no_information(), quiet.no_stderr():
      return converter.convert()
  except Exception as error:  # its class is not public
    raise UserError(
      "LiteRT does not have all operations of this model: export it with "
      "--export_format=savedmodel"
    ) from error


def save_keras(directory: str, model: keras.Model) -> None:
  """Writes model.keras, which takes tokens."""
  model.save(os.path.join(directory, "model.keras"))


def save_tokenizer(
  directory: str,
  vocab_file: str,
  do_lower_case: bool,
  max_seq_length: int,
  labels: Sequence[str] | None,
) -> None:
  """Writes vocab.txt, tokenizer_config.json and perhaps labels.txt.

  tokenizer_config.json has transformers' names for the flags.
  """
  tf.io.gfile.copy(vocab_file, os.path.join(directory, "vocab.txt"))
  settings = {
    "do_lower_case": do_lower_case,
    "model_max_length": max_seq_length,
  }
  path = os.path.join(directory, "tokenizer_config.json")
  files.write_text(path, json.dumps(settings, indent=2) + "\n")
  if labels is not None:
    save_labels(labels, directory)


def save_task(directory: str, task: Task) -> None:
  """Writes task.json: the task's name and settings, for tasks/litert.py."""
  name = type(task).__module__.split(".")[1]
  text = json.dumps({"task": name} | task.settings, indent=2) + "\n"
  files.write_text(os.path.join(directory, litert.SETTINGS), text)
