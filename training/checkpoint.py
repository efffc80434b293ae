"""Checkpoints in the original's format: variables by name.

A checkpoint is a pair of files, `model.ckpt-N.index` and
`.data-00000-of-00001`. Training adds to the model's variables
`<name>/adam_m`, `<name>/adam_v`, `global_step`, `run/examples`, `run/seed` and,
if they are used, the loss scale and moving averages.
"""

import os
import re
from collections.abc import Container, Mapping, Sequence

import tensorflow as tf
from absl import logging

from storage import UserError, files, setting
from training import checkpoint_files

AVERAGE = "/ExponentialMovingAverage"  # ends names of averages in TensorFlow 1
# Matches scalars that are training state, from any optimizer.
_COUNTER = re.compile(
  r"^(loss_scale|run)/|(_steps?|loss_scale|learning_rate|beta\d_power)(_\d+)?$"
)
# Matches all variables except fine-tuning heads. Pre-training heads match, too:
# their sizes depend on the vocabulary, not on labels.
_NO_HEAD = re.compile(
  "^(bert|bilstm|weighted_sum|cls/predictions|cls/seq_relationship)/"
)


class CorruptCheckpoint(UserError):
  """A checkpoint whose files exist but cannot be read."""


def variables(model) -> dict[str, tf.Variable]:
  """Returns a Keras model's weights by name, as in a checkpoint."""
  # model.variables includes Keras' random generators, whose names vary.
  return {variable.path: variable.value for variable in model.weights}


def training_state(shapes: Mapping[str, Sequence[int]]) -> set[str]:
  """Returns the names in a checkpoint that are not model weights.

  The slots of a variable X have names such as X/adam_m or X/LAMB_1.
  """
  return {
    name
    for name, shape in shapes.items()
    if name.rpartition("/")[0] in shapes
    or (not shape and _COUNTER.search(name))
  }


def files_of(prefix: str) -> list[str]:
  """Lists a checkpoint's files. A glob would fail on a folder with "["."""
  folder, name = os.path.split(prefix)
  names = files.list_folder(folder or ".")
  return [os.path.join(folder, n) for n in names if n.startswith(f"{name}.")]


def open_reader(path: str) -> "Reader":
  """Opens the checkpoint at `path` (see checkpoint_files.find_checkpoint).

  For attention "shallow", `path` names a left-to-right and a right-to-left
  encoder, with a comma between.
  """
  is_one = files.exists(path) or files.exists(f"{path}.index")
  paths = [path] if is_one else path.split(",")
  prefixes = [checkpoint_files.find_checkpoint(path) for path in paths]
  return SideBySide(*prefixes) if len(prefixes) > 1 else Reader(*prefixes)


class Reader:
  """A checkpoint's values by name. Raises CorruptCheckpoint if unreadable."""

  def __init__(self, prefix: str):
    self.prefix = prefix
    try:
      self._reader = tf.train.load_checkpoint(prefix)
      self.shapes = self._reader.get_variable_to_shape_map()
    except Exception as error:  # TensorFlow raises many kinds
      raise self._corrupt(error) from None
    if "_CHECKPOINTABLE_OBJECT_GRAPH" in self.shapes:
      raise UserError(
        f"{prefix} is an object-based TensorFlow 2 checkpoint, without names "
        "of variables: convert it with convert_checkpoint.py"
      )

  def __getitem__(self, name: str):
    try:
      return self._reader.get_tensor(name)
    except Exception as error:
      raise self._corrupt(error) from None

  def _corrupt(self, error):
    text = f"the checkpoint {self.prefix} cannot be read: {error}"
    return CorruptCheckpoint(text)

  def assign(self, targets: Mapping[str, tf.Variable]) -> None:
    """Assigns each variable the checkpoint's value of the same name.

    If a shape differs, raises ValueError and assigns nothing. Raises
    CorruptCheckpoint if a value cannot be read.
    """
    for name, variable in targets.items():
      saved, expected = list(self.shapes[name]), list(variable.shape)
      if saved != expected:
        raise UserError(
          f"{name} has shape {saved} in the checkpoint {self.prefix} but "
          f"{expected} in the model: the checkpoint was trained with another "
          "configuration or another set of labels. To train anew, name another "
          f"{setting('output_dir')}, and the checkpoint as "
          f"{setting('init_checkpoint')}"
        )
    for name, variable in targets.items():
      variable.assign(tf.cast(self[name], variable.dtype))

  def verify(self) -> None:
    """Reads all values. A wrong checksum raises CorruptCheckpoint."""
    for name in self.shapes:
      self[name]


class SideBySide(Reader):
  """Two encoders as one model with attention "shallow", without heads.

  `bert/x` becomes `bert/left_to_right/x` and `bert/right_to_left/x`.
  """

  def __init__(self, *prefixes: str):
    self.prefix = ",".join(prefixes)
    names = "left_to_right", "right_to_left"
    self._readers = dict(zip(names, map(Reader, prefixes), strict=True))
    self.shapes = {
      f"bert/{direction}/{name.removeprefix('bert/')}": reader.shapes[name]
      for direction, reader in self._readers.items()
      for name in reader.shapes.keys() - training_state(reader.shapes)
      if name.startswith("bert/")
    }

  def __getitem__(self, name: str):
    _, direction, rest = name.split("/", 2)
    return self._readers[direction][f"bert/{rest}"]


def restore(model, path: str, skipped: Container[str] = ()) -> list[str]:
  """Restores all variables but `skipped`; returns the names not restored.

  These names do not include a frozen pooler, which no output depends on.
  Raises ValueError if a shape differs, or a variable of the encoder is missing.
  """
  reader, known = open_reader(path), variables(model)
  shapes = reader.shapes
  names = [name for name in known if name in shapes and name not in skipped]
  restored = {name: known[name] for name in names}
  reader.assign(restored)  # before the next check, to explain a wrong shape
  for name in sorted(known.keys() - restored.keys()):
    if not restored or re.match("bert/.*(embeddings|encoder)/", name):
      raise checkpoint_files.no_encoder(reader.prefix, shapes, name)
  frozen = [v.path for v in model.non_trainable_variables]
  unneeded = {name for name in frozen if "/pooler/" in name}
  fresh = [name for name in known if name not in restored.keys() | unneeded]
  numbers = len(restored), len(restored) + len(fresh)
  logging.info("restored %d of %d variables from %s", *numbers, reader.prefix)
  unused = sorted(shapes.keys() - known.keys() - training_state(shapes))
  for label, names in (("fresh", fresh), ("not used", unused)):
    if names:
      logging.info("%s: %s", label, ", ".join(names))
  return fresh


def initialize(model, path: str, new_head: bool = False) -> list[str]:
  """Initializes a model for training; returns the names of fresh variables.

  With `new_head`, the head is fresh. A head of another shape is fresh, too.
  Raises ValueError if the encoder at `path` has wrong shapes or is incomplete.
  """
  reader = open_reader(path)
  head = {
    name: (list(reader.shapes[name]), list(variable.shape))
    for name, variable in variables(model).items()
    if name in reader.shapes and not _NO_HEAD.search(name)
  }
  if new_head or any(saved != shape for saved, shape in head.values()):
    logging.warning("the head is fresh, not restored from %s", reader.prefix)
    return restore(model, path, head)
  if head:
    text = "the head is restored from %s, too; %s makes it fresh"
    logging.info(text, reader.prefix, setting("new_head"))
  return restore(model, path)


def restore_strict(model, path: str) -> None:
  """Restores a model. Raises ValueError if more than the pooler is missing."""
  fresh = [name for name in restore(model, path) if "/pooler/" not in name]
  if fresh:
    raise UserError(
      f"the checkpoint {path} has no {fresh[0]}: the checkpoint is of another "
      "kind of model, or has another bert_config.json"
    )


def write(prefix: str, values: Mapping[str, tf.Variable]) -> None:
  """Writes values by name, in the original's format.

  The files' names begin with "unfinished-" until all are complete. The index is
  renamed last, because a checkpoint without an index is ignored.
  """
  folder, name = os.path.split(prefix)
  unfinished = os.path.join(folder, checkpoint_files.UNFINISHED + name)
  files.make_folder(folder or ".")
  try:
    with tf.device("cpu:0"):
      tf.raw_ops.SaveV2(
        prefix=unfinished,
        tensor_names=list(values),
        shape_and_slices=[""] * len(values),
        tensors=[tf.convert_to_tensor(value) for value in values.values()],
      )
    for suffix in (".data-00000-of-00001", ".index"):
      files.rename(unfinished + suffix, prefix + suffix)
  except (tf.errors.OpError, OSError) as error:
    for path in files_of(unfinished):
      files.remove(path)
    reason = getattr(error, "message", error)
    text = f"the checkpoint {prefix} cannot be written ({reason})"
    raise OSError(text) from None
