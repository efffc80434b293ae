"""A SavedModel's signature of raw text as a function of plain Python values."""

import tensorflow as tf

from serving import compiled_model, warm_up
from serving.export import ServedModel


class Signature:
  """The signature `serving_default` of a model.

  Attributes:
    ranks: {input: 0 for texts, 1 for lists of texts}.

  Call arguments:
    rows: texts in the order of the sorted names of inputs.

  Returns:
    A dict for each row, without padding.
  """

  def __init__(self, model, requests):
    self._model = model  # owns the variables
    self._requests = requests  # to warm up
    self._function = model.signatures["serving_default"]
    specs = self._function.structured_input_signature[1]
    self.ranks = {name: specs[name].shape.rank - 1 for name in sorted(specs)}

  @classmethod
  def load(cls, folder: str) -> "Signature":
    """Loads a SavedModel, with the requests of its file to warm up."""
    return cls(tf.saved_model.load(folder), warm_up.load(folder))

  @classmethod
  def of(cls, served: ServedModel) -> "Signature":
    """The signature that an export of a model would have here."""
    model = served.model
    is_compiled = compiled_model.is_compiled(model, None)
    if is_compiled:
      model = compiled_model.CompiledModel(model)
    requests = list(warm_up.requests(served.task, is_compiled))
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
