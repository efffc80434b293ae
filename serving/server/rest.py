"""JSON of TF Serving's REST API, to and from arrays.

Forms and messages are those of https://www.tensorflow.org/tfx/serving/api_rest.
"""

import base64
import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import unquote

import numpy as np

from serving.answers import to_list

_METHOD_NAMES = {"classify": "classification", "regress": "regression"}
_MAX_RANK = 32
_JSON_TYPES = {type(None): "Null", dict: "Object", list: "Array", str: "String"}
_PYTHON_TYPES = {"string": (str,), "bool": (bool,)}
_DTYPES = {"float32": "float", "float64": "double"}


class Spec(NamedTuple):
  """An input: its type and shape, with None for any size."""

  dtype: str
  shape: Sequence[int | None]
  is_optional: bool = False


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


def read_inputs(
  document: dict, specs: Mapping[str, Spec]
) -> list[dict[str, Any]]:
  """Examples of a request: arrays by input; strings are bytes, in lists.

  Raises RestError if they do not fit `specs`.
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
  for name, array in arrays.items():
    shape = specs[name].shape
    _check(
      len(shape) == array.ndim
      and all(n in (None, m) for n, m in zip(shape, array.shape, strict=True)),
      "Tensor name: %s has shape: %s expecting: %s",
      name,
      array.shape,
      [-1 if size is None else size for size in shape],
    )
  _check(
    len({len(array) for array in arrays.values()}) <= 1,
    "Batching input tensors must have equal 0th-dimension size",
  )
  rows = zip(*arrays.values(), strict=True)
  return [dict(zip(arrays, map(_plain, row), strict=True)) for row in rows]


def _plain(value):
  """Texts as bytes and lists of them, numbers as arrays."""
  is_text = isinstance(value, np.ndarray) and value.dtype == object
  return value.tolist() if is_text else value


def _needed(specs):
  return [name for name, spec in specs.items() if not spec.is_optional]


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
    isinstance(rows[0], dict) or len(_needed(specs)) == 1,
    "instances is a plain list, but expecting list of objects as multiple "
    "input tensors required as per tensorinfo_map",
  )
  are_named = _is_named(rows[0])
  names = (
    {*rows[0]} & {*specs} | {*_needed(specs)} if are_named else _needed(specs)
  )
  columns = {name: [] for name in specs if name in names}
  for number, row in enumerate(rows):
    _check(
      are_named == _is_named(row),
      "Expecting object but got list at item %s of input list"
      if are_named
      else "Expecting value/list but got object at item %s of input list",
      number,
    )
    values = row if are_named else dict.fromkeys(columns, row)
    for name, value in values.items():
      try:
        _add_value(columns, name, value, specs)
      except RestError as error:
        where = f"{number} key: {name}" if are_named else f"{number}"
        message = "Failed to process element: %s of 'instances' list. Error: %s"
        _fail(message, where, f"INVALID_ARGUMENT: {error}")
    _check(
      len(values) == len(columns),
      "Failed to process element: %s of 'instances' list. JSON object: %s keys "
      "must be equal to: %s",
      number,
      row,
      ",".join(sorted(columns)),
    )
  return {name: np.stack(column) for name, column in columns.items()}


def _add_value(columns, name, value, specs):
  _check(name in columns, "JSON object: does not have named input: %s", name)
  array = _to_array(value, specs[name].dtype)
  shape = columns[name][0].shape if columns[name] else array.shape
  _check(
    shape == array.shape, "Expecting shape %s but got: %s", shape, array.shape
  )
  columns[name].append(array)


def _read_columns(inputs, specs):
  if not _is_named(inputs):
    _check(
      len(_needed(specs)) == 1,
      "inputs is a plain value/list, but expecting an object as multiple input "
      "tensors required as per tensorinfo_map",
    )
    inputs = dict.fromkeys(_needed(specs), inputs)
  for name in _needed(specs):
    message = "Missing named input: %s in 'inputs' object."
    _check(name in inputs, message, name)
  return {
    name: _to_array(inputs[name], spec.dtype)
    for name, spec in specs.items()
    if name in inputs
  }


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


def write_outputs(answers: Sequence[Mapping], by_rows: bool) -> bytes:
  """JSON of the answers to examples; a single output goes without its name.

  They are "predictions" by rows, else "outputs".
  """
  names = sorted(answers[0]) if answers else []
  rows = [{n: _to_json(n, answer[n]) for n in names} for answer in answers]
  if len(names) == 1:
    value = [row[names[0]] for row in rows]
  elif by_rows:
    value = rows
  else:
    value = {name: [row[name] for row in rows] for name in names}
  key = "predictions" if by_rows else "outputs"
  return json.dumps({key: value}, ensure_ascii=False).encode()


def num_values(value: Any) -> int:
  """Roughly the number of values in nested lists, arrays and dicts."""
  if isinstance(value, dict):
    return sum(map(num_values, value.values()))
  if isinstance(value, list):
    return len(value) * num_values(value[0]) if value else 0
  return getattr(value, "size", 1)


def _to_json(name, value):
  if isinstance(value, np.ndarray | np.generic):
    return to_list(np.asarray(value))
  if isinstance(value, bytes):
    if name.endswith("_bytes"):
      return {"b64": base64.b64encode(value).decode()}
    return value.decode("utf-8", "replace")
  return value
