"""Predictions of a trained model in Python.

from predictor import Predictor

predict = Predictor("/tmp/sst")  # an --output_dir, or an --export_dir
predict(["A film that", "is good."])
"""

import os
from collections.abc import Sequence

from training import process

_REMEDY = "name what --do_export wrote, or the --output_dir of a program"


class Predictor:
  """A trained model as a function from texts to dicts of plain Python values.

  Arguments:
    folder: --export_dir of a SavedModel, or --output_dir of a training program.
    changes: flags with other values than in training, as vocab_file="..." if
      that file was moved; not for exports.

  Attributes:
    inputs: names of the model's inputs.

  Call arguments:
    texts: list of texts, for a model with a single input.
    batch_size: number of texts per call of the model.
    inputs: lists of texts by name; of choices, lists of lists of one length.

  Returns:
    A dict for each text, in order, without padding; see docs/serving.md.

  Raises:
    FileNotFoundError: the folder, or a file that it needs, does not exist.
    ValueError: the folder has no such model, or it has other inputs.
  """

  def __init__(self, folder: str | os.PathLike, **changes):
    process.silence_tensorflow()
    folder = os.fspath(folder)
    if not _is_export(folder):
      from tasks import restore  # not needed for exports

      self._model = restore.from_output_dir(folder, **changes)
    elif changes:
      raise ValueError(
        f"{folder} is an export, whose flags cannot be changed: leave out "
        f"{', '.join(changes)}, or name the --output_dir of its training"
      )
    else:
      import tensorflow as tf

      self._model = tf.saved_model.load(folder)  # owns the variables
    self._function = self._model.signatures["serving_default"]
    self._specs = self._function.structured_input_signature[1]
    self.inputs = sorted(self._specs)

  def __call__(
    self, texts: Sequence[str] | None = None, batch_size: int = 32, **inputs
  ) -> list[dict]:
    if batch_size < 1:
      raise ValueError(f"batch_size {batch_size} must be at least 1")
    inputs = self._check_inputs(texts, inputs)
    rows = list(zip(*(inputs[name] for name in self.inputs), strict=True))
    # Texts of similar length share a batch, for less padding.
    order = sorted(range(len(rows)), key=lambda i: len(str(rows[i])))
    outputs = {}
    for start in range(0, len(rows), batch_size):
      indices = order[start : start + batch_size]
      predictions = self._predict([rows[i] for i in indices])
      outputs |= zip(indices, predictions, strict=True)
    return [outputs[i] for i in range(len(rows))]

  def _check_inputs(self, texts, inputs):
    if texts is not None and len(self.inputs) == 1 and not inputs:
      inputs, texts = {self.inputs[0]: texts}, None
    if texts is not None or sorted(inputs) != self.inputs:
      names = ", ".join(f"{name}=[...]" for name in self.inputs)
      raise ValueError(f"this model takes {names}")
    for name, value in inputs.items():
      rank = self._specs[name].shape.rank
      inputs[name] = _check_texts(name, value, rank)
    lengths = {name: len(texts) for name, texts in inputs.items()}
    if len(set(lengths.values())) > 1:
      raise ValueError(f"the lists are not of one length: {lengths}")
    return inputs

  def _predict(self, rows):
    import tensorflow as tf

    columns = zip(self.inputs, zip(*rows, strict=True), strict=True)
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


def _is_export(folder):
  """True for a SavedModel, False for an output folder, else an error."""
  if "://" in folder:
    import tensorflow as tf

    return tf.saved_model.contains_saved_model(folder)
  if not os.path.isdir(folder):
    raise FileNotFoundError(f"there is no folder {folder}: {_REMEDY}")
  names = os.listdir(folder)
  if any(name.endswith((".tflite", ".keras")) for name in names):
    raise ValueError(
      f"{folder} is an export for LiteRT or Keras: export the model with "
      "--export_format=savedmodel"
    )
  is_export = not {"saved_model.pb", "saved_model.pbtxt"}.isdisjoint(names)
  if not is_export and "run.json" not in names:
    raise ValueError(f"no SavedModel and no run.json in {folder}: {_REMEDY}")
  return is_export


def _check_texts(name, value, rank):
  """Text of rank 0, list of rank 1 or of lists; raises ValueError if wrong."""
  is_text = isinstance(value, str | bytes)
  if is_text == bool(rank) or not hasattr(value, "__iter__"):
    expected = "a list of texts" if rank else "a text"
    raise ValueError(f"{name} is {value!r:.40}: give {expected}")
  if is_text:
    return value
  parts = enumerate(value)
  texts = [_check_texts(f"{name}[{i}]", part, rank - 1) for i, part in parts]
  if rank > 1 and len(set(map(len, texts))) > 1:
    raise ValueError(f"the lists in {name} are not of one length")
  return texts


def _to_python(value):
  """Converts arrays to lists and bytes to strings."""
  value = value.tolist() if hasattr(value, "tolist") else value
  if isinstance(value, list):
    return [_to_python(part) for part in value]
  return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
