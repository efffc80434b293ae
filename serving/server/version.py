"""A version of a model that answers requests: texts, and rows of token ids."""

import os
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from serving.answers import TextModel
from serving.engines import SIGNATURE
from serving.server.models import Settings
from serving.server.rest import RestError, Spec
from serving.server.workers import Workers
from storage import UserError

_DTYPES = {bool: "DT_BOOL", int: "DT_INT32", float: "DT_FLOAT"}


class Version:
  """Signatures of a model by name: `specs` of their inputs, `functions`.

  `serving_default` takes the texts of the model's Answers, `serving_features`
  rows. `signature_def` describes both as JSON has it.
  """

  def __init__(
    self,
    model: TextModel,
    settings: Settings,
    on_call: Callable[[int], None] = lambda size: None,
  ):
    answers, engine = model.answers, model.engine
    self.specs = {
      "serving_default": {
        name: Spec("string", [None] * (1 + rank), name in answers.optional)
        for name, rank in answers.inputs.items()
      },
      SIGNATURE: {
        name: Spec("int32", [None] * (1 + rank))
        for name, rank in engine.features.items()
      },
    }
    self._model = model
    self.functions = {"serving_default": self._answer, SIGNATURE: self._run}
    answer = model.warm_up().items()
    outputs = {
      "serving_default": {k: _describe(v) for k, v in answer if v is not None},
      SIGNATURE: {k: ("DT_FLOAT", v) for k, v in engine.outputs.items()},
    }
    self.signature_def = {
      name: _signature_def(name, specs, outputs[name])
      for name, specs in self.specs.items()
    }
    # With several workers, rows that are faster together would run apart.
    number = 1 if engine.max_rows > 1 else os.cpu_count()
    self.workers = Workers(
      settings.max_queue_size, number, engine.max_rows, on_call
    )

  def _answer(self, examples: Sequence[Mapping]) -> list[dict]:
    return self._model([_to_text(example) for example in examples])

  def _run(self, rows: Sequence[Mapping]) -> list[dict]:
    rows = [{n: np.asarray(v, np.int32) for n, v in r.items()} for r in rows]
    for row in rows:
      _check_row(row)
    try:
      return list(self._model.engine.run(rows))
    except UserError as error:
      raise RestError(400, str(error)) from None


def _to_text(value):
  """Texts of bytes, in lists and dicts."""
  if isinstance(value, Mapping):
    return {name: _to_text(part) for name, part in value.items()}
  if isinstance(value, bytes):
    return value.decode("utf-8", "replace")
  return [*map(_to_text, value)]


def _check_row(row):
  """Raises RestError for sizes that differ, and positions beyond the row."""
  shapes = {n: v.shape for n, v in row.items() if n != "masked_lm_positions"}
  if len(set(shapes.values())) > 1 or 0 in shapes["input_ids"]:
    raise RestError(400, f"inputs have other shapes, or are empty: {shapes}")
  positions = row.get("masked_lm_positions")
  length = shapes["input_ids"][-1]
  if positions is not None and np.any((positions < 0) | (positions >= length)):
    raise RestError(400, "masked_lm_positions beyond the tokens of a row")


def _signature_def(name, specs, outputs):
  """A SignatureDef as TF Serving's metadata has it."""
  return {
    "inputs": {
      key: _tensor_info(f"{name}_{key}", f"DT_{spec.dtype.upper()}", spec.shape)
      for key, spec in specs.items()
    },
    "outputs": {
      key: _tensor_info("StatefulPartitionedCall", *output)
      for key, output in outputs.items()
    },
    "method_name": "tensorflow/serving/predict",
  }


def _describe(value):
  """Type and shape, with the batch, of a row's answer; all sizes are free."""
  shape = [-1]
  while isinstance(value, list) and value:
    value, shape = value[0], [*shape, -1]
  return _DTYPES.get(type(value), "DT_STRING"), shape


def _tensor_info(name, dtype, shape):
  sizes = [{"size": str(-1 if n is None else n), "name": ""} for n in shape]
  return {
    "dtype": dtype,
    "tensor_shape": {"dim": sizes, "unknown_rank": False},
    "name": f"{name}:0",
  }
