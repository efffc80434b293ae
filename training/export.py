"""A trained model as a SavedModel that takes raw text, and in other formats."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Protocol

import tensorflow as tf
from absl import flags, logging

from training import export_formats, precision


class Task(Protocol):
  """What an export has to know of a task.

  Attributes:
    texts: TensorSpecs of what `from_text` takes, by name.
    schema: of a record: by name, fields with a `shape`. Only what the model
      takes of it is looked at.
  """

  texts: dict[str, tf.TensorSpec]
  schema: dict

  def from_text(self, model, **texts: tf.Tensor) -> dict[str, tf.Tensor]:
    """Named answers for raw text."""

  def from_features(self, model, **inputs: tf.Tensor) -> dict[str, tf.Tensor]:
    """Named answers for the model's inputs."""


class Exported(tf.Module):
  """A model with its signatures, to be saved.

  `serving_default` takes raw text, `serving_features` the model's inputs and
  `serving_examples` the same as serialized tf.train.Examples, [B] string.

  Arguments:
    model: a Keras model from a dict of inputs to a dict of outputs.
    task: what goes in and comes out.

  Attributes:
    functions: concrete functions by signature.
  """

  def __init__(self, model, task: Task):
    super().__init__(name="served")
    # Not the model itself: what Keras would save beside is not needed.
    self._variables = [variable.value for variable in model.variables]
    self._task = task
    fields = {name: task.schema[name].shape for name in model.input}
    self.functions = {
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
  """The signature `serving_default`: raw text in, named answers out.

  Args:
    model: a Keras model from a dict of inputs to a dict of outputs.
    task: what goes in and comes out.

  Returns:
    A concrete function, which keeps neither of them alive.
  """
  return _function(lambda **texts: task.from_text(model, **texts), task.texts)


def _function(function, specs):
  named = {
    name: tf.TensorSpec(spec.shape, spec.dtype, name=name)
    for name, spec in specs.items()
  }
  return tf.function(function).get_concrete_function(**named)


def _parse(examples, fields):
  # Other fields may be absent. A row may be shorter than in training, and there
  # may be any number of choices.
  features = {
    name: tf.io.FixedLenSequenceFeature(shape[1:], tf.int64, allow_missing=True)
    for name, shape in fields.items()
  }
  batch = tf.io.parse_example(examples, features)
  # Rows of an empty batch have a length, too.
  more = tf.cast(tf.equal(tf.size(examples), 0), tf.int32)
  return {
    name: tf.pad(
      tf.cast(value, tf.int32),
      [[0, 0], [0, more]] + [[0, 0]] * (value.shape.rank - 2),
    )
    for name, value in batch.items()
  }


def check_flags(FLAGS: flags.FlagValues) -> None:
  """Raises an error if --do_export would fail, before any work is done.

  Raises:
    ValueError: it is not said where to, or the format lacks the type.
    FileExistsError: there is something.
  """
  if not FLAGS.do_export:
    return
  if not FLAGS.export_dir:
    raise ValueError("--do_export needs --export_dir")
  if FLAGS.export_format == "tflite" and FLAGS.dtype != "float32":
    raise ValueError(
      f"--export_format=tflite does not go with --dtype={FLAGS.dtype}: train, "
      "then export in a run of its own without --dtype"
    )
  refuse_to_overwrite(FLAGS.export_dir)


def run(
  FLAGS: flags.FlagValues,
  model,
  task: Task,
  labels: Sequence[str] | None = None,
) -> None:
  """Exports a model to --export_dir, as --export_format says.

  Args:
    FLAGS: the values of training.flags.define_export and define_vocabulary,
      and `max_seq_length`.
    model: a Keras model from a dict of inputs to a dict of outputs.
    task: what goes in and comes out.
    labels: names of what the model scores, if they have names.

  Raises:
    FileExistsError: there is something.
    ValueError: the model cannot be had in that format.
  """
  if FLAGS.export_format == "savedmodel":
    save(FLAGS.export_dir, model, task)
    return
  write = {"tflite": export_formats.tflite, "keras": export_formats.keras}
  with _whole(FLAGS.export_dir) as folder:
    write[FLAGS.export_format](folder, model)
    export_formats.vocabulary(FLAGS, folder, labels)


def save(directory: str, model, task: Task) -> None:
  """Writes a SavedModel, which appears only when it is complete.

  Args:
    directory: where to; nothing may be there.
    model: a Keras model from a dict of inputs to a dict of outputs.
    task: what goes in and comes out.

  Raises:
    FileExistsError: there is something.
  """
  with _whole(directory) as folder:
    exported = Exported(model, task)
    with _in_silence():
      tf.saved_model.save(exported, folder, signatures=exported.functions)
  for name, function in exported.functions.items():
    logging.info(
      "%s: %s -> %s",
      name,
      ", ".join(
        spec.name
        for spec in tf.nest.flatten(function.structured_input_signature)
      ),
      ", ".join(sorted(function.structured_outputs)),
    )


@contextlib.contextmanager
def _in_silence() -> Iterator[None]:
  """Keeps back what TensorFlow tells of each name while it saves."""
  before = logging.get_verbosity(), tf.get_logger().level
  logging.set_verbosity(logging.WARNING)
  tf.get_logger().setLevel("WARNING")
  try:
    yield
  finally:
    logging.set_verbosity(before[0])
    tf.get_logger().setLevel(before[1])


@contextlib.contextmanager
def _whole(directory: str) -> Iterator[str]:
  """A folder that gets its name when what is to be in it is there."""
  refuse_to_overwrite(directory)
  unfinished = f"{directory.rstrip('/')}.unfinished"
  if tf.io.gfile.exists(unfinished):
    tf.io.gfile.rmtree(unfinished)  # of an export that was killed
  tf.io.gfile.makedirs(unfinished)
  yield unfinished
  # What it replaces is an empty folder at most.
  tf.io.gfile.rename(unfinished, directory, overwrite=True)
  logging.info("exported to %s", directory)


def set_policy(FLAGS: flags.FlagValues) -> None:
  """Makes models that are built from now on such as are exported.

  A .keras file is one that can be trained; of others the variables have the
  type of --dtype.
  """
  precision.set_policy(FLAGS.dtype, FLAGS.export_format == "keras")


def refuse_to_overwrite(directory: str) -> None:
  """Raises FileExistsError if there is something."""
  if tf.io.gfile.exists(directory) and tf.io.gfile.listdir(directory):
    raise FileExistsError(
      f"{directory} is there already: remove it or name another --export_dir"
    )
