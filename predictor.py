"""Answers of a trained model, from Python.

  from predictor import Predictor

  predict = Predictor("/tmp/sst")  # an --output_dir, or an --export_dir
  predict(["A film that", "is good."])

What goes in and what comes out is the task's: see docs/serving.md.
"""

from collections.abc import Sequence

import tensorflow as tf


class Predictor:
  """A model that takes texts and gives plain Python values.

  Arguments:
    folder: what --do_export wrote (a SavedModel), or where a program trained.
    changes: flags that are to have other values than they had in training, as
      vocab_file="..." where that file was moved; not for exports.

  Attributes:
    inputs: names of what it takes.

  Call arguments:
    texts: a list of texts, where the model takes nothing else.
    batch_size: how many the model sees at a time.
    named: lists of texts by the names of the inputs. What the model chooses
      from are lists of lists, all as long as one another.

  Returns:
    A list of dicts in the order of the texts, without what fills up a batch.

  Raises:
    OSError, ValueError: there is no such model, or it takes other inputs.
  """

  def __init__(self, folder: str, **changes):
    if not tf.saved_model.contains_saved_model(folder):
      from assembly import trained  # noqa: PLC0415, an export needs nothing of ours

      self._model = trained.from_output_dir(folder, **changes)
    elif changes:
      raise ValueError(f"{folder} is an export, whose flags cannot be changed")
    else:
      self._model = tf.saved_model.load(folder)  # it owns the variables
    self._function = self._model.signatures["serving_default"]
    self.inputs = sorted(self._function.structured_input_signature[1])

  def __call__(
    self, texts: Sequence[str] | None = None, batch_size: int = 32, **named
  ) -> list[dict]:
    if texts is not None and len(self.inputs) == 1:
      named[self.inputs[0]] = texts
    self._check(texts, named)
    # Texts that are about as long go together: little of a batch is filled up.
    rows = list(zip(*(named[name] for name in self.inputs), strict=True))
    order = sorted(range(len(rows)), key=lambda i: len(str(rows[i])))
    answers = {}
    for start in range(0, len(rows), batch_size):
      numbers = order[start : start + batch_size]
      found = self._ask([rows[i] for i in numbers])
      answers |= zip(numbers, found, strict=True)
    return [answers[i] for i in range(len(rows))]

  def _check(self, texts, named):
    if sorted(named) != self.inputs or (texts and len(named) > 1):
      names = ", ".join(f"{name}=[...]" for name in self.inputs)
      raise ValueError(f"this model takes {names}")
    for name, column in named.items():
      if isinstance(column, str | bytes):
        raise ValueError(f"{name} is one text: a list of texts is wanted")

  def _ask(self, rows):
    columns = zip(self.inputs, zip(*rows, strict=True), strict=True)
    outputs = self._function(
      **{name: tf.constant(column, tf.string) for name, column in columns}
    )
    arrays = {name: value.numpy() for name, value in outputs.items()}
    shapes = {n: v.shape for n, v in self._function.structured_outputs.items()}
    for count in [n for n in arrays if n.startswith("num_")]:
      for name, shape in shapes.items():
        if shape.rank > 1 and shape[1] is None:  # rows are filled up
          pairs = zip(arrays[name], arrays[count], strict=True)
          arrays[name] = [row[:number] for row, number in pairs]
    return [
      {name: _plain(arrays[name][i]) for name in sorted(arrays)}
      for i in range(len(rows))
    ]


def _plain(value):
  """Arrays to lists, and bytes to strings."""
  value = value.tolist() if hasattr(value, "tolist") else value
  if isinstance(value, list):
    return [_plain(part) for part in value]
  return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
