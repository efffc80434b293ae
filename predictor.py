"""Predictions of a trained model, in Python or from a shell.

from predictor import Predictor
predict = Predictor("/tmp/sst")  # an --output_dir, or an --export_dir
predict(["A film that", "is good."])

  python predictor.py --model=/tmp/squad < questions.jsonl > answers.jsonl
"""

import os
from collections.abc import Sequence

from cli import quiet
from data import tables
from storage import UserError, files

_REMEDY = "name what --do_export wrote, an --output_dir or a model's folder"


class Predictor:
  """A trained model as a function from texts to dicts of plain Python values.

  Arguments:
    folder: --output_dir of a training program; --export_dir, or a LiteRT model
      in it; folder of a released or converted checkpoint, for vectors of texts.
    warm_up: prepare for all shapes now.
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

  def __init__(
    self, folder: str | os.PathLike, warm_up: bool = False, **changes
  ):
    quiet.silence_tensorflow()
    self._predict = _open(os.fspath(folder), changes)
    self._ranks = self._predict.ranks
    self.inputs = sorted(self._ranks)
    if warm_up:
      self._predict.warm_up()

  def __call__(
    self, texts: Sequence[str] | None = None, batch_size: int = 32, **inputs
  ) -> list[dict]:
    if batch_size < 1:
      raise UserError(f"batch_size {batch_size} must be at least 1")
    inputs = self.check(inputs, texts)
    rows = list(zip(*(inputs[name] for name in self.inputs), strict=True))
    # Texts of similar length share a batch, for less padding.
    order = sorted(range(len(rows)), key=lambda i: len(str(rows[i])))
    outputs = {}
    for start in range(0, len(rows), batch_size):
      indices = order[start : start + batch_size]
      predictions = self._predict([rows[i] for i in indices])
      outputs |= zip(indices, predictions, strict=True)
    return [outputs[i] for i in range(len(rows))]

  def check(
    self, inputs: dict[str, Sequence], texts: Sequence[str] | None = None
  ) -> dict[str, Sequence]:
    """Inputs of a call by name; raises ValueError if they are wrong."""
    if texts is not None and len(self.inputs) == 1 and not inputs:
      inputs, texts = {self.inputs[0]: texts}, None
    if texts is not None or sorted(inputs) != self.inputs:
      names = ", ".join(f"{name}=[...]" for name in self.inputs)
      raise UserError(f"this model takes {names}")
    for name, value in inputs.items():
      inputs[name] = _check_texts(name, value, 1 + self._ranks[name])
    lengths = {name: len(texts) for name, texts in inputs.items()}
    if len(set(lengths.values())) > 1:
      raise UserError(f"the lists are not of one length: {lengths}")
    return inputs


def _open(path, changes):
  """Function of the model in a folder or file; imports what it needs."""
  kind = _kind(path)
  if changes and kind != "output_dir":
    raise UserError(
      f"{path} is an export, whose flags cannot be changed: leave out "
      f"{', '.join(changes)}, or name the --output_dir of its training"
    )
  if kind == "tflite":
    from tasks import litert

    return litert.load(path)
  import tasks
  from serving.export import Signature

  if kind == "savedmodel":
    return Signature.load(path)
  return Signature.of(tasks.restore(path, **changes))


def _kind(path):
  """Returns tflite, savedmodel or output_dir; raises an error for others."""
  if path.endswith(".tflite") and os.path.isfile(path):
    return "tflite"
  if not files.is_folder(path):
    raise FileNotFoundError(f"{path} is no folder: {_REMEDY}")
  names = files.list_folder(path)
  is_local = not files.is_remote(path)  # as LiteRT's files have to be
  if is_local and any(name.endswith(".tflite") for name in names):
    return "tflite"
  if any(name.endswith(".keras") for name in names):
    raise UserError(f"{path} is an export for Keras: load it with Keras")
  if not {"saved_model.pb", "saved_model.pbtxt"}.isdisjoint(names):
    return "savedmodel"
  if not {"run.json", "bert_config.json"}.isdisjoint(names):
    return "output_dir"
  remedy = next((f"name {path}/{n}" for n in names if n.isdigit()), _REMEDY)
  raise UserError(f"no SavedModel and no run.json in {path}: {remedy}")


def _check_texts(name, value, rank):
  """Text of rank 0, list of rank 1 or of lists; raises ValueError if wrong."""
  is_text = isinstance(value, str | bytes)
  is_wrong = is_text and tables.SURROGATE.search(str(value))
  if is_text == bool(rank) or is_wrong or not hasattr(value, "__iter__"):
    expected = "a list of texts" if rank else "a text in UTF-8"
    raise UserError(f"{name} is {value!r:.40}: give {expected}")
  if is_text:
    return value
  parts = enumerate(value)
  texts = [_check_texts(f"{name}[{i}]", part, rank - 1) for i, part in parts]
  if rank > 1 and (len(set(map(len, texts))) > 1 or [] in texts):
    raise UserError(f"the lists in {name} are not of one length, or empty")
  return texts


if __name__ == "__main__":
  import cli.interrupts  # noqa: F401 (Ctrl-C is one line)

  from cli import ask

  ask.main(Predictor)
