"""Checkpoints in the original's format: variables by name, nothing else.

A checkpoint is a pair of files, `model.ckpt-N.index` and `.data-00000-of-00001`
that any TensorFlow reads by name. Beside the model's variables, one written in
training has `<name>/adam_m`, `<name>/adam_v` and `global_step`.
"""

import os
import re
from collections.abc import Mapping

import tensorflow as tf
from absl import logging

_SIDES = ("left_to_right", "right_to_left")
# What a checkpoint written in training has beside the model.
_AVERAGE = "/ExponentialMovingAverage"  # TensorFlow 1's name for it
_OF_TRAINING = re.compile(
  rf"/adam_[mv]$|{_AVERAGE}$|^global_step$|^loss_scale/|^run/"
)
# What TensorFlow raises for files that are not what their names say.
_UNREADABLE = (
  *(tf.errors.OpError, RuntimeError),
  *(IndexError, OverflowError, TypeError, ValueError),
)
_LIKELY_CAUSES = (
  ("word_embeddings", "vocab_size in bert_config.json is of another model"),
  (
    "predictions/output_bias",
    "vocab_size in bert_config.json is of another model",
  ),
  ("position_embeddings", "max_position_embeddings in bert_config.json"),
  ("token_type_embeddings", "type_vocab_size in bert_config.json"),
  ("output_weights", "the checkpoint was trained for another set of labels"),
  ("output_bias", "the checkpoint was trained for another set of labels"),
  ("tags/", "the checkpoint was trained for another set of labels"),
  ("bilstm/", "it was trained with another --lstm_units or --feature_layers"),
  ("weighted_sum/", "it was trained with another --feature_layers"),
)


class Damaged(ValueError):
  """A checkpoint whose files are there but cannot be read."""


def variables(model) -> dict[str, tf.Variable]:
  """A Keras model's variables by their names in a checkpoint.

  Not the states of random generators that some layers of Keras have: nothing
  draws from them, and their names differ from one model to the next.
  """
  return {variable.path: variable.value for variable in model.weights}


def trained(model) -> list[tuple[str, tf.Variable]]:
  """A Keras model's trainable variables with their names."""
  return [(v.path, v.value) for v in model.trainable_variables]


def average_name(name: str) -> str:
  """The name of a variable's moving average."""
  return name + _AVERAGE


def beside(prefix: str, name: str) -> str | None:
  """Path of a file beside a checkpoint, or None.

  Beside `best/model.ckpt-10` is also what lies beside the folder `best`, which
  training keeps in its output folder.
  """
  folder = os.path.dirname(prefix) or "."
  folders = [folder]
  if os.path.basename(folder) == "best":
    folders.append(os.path.dirname(folder) or ".")
  paths = [os.path.join(folder, name) for folder in folders]
  return next(filter(tf.io.gfile.exists, paths), None)


def find(path: str) -> str:
  """The prefix of the checkpoint that a path means.

  Args:
    path: a prefix ("dir/model.ckpt-10"), one of its files, or a folder, which
      stands for the newest checkpoint in it.

  Raises:
    FileNotFoundError: there is none.
  """
  prefix = re.sub(r"\.(index|data-\d+-of-\d+|meta)$", "", path)
  if tf.io.gfile.isdir(path):
    prefix = tf.train.latest_checkpoint(path) or path
  if not tf.io.gfile.exists(prefix + ".index"):
    raise FileNotFoundError(
      f"no checkpoint at {path!r}: there is no file {prefix}.index "
      "(a checkpoint is named by what its .index and .data files share)"
    )
  return prefix


def read(path: str) -> "Reader":
  """Opens the checkpoint that `path` means (see `find`).

  Two with a comma between them are those of modeling.shallow.Shallow, the
  left-to-right one first.
  """
  paths = path.split(",")
  if len(paths) == 2 and not tf.io.gfile.glob(f"{path}*"):
    return SideBySide(*map(find, paths))
  return Reader(find(path))


class Reader:
  """A checkpoint's contents by name.

  Arguments:
    prefix: what the names of its files share.

  Attributes:
    shapes: {name: shape} of all it holds.

  Raises:
    Damaged: it cannot be read.
    ValueError: it is of TensorFlow 2's object-based kind.
  """

  def __init__(self, prefix: str):
    self.prefix = prefix
    try:
      self._reader = tf.train.load_checkpoint(prefix)
      self.shapes = self._reader.get_variable_to_shape_map()
    except _UNREADABLE as error:
      raise _damaged(prefix, error) from None
    if "_CHECKPOINTABLE_OBJECT_GRAPH" in self.shapes:
      raise ValueError(
        f"{prefix} is an object-based TensorFlow 2 checkpoint, not one by "
        "name: convert_checkpoint.py makes one of it"
      )

  def __contains__(self, name: str) -> bool:
    return name in self.shapes

  def __getitem__(self, name: str):
    """The value of that name, a numpy array."""
    try:
      return self._reader.get_tensor(name)
    except _UNREADABLE as error:
      raise _damaged(self.prefix, error) from None

  def assign(self, targets: Mapping[str, tf.Variable]) -> None:
    """Gives every variable the value of its name.

    Raises:
      ValueError: a shape differs; names the variable, both shapes and what is
        likely to be wrong. Nothing is assigned then.
      Damaged: a value cannot be read. Others may have been assigned.
    """
    for name, variable in targets.items():
      _check_shape(self.prefix, name, self.shapes[name], variable.shape)
    for name, variable in targets.items():
      variable.assign(tf.cast(self[name], variable.dtype))

  def verify(self) -> None:
    """Reads everything; raises Damaged if something cannot be read."""
    for name in self.shapes:
      self[name]  # its checksum is looked at


class SideBySide(Reader):
  """Two checkpoints of BERT as one of the two networks side by side.

  What is `bert/x` in them is `bert/left_to_right/x` and `bert/right_to_left/x`;
  heads and what belongs to training is left out.

  Arguments:
    prefixes: of the checkpoint of either side.
  """

  def __init__(self, *prefixes: str):
    self.prefix = ",".join(prefixes)
    self._found, self.shapes = {}, {}
    for side, prefix in zip(_SIDES, prefixes, strict=True):
      reader = Reader(prefix)
      for name, shape in reader.shapes.items():
        if name.startswith("bert/") and not _OF_TRAINING.search(name):
          ours = f"bert/{side}/{name.removeprefix('bert/')}"
          self._found[ours], self.shapes[ours] = (reader, name), shape

  def __getitem__(self, name: str):
    """The value of that name, a numpy array."""
    reader, theirs = self._found[name]
    return reader[theirs]


def _damaged(prefix, error):
  return Damaged(f"the checkpoint {prefix} cannot be read: {error}")


def _check_shape(prefix, name, found, wanted):
  if tuple(found) == tuple(wanted):
    return
  cause = next(
    (cause for part, cause in _LIKELY_CAUSES if part in name),
    "bert_config.json does not belong to this checkpoint",
  )
  raise ValueError(
    f"{name} has shape {list(found)} in the checkpoint {prefix} but "
    f"{list(wanted)} in the model; likely cause: {cause}"
  )


def initialize(model, path: str) -> list[str]:
  """Starts a model from a checkpoint: takes every variable that it has.

  Args:
    model: a Keras model.
    path: see `find`.

  Returns:
    Names of the model's variables that the checkpoint has not.

  Raises:
    ValueError: a shape differs, or the two have no variable in common.
  """
  reader = read(path)
  wanted = variables(model)
  taken = {name: v for name, v in wanted.items() if name in reader}
  fresh = [name for name in wanted if name not in reader]
  if not taken:
    raise ValueError(
      f"no variable of the model is in the checkpoint {reader.prefix}; it has "
      f"{', '.join(sorted(reader.shapes)[:3])}, ..."
    )
  reader.assign(taken)
  unused = [
    name
    for name in sorted(reader.shapes)
    if name not in wanted and not _OF_TRAINING.search(name)
  ]
  logging.info(
    "took %d of %d variables from %s", len(taken), len(wanted), reader.prefix
  )
  for what, names in (("fresh", fresh), ("not used", unused)):
    if names:
      logging.info("%s: %s", what, ", ".join(names))
  return fresh


def initialize_whole(model, path: str) -> None:
  """Starts a model that is not trained any more: nothing may be fresh.

  But for the pooler, on which no token depends.

  Args:
    model: a Keras model.
    path: see `find`.

  Raises:
    ValueError: the checkpoint lacks a variable; see `initialize`, too.
  """
  fresh = [name for name in initialize(model, path) if "/pooler/" not in name]
  if fresh:
    raise ValueError(
      f"the checkpoint {path} has no {fresh[0]}: it is of another kind of "
      "model, or of another bert_config.json"
    )


def write(prefix: str, values: Mapping[str, tf.Variable]) -> None:
  """Writes values by name, as a checkpoint of the original."""
  tf.io.gfile.makedirs(os.path.dirname(prefix) or ".")
  with tf.device("cpu:0"):
    tf.raw_ops.SaveV2(
      prefix=prefix,
      tensor_names=list(values),
      shape_and_slices=[""] * len(values),
      tensors=[tf.convert_to_tensor(value) for value in values.values()],
    )
