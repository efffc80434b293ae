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
_LEVEL = "Encountered list at unexpected level: %s expected < %s"
_IN_ROW = "Failed to process element: %s of 'instances' list."


class Spec(NamedTuple):
  """An input: "string" or a type of integers; sizes, None for any."""

  dtype: str
  shape: Sequence[int | None]
  is_optional: bool = False


class RestError(Exception):
  """An answer with an HTTP status of 400 or more, and its message."""

  def __init__(self, status: int, message: str):
    super().__init__(message)
    self.status = status


def unavailable(name: str, number: int | None, status: int = 404) -> RestError:
  """The error of a version, None for the newest, that is not loaded."""
  which = f"Latest({name})" if number is None else f"Specific({name}, {number})"
  return RestError(status, f"Servable not found for request: {which}")


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
  message = 'Serving signature name: "%s" not found in signature def'
  _check(signature in signatures, message, signature)
  _check(
    method == "predict",
    "Expected %s signature method_name to be tensorflow/serving/%s. Was: "
    "tensorflow/serving/predict",
    _METHOD_NAMES.get(method, ""),
    method,
  )
  return signature


def version_number(version: str | None, label: str | None) -> int | None:
  """Number of a version in a URL; None for the newest."""
  message = "Unrecognized servable version label: %s"
  _check(not label, message, unquote(label or ""))
  message = "Failed to convert version: %s to numeric."
  _check(len(version or "") <= 18, message, version)
  return int(version) if version else None


def read_inputs(
  document: dict, specs: Mapping[str, Spec]
) -> list[dict[str, Any]]:
  """Examples of a request: values by input, in lists.

  Raises RestError if they do not fit `specs`.
  """
  _check(
    not {"instances", "inputs"} <= {*document},
    "JSON Value: %s Not formatted correctly expecting only one of 'inputs' or "
    "'instances' keys to exist ",
    document,
  )
  needed = [name for name, spec in specs.items() if not spec.is_optional]
  if "instances" in document:
    columns = _read_rows(document, specs, needed)
  else:
    _check("inputs" in document, "Missing 'inputs' or 'instances' key")
    columns = _read_columns(document["inputs"], specs, needed)
  for name, (_, shape) in columns.items():
    expected = [-1 if size is None else size for size in specs[name].shape]
    _check(
      len(expected) == len(shape)
      and all(n in (-1, m) for n, m in zip(expected, shape, strict=True)),
      "Tensor name: %s has shape: %s expecting: %s",
      name,
      shape,
      expected,
    )
    is_empty = 0 in shape[1:] and specs[name].dtype == "string"
    _check(not is_empty, "Tensor name: %s has an empty list", name)
  _check(
    len({shape[0] for _, shape in columns.values()}) <= 1,
    "Batching input tensors must have equal 0th-dimension size",
  )
  rows = zip(*(values for values, _ in columns.values()), strict=True)
  return [dict(zip(columns, row, strict=True)) for row in rows]


def _is_base64(value):
  return (
    isinstance(value, dict)
    and [*value] == ["b64"]
    and isinstance(value["b64"], str)
  )


def _is_named(value):
  return isinstance(value, dict) and not _is_base64(value)


def _read_rows(document, specs, needed):
  """Values and shape by input, of "instances"."""
  rows = document["instances"]
  _check(
    isinstance(rows, list),
    "JSON Value: %s Excepting 'instances' to be an list/array",
    document,
  )
  _check(rows, "JSON Value: %s No values in 'instances' array", document)
  _check(
    _is_named(rows[0]) or len(needed) == 1,
    "instances is a plain list, but expecting list of objects as multiple "
    "input tensors required as per tensorinfo_map",
  )
  are_named = _is_named(rows[0])
  more = rows[0] if are_named else ()
  columns = {name: [] for name in specs if name in needed or name in more}
  shapes = {}
  for number, row in enumerate(rows):
    _check(
      are_named == _is_named(row),
      "Expecting object but got list at item %s of input list"
      if are_named
      else "Expecting value/list but got object at item %s of input list",
      number,
    )
    for name, value in (row if are_named else {needed[0]: row}).items():
      try:
        message = "JSON object: does not have named input: %s"
        _check(name in columns, message, name)
        values, shape = _read(value, specs[name].dtype)
        first = shapes.setdefault(name, shape)
        message = "Expecting shape %s but got: %s"
        _check(shape == first, message, first, shape)
      except RestError as error:
        where = f"{number} key: {name}" if are_named else f"{number}"
        _fail(_IN_ROW + " Error: INVALID_ARGUMENT: %s", where, str(error))
      columns[name].append(values)
    _check(
      not are_named or len(row) == len(columns),
      _IN_ROW + " JSON object: %s keys must be equal to: %s",
      number,
      row,
      ",".join(sorted(columns)),
    )
  return {n: (v, [len(rows), *shapes[n]]) for n, v in columns.items()}


def _read_columns(inputs, specs, needed):
  """Values and shape by input, of "inputs"."""
  if not _is_named(inputs):
    _check(
      len(needed) == 1,
      "inputs is a plain value/list, but expecting an object as multiple input "
      "tensors required as per tensorinfo_map",
    )
    inputs = {needed[0]: inputs}
  for name in needed:
    message = "Missing named input: %s in 'inputs' object."
    _check(name in inputs, message, name)
  return {
    name: _read(inputs[name], spec.dtype)
    for name, spec in specs.items()
    if name in inputs
  }


def _read(value, dtype):
  """Nested lists of values, and their shape, that of the first elements."""
  shape, first = [], value
  while isinstance(first, list):
    shape.append(len(first))
    first = first[0] if first else None
  _check(len(shape) <= _MAX_RANK, _LEVEL, len(shape), _MAX_RANK)
  return _convert(value, 0, shape, dtype), shape


def _convert(value, level, shape, dtype):
  if not isinstance(value, list):
    if level != len(shape):
      _fail(
        "JSON Value: %s found at incorrect level: %s in the JSON DOM. Expected "
        "at level: %s",
        _echo(value),
        level + 1,
        len(shape),
      )
    return _to_scalar(value, dtype)
  _check(level < len(shape), _LEVEL, level, len(shape))
  _check(
    len(value) == shape[level],
    "Encountered list at unexpected size: %s at level: %s expected size: %s",
    len(value),
    level,
    shape[level],
  )
  return [_convert(item, level + 1, shape, dtype) for item in value]


def _to_scalar(value, dtype):
  if dtype == "string" and isinstance(value, dict):
    message = "JSON Value: %s not formatted correctly for base64 data"
    _check(_is_base64(value), message, value)
    try:
      content = base64.b64decode(value["b64"], validate=True)
      return content.decode("utf-8", "replace")
    except ValueError:
      _fail("Unable to base64 decode")
  if type(value) is not (str if dtype == "string" else int):
    kind = _JSON_TYPES.get(type(value), "Number")
    _fail(
      "JSON Value: %s Type: %s is not of expected type: %s",
      _echo(value),
      str(value) if isinstance(value, bool) else kind,
      dtype,
    )
  try:
    if dtype == "string":
      value.encode()  # an error for half of a surrogate pair
      return value
    return int(np.array(value, dtype))
  except UnicodeEncodeError:
    _fail("JSON Parse error: The surrogate pair in string is invalid.")
  except OverflowError as error:
    _fail("JSON Value: %s", str(error))


def version_status(number: int, state: str, error: str) -> dict:
  """JSON of the state of a version, and of its error or ""."""
  status = {"error_code": "INTERNAL" if error else "OK", "error_message": error}
  return {"version": str(number), "state": state, "status": status}


def write_outputs(answers: Sequence[Mapping], by_rows: bool) -> bytes:
  """JSON of the answers to examples; a single output goes without its name.

  They are "predictions" by rows, else "outputs".
  """
  names = sorted(set().union(*answers))  # a text_pair may be ""
  rows = [{n: _to_json(answer.get(n)) for n in names} for answer in answers]
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


def _to_json(value):
  is_array = isinstance(value, np.ndarray | np.generic)
  return to_list(np.asarray(value)) if is_array else value
