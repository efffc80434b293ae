"""JSON of TF Serving's REST API, to and from arrays.

Forms and messages are those of https://www.tensorflow.org/tfx/serving/api_rest.
"""

import base64
import json
from collections.abc import Collection, Mapping
from typing import Any
from urllib.parse import unquote

import numpy as np

_METHOD_NAMES = {"classify": "classification", "regress": "regression"}
_MAX_RANK = 32
_JSON_TYPES = {type(None): "Null", dict: "Object", list: "Array", str: "String"}
_PYTHON_TYPES = {"string": (str,), "bool": (bool,)}
_DTYPES = {"float32": "float", "float64": "double"}
# Writing a float32 in few digits (0.2) takes too long for so many numbers.
_MAX_SHORT_FLOATS = 10_000


class RestError(Exception):
  """An answer with an HTTP status of 400 or more, and its message."""

  def __init__(self, status: int, message: str):
    super().__init__(message)
    self.status = status


def _fail(message, *values):
  """Raises RestError 400; values but strings are shown as JSON."""
  texts = (v if isinstance(v, str) else _echo(v) for v in values)
  raise RestError(400, message % tuple(text[:200] for text in texts)) from None


def _check(is_valid, message, *values):
  if not is_valid:
    _fail(message, *values)


def _echo(value):
  try:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
  except RecursionError:
    return "..."


def parse(body: bytes) -> dict:
  """The JSON object of a request; raises RestError if it is none."""
  _check(body, "JSON Parse error: The document is empty")
  try:
    document = json.loads(body.decode())
  except json.JSONDecodeError as error:
    _fail("JSON Parse error: %s at offset: %s", error.msg, f"{error.pos}")
  except (ValueError, RecursionError) as error:  # no UTF-8, deeply nested, ...
    _fail("JSON Parse error: %s", str(error))
  _check(isinstance(document, dict), "JSON Value: %s Is not object", document)
  _check(
    isinstance(document.get("signature_name", ""), str),
    "JSON Value: %s not formatted correctly. 'signature_name' key must be a "
    "string value.",
    document,
  )
  return document


def signature_name(
  document: dict, signatures: Collection[str], method: str
) -> str:
  """Signature of a request; RestError if there is none, or of that method."""
  signature = document.get("signature_name") or "serving_default"
  if signature not in signatures:
    name = f'"{signature[:200]}"'
    message = f"Serving signature name: {name} not found in signature def"
    raise RestError(400, message)
  if method != "predict":
    raise RestError(
      400,
      f"Expected {_METHOD_NAMES[method]} signature method_name to be "
      f"tensorflow/serving/{method}. Was: tensorflow/serving/predict",
    )
  return signature


def version_number(version: str | None, label: str | None) -> int | None:
  """Number of a version in a URL; None for the newest."""
  if label:
    label = unquote(label)
    raise RestError(400, f"Unrecognized servable version label: {label}")
  if version and len(version) > 18:
    message = f"Failed to convert version: {version[:200]} to numeric."
    raise RestError(400, message)
  return int(version) if version else None


def read_inputs(document: dict, specs: Mapping[str, Any]) -> dict:
  """Arrays of a request by name; strings are bytes in arrays of objects.

  Raises RestError if they do not fit `specs`, a tf.TensorSpec of each input.
  """
  _check(
    not {"instances", "inputs"} <= {*document},
    "JSON Value: %s Not formatted correctly expecting only one of 'inputs' or "
    "'instances' keys to exist ",
    document,
  )
  if "instances" in document:
    arrays = _read_rows(document, document["instances"], specs)
  else:
    _check("inputs" in document, "Missing 'inputs' or 'instances' key")
    arrays = _read_columns(document["inputs"], specs)
  for name, spec in specs.items():
    _check(
      spec.shape.is_compatible_with(arrays[name].shape),
      "Tensor name: %s has shape: %s expecting: %s",
      name,
      arrays[name].shape,
      [-1 if size is None else size for size in spec.shape],
    )
  _check(
    len({len(array) for array in arrays.values() if array.ndim}) <= 1,
    "Batching input tensors must have equal 0th-dimension size",
  )
  return arrays


def _is_base64(value):
  return (
    isinstance(value, dict)
    and [*value] == ["b64"]
    and isinstance(value["b64"], str)
  )


def _is_named(value):
  return isinstance(value, dict) and not _is_base64(value)


def _read_rows(document, rows, specs):
  _check(
    isinstance(rows, list),
    "JSON Value: %s Excepting 'instances' to be an list/array",
    document,
  )
  _check(rows, "JSON Value: %s No values in 'instances' array", document)
  _check(
    isinstance(rows[0], dict) or len(specs) == 1,
    "instances is a plain list, but expecting list of objects as multiple "
    "input tensors required as per tensorinfo_map",
  )
  are_named = _is_named(rows[0])
  columns = {name: [] for name in specs}
  for number, row in enumerate(rows):
    _check(
      are_named == _is_named(row),
      "Expecting object but got list at item %s of input list"
      if are_named
      else "Expecting value/list but got object at item %s of input list",
      number,
    )
    values = row if are_named else dict.fromkeys(specs, row)
    for name, value in values.items():
      try:
        _add_value(columns, name, value, specs)
      except RestError as error:
        where = f"{number} key: {name}" if are_named else f"{number}"
        message = "Failed to process element: %s of 'instances' list. Error: %s"
        _fail(message, where, f"INVALID_ARGUMENT: {error}")
    _check(
      len(values) == len(specs),
      "Failed to process element: %s of 'instances' list. JSON object: %s keys "
      "must be equal to: %s",
      number,
      row,
      ",".join(sorted(specs)),
    )
  return {name: np.stack(column) for name, column in columns.items()}


def _add_value(columns, name, value, specs):
  _check(name in specs, "JSON object: does not have named input: %s", name)
  array = _to_array(value, specs[name].dtype.name)
  shape = columns[name][0].shape if columns[name] else array.shape
  _check(
    shape == array.shape, "Expecting shape %s but got: %s", shape, array.shape
  )
  columns[name].append(array)


def _read_columns(inputs, specs):
  if not _is_named(inputs):
    _check(
      len(specs) == 1,
      "inputs is a plain value/list, but expecting an object as multiple input "
      "tensors required as per tensorinfo_map",
    )
    inputs = dict.fromkeys(specs, inputs)
  for name in specs:
    message = "Missing named input: %s in 'inputs' object."
    _check(name in inputs, message, name)
  return {k: _to_array(inputs[k], spec.dtype.name) for k, spec in specs.items()}


def _to_array(value, dtype):
  """Array of a nested list, in the shape of its first elements."""
  shape, first = [], value
  while isinstance(first, list):
    shape.append(len(first))
    first = first[0] if first else None
  message = "Encountered list at unexpected level: %s expected < %s"
  _check(len(shape) <= _MAX_RANK, message, len(shape), _MAX_RANK)
  leaves = []
  _collect(value, 0, shape, dtype, leaves)
  array = np.empty(len(leaves), object if dtype == "string" else dtype)
  try:
    array[:] = leaves
  except OverflowError as error:
    _fail("JSON Value: %s", str(error))
  return array.reshape(shape)


def _collect(value, level, shape, dtype, leaves):
  if not isinstance(value, list):
    if level != len(shape):
      _fail(
        "JSON Value: %s found at incorrect level: %s in the JSON DOM. Expected "
        "at level: %s",
        *(_echo(value), level + 1, len(shape)),
      )
    leaves.append(_to_scalar(value, dtype))
    return
  _check(
    level < len(shape),
    "Encountered list at unexpected level: %s expected < %s",
    *(level, len(shape)),
  )
  _check(
    len(value) == shape[level],
    "Encountered list at unexpected size: %s at level: %s expected size: %s",
    *(len(value), level, shape[level]),
  )
  for item in value:
    _collect(item, level + 1, shape, dtype, leaves)


def _to_scalar(value, dtype):
  if dtype == "string" and isinstance(value, dict):
    message = "JSON Value: %s not formatted correctly for base64 data"
    _check(_is_base64(value), message, value)
    try:
      return base64.b64decode(value["b64"], validate=True)
    except ValueError:
      _fail("Unable to base64 decode")
  numbers = (int,) if "int" in dtype else (int, float)
  if type(value) not in _PYTHON_TYPES.get(dtype, numbers):
    kind = _JSON_TYPES.get(type(value), "Number")
    _fail(
      "JSON Value: %s Type: %s is not of expected type: %s",
      _echo(value),
      str(value) if isinstance(value, bool) else kind,
      _DTYPES.get(dtype, dtype),
    )
  try:
    return value.encode() if dtype == "string" else value
  except UnicodeEncodeError:
    _fail("JSON Parse error: The surrogate pair in string is invalid.")


def version_status(number: int, state: str, error: str) -> dict:
  """JSON of the state of a version, and of its error or ""."""
  status = {"error_code": "INTERNAL" if error else "OK", "error_message": error}
  return {"version": str(number), "state": state, "status": status}


def write_outputs(outputs: Mapping[str, np.ndarray], by_rows: bool) -> bytes:
  """JSON of a signature's outputs; a single one goes without its name.

  They are "predictions" by rows, else "outputs". Raises RestError if one has no
  rows.
  """
  columns = {name: _to_json(name, outputs[name]) for name in sorted(outputs)}
  if len(columns) == 1:
    [value] = columns.values()
  elif by_rows:
    sizes = {value.shape[:1] for value in outputs.values()}
    is_even = len(sizes) == 1 and () not in sizes
    _check(is_even, "Tensor has inconsistent batch size")
    rows = zip(*columns.values(), strict=True)
    value = [dict(zip(columns, row, strict=True)) for row in rows]
  else:
    value = columns
  key = "predictions" if by_rows else "outputs"
  return json.dumps({key: value}, ensure_ascii=False).encode()


def _to_json(name, array):
  if array.dtype == object:
    encode = _to_base64 if name.endswith("_bytes") else _to_text
    return _map(encode, array.tolist())
  if array.dtype in (np.float16, np.float32) and array.size < _MAX_SHORT_FLOATS:
    array = array.astype("U").astype(float)
  return array.tolist()


def _map(function, value):
  if isinstance(value, list):
    return [_map(function, item) for item in value]
  return function(value)


def _to_text(value):
  return value.decode("utf-8", "replace")


def _to_base64(value):
  return {"b64": base64.b64encode(value).decode()}
