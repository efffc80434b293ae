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


class Spec(NamedTuple):
  """An input: "string" or a type of integers; its rank with the batch."""

  dtype: str
  rank: int
  is_optional: bool = False
  takes_words: bool = False  # a text may be a list of its words


class RestError(Exception):
  """An answer with an HTTP status of 400 or more, and its message."""

  def __init__(self, message: str, status: int = 400):
    super().__init__(message)
    self.status = status


def unavailable(name: str, number: int | None, status: int = 404) -> RestError:
  """The error of a version, None for the newest, that is not loaded."""
  which = f"Latest({name})" if number is None else f"Specific({name}, {number})"
  return RestError(f"Servable not found for request: {which}", status)


def _echo(value):
  """JSON of a client's value, for a message; at most 200 characters."""
  try:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))[:200]
  except RecursionError:
    return "..."


def _bad_value(value, problem):
  return RestError(f"JSON Value: {_echo(value)} {problem}")


def parse(body: bytes) -> dict:
  """The JSON object of a request; raises RestError if it is none."""
  if not body:
    raise RestError("JSON Parse error: The document is empty")
  try:
    document = json.loads(body.decode())
  except json.JSONDecodeError as error:
    message = f"JSON Parse error: {error.msg} at offset: {error.pos}"
    raise RestError(message) from None
  except (ValueError, RecursionError) as error:  # no UTF-8, deeply nested, ...
    raise RestError(f"JSON Parse error: {str(error)[:200]}") from None
  if not isinstance(document, dict):
    raise _bad_value(document, "Is not object")
  if not isinstance(document.get("signature_name", ""), str):
    raise _bad_value(
      document,
      "not formatted correctly. 'signature_name' key must be a string value.",
    )
  return document


def signature_name(document: dict, names: Collection[str], method: str) -> str:
  """Signature of a request; RestError if there is none, or of that method."""
  name = document.get("signature_name") or "serving_default"
  if name not in names:
    raise RestError(
      f'Serving signature name: "{name[:200]}" not found in signature def'
    )
  if method != "predict":
    raise RestError(
      f"Expected {_METHOD_NAMES[method]} signature method_name to be "
      f"tensorflow/serving/{method}. Was: tensorflow/serving/predict"
    )
  return name


def version_number(version: str | None, label: str | None) -> int | None:
  """Number of a version in a URL; None for the newest."""
  if label:
    label = unquote(label)[:200]
    raise RestError(f"Unrecognized servable version label: {label}")
  if version and len(version) > 18:
    raise RestError(f"Failed to convert version: {version[:200]} to numeric.")
  return int(version) if version else None


def read_inputs(
  document: dict, specs: Mapping[str, Spec]
) -> list[dict[str, Any]]:
  """Examples of a request, values by input; RestError unless they fit."""
  needed = [name for name, spec in specs.items() if not spec.is_optional]
  if {"instances", "inputs"} <= {*document}:
    raise _bad_value(
      document,
      "Not formatted correctly expecting only one of 'inputs' or 'instances' "
      "keys to exist ",
    )
  if "instances" in document:
    columns = _read_rows(document, specs, needed)
  elif "inputs" in document:
    columns = _read_columns(document["inputs"], specs, needed)
  else:
    raise RestError("Missing 'inputs' or 'instances' key")
  for name, (_, shape) in columns.items():
    spec = specs[name]
    if len(shape) != spec.rank:
      raise RestError(
        f"Tensor name: {name} has shape: {_echo(shape)} expecting: "
        f"{_echo([-1] * spec.rank)}"
      )
    if 0 in shape[1:] and spec.dtype == "string":
      raise RestError(f"Tensor name: {name} has an empty list")
  if len({shape[0] for _, shape in columns.values()}) > 1:
    raise RestError("Batching input tensors must have equal 0th-dimension size")
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


def _by_name(value, needed, problem):
  """Values by input; that of a single one may go without its name."""
  if _is_named(value):
    return value
  if len(needed) != 1:
    raise RestError(
      f"{problem} as multiple input tensors required as per tensorinfo_map"
    )
  return {needed[0]: value}


def _read_rows(document, specs, needed):
  """Values and shape by input, of "instances"."""
  rows = document["instances"]
  if not isinstance(rows, list):
    raise _bad_value(document, "Excepting 'instances' to be an list/array")
  if not rows:
    raise _bad_value(document, "No values in 'instances' array")
  are_named = _is_named(rows[0])
  problem = "instances is a plain list, but expecting list of objects"
  first = _by_name(rows[0], needed, problem)
  columns = {name: [] for name in specs if name in needed or name in first}
  shapes = {}
  for number, row in enumerate(rows):
    if are_named != _is_named(row):
      pair = "object but got list" if are_named else "value/list but got object"
      raise RestError(f"Expecting {pair} at item {number} of input list")
    row = _by_name(row, needed, problem)
    for name, value in row.items():
      try:
        if name not in columns:
          message = f"JSON object: does not have named input: {name[:200]}"
          raise RestError(message)
        values, shape = _read(value, specs[name])
        expected = shapes.setdefault(name, shape)
        if shape != expected:
          message = f"Expecting shape {_echo(expected)} but got: {_echo(shape)}"
          raise RestError(message)
      except RestError as error:
        where = f"{number} key: {name}"[:200] if are_named else number
        raise RestError(
          f"Failed to process element: {where} of 'instances' list. Error: "
          f"INVALID_ARGUMENT: {str(error)[:200]}"
        ) from None
      columns[name].append(values)
    if len(row) != len(columns):
      raise RestError(
        f"Failed to process element: {number} of 'instances' list. JSON "
        f"object: {_echo(row)} keys must be equal to: "
        f"{','.join(sorted(columns))}"
      )
  return {n: (v, [len(rows), *shapes[n]]) for n, v in columns.items()}


def _read_columns(inputs, specs, needed):
  """Values and shape by input, of "inputs"."""
  problem = "inputs is a plain value/list, but expecting an object"
  inputs = _by_name(inputs, needed, problem)
  for name in needed:
    if name not in inputs:
      raise RestError(f"Missing named input: {name} in 'inputs' object.")
  return {
    name: _read(inputs[name], spec, 1)
    for name, spec in specs.items()
    if name in inputs
  }


def _read(value, spec, rank=0):
  """Nested lists of values, and their shape, that of the first elements."""
  if spec.takes_words and isinstance(value, list):
    # A list of words, in `rank` lists, is a value: a tuple.
    texts = (tuple(v) if isinstance(v, list) else v for v in value)
    value = [*texts] if rank else tuple(value)
  shape, first = [], value
  while isinstance(first, list):
    shape.append(len(first))
    first = first[0] if first else None
  if len(shape) > _MAX_RANK:
    raise _unexpected_level(len(shape), _MAX_RANK)
  return _convert(value, 0, shape, spec.dtype), shape


def _unexpected_level(level, limit):
  return RestError(
    f"Encountered list at unexpected level: {level} expected < {limit}"
  )


def _convert(value, level, shape, dtype):
  if not isinstance(value, list):
    if level != len(shape):
      raise _bad_value(
        value,
        f"found at incorrect level: {level + 1} in the JSON DOM. Expected at "
        f"level: {len(shape)}",
      )
    return _to_scalar(value, dtype)
  if level >= len(shape):
    raise _unexpected_level(level, len(shape))
  if len(value) != shape[level]:
    raise RestError(
      f"Encountered list at unexpected size: {len(value)} at level: {level} "
      f"expected size: {shape[level]}"
    )
  return [_convert(item, level + 1, shape, dtype) for item in value]


def _to_scalar(value, dtype):
  if isinstance(value, tuple):
    for number, word in enumerate(value):
      if not word or not isinstance(word, str):
        raise _bad_value(word, f"is no word, item {number} of a list of words")
    return [_to_scalar(word, dtype) for word in value]
  if dtype == "string" and isinstance(value, dict):
    if not _is_base64(value):
      raise _bad_value(value, "not formatted correctly for base64 data")
    try:
      content = base64.b64decode(value["b64"], validate=True)
    except ValueError:
      raise RestError("Unable to base64 decode") from None
    return content.decode("utf-8", "replace")
  if type(value) is not (str if dtype == "string" else int):
    kind = _JSON_TYPES.get(type(value), "Number")
    if isinstance(value, bool):
      kind = str(value)
    raise _bad_value(value, f"Type: {kind} is not of expected type: {dtype}")
  try:
    if dtype == "string":
      value.encode()  # an error for half of a surrogate pair
      return value
    return int(np.array(value, dtype))
  except UnicodeEncodeError:
    message = "JSON Parse error: The surrogate pair in string is invalid."
    raise RestError(message) from None
  except OverflowError as error:
    raise RestError(f"JSON Value: {error}") from None


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
