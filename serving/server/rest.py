"""Converts JSON of TF Serving's REST API to and from arrays.

Formats and statuses follow https://www.tensorflow.org/tfx/serving/api_rest.
"""

import base64
import json
import reprlib
from collections.abc import Mapping, Sequence

import numpy as np

from data.features import check_texts
from serving.answers import to_list
from serving.server import RestError
from serving.server.version import Spec
from storage import UserError


def parse(body: bytes) -> dict:
  """Parses a request's body; raises RestError if it is not a JSON object."""
  try:
    document = json.loads(body.decode("utf-8-sig"))
  except (ValueError, RecursionError) as error:  # no UTF-8, deep nesting, ...
    raise RestError(f"JSON Parse error: {str(error)[:200]}") from None
  if not isinstance(document, dict):
    raise RestError(f"a request is a JSON object, not {reprlib.repr(document)}")
  return document


def read_inputs(document: dict, specs: Mapping[str, Spec]) -> list[dict]:
  """Reads a request's examples, {input: value} each; raises RestError."""
  needed = [name for name, spec in specs.items() if not spec.is_optional]
  if ("instances" in document) == ("inputs" in document):
    raise RestError('a request has either "instances" or "inputs"')
  if "instances" in document:
    rows = document["instances"]
    if not isinstance(rows, list) or not rows:
      raise RestError('"instances" has to be a list that is not empty')
    names = [{*row} if _is_named(row) else None for row in rows]
    for number, others in enumerate(names):
      if others != names[0]:
        raise RestError(f"row {number} has other inputs than row 0")
    rows = [_by_name(row, needed) for row in rows]
    columns = {name: [row[name] for row in rows] for name in rows[0]}
  else:
    columns = _by_name(document["inputs"], needed)
    columns = {name: columns[name] for name in specs if name in columns}
  if not {*needed} <= {*columns} <= {*specs}:
    given = ", ".join(columns)[:200]
    raise RestError(f"inputs are {', '.join(specs)}, and not {given}")
  values = [_read(k, column, specs[k]) for k, column in columns.items()]
  if not all(len(column) == len(values[0]) > 0 for column in values):
    raise RestError("inputs have no rows, or different numbers of rows")
  rows = zip(*values, strict=True)
  return [dict(zip(columns, row, strict=True)) for row in rows]


def _is_named(value):
  return isinstance(value, dict) and [*value] != ["b64"]


def _by_name(value, needed):
  """Returns {input: values}; a client may leave out a single input's name."""
  if _is_named(value):
    return value
  if len(needed) != 1:
    raise RestError(f"inputs need their names: {', '.join(needed)}")
  return {needed[0]: value}


def _read(name, column, spec):
  """Checks the values of an input: a text or nested integers for each row."""
  if not isinstance(column, list):
    raise RestError(f'input "{name}" has to be a list')
  if spec.dtype == "string":
    texts = _decode(column, spec.rank + spec.takes_words)
    try:
      return check_texts(name, texts, spec.rank, spec.takes_words)
    except UserError as error:
      raise RestError(str(error)) from None
  for number, value in enumerate(column):
    try:
      array = np.array(value)
    except ValueError:  # lists of different lengths
      array = np.array("")
    limits = np.iinfo(spec.dtype)
    fits = array.dtype.kind in "iu" or not array.size
    fits = fits and np.all((array >= limits.min) & (array <= limits.max))
    if not fits or array.ndim != spec.rank - 1:
      raise RestError(
        f"{name}[{number}] is {reprlib.repr(value)}: give {spec.dtype} in "
        f"lists of equal lengths, nesting depth {spec.rank - 1}"
      )
  return column


def _decode(value, depth):
  """Decodes each {"b64": ...} in nested lists of at most this depth."""
  if isinstance(value, list) and depth:
    return [_decode(item, depth - 1) for item in value]
  if not isinstance(value, dict):
    return value
  try:
    content = base64.b64decode(value["b64"], validate=True)
  except (KeyError, TypeError, ValueError):
    raise RestError(f"{reprlib.repr(value)} has no base64 data") from None
  return content.decode("utf-8", "replace")


def write_outputs(answers: Sequence[Mapping], by_rows: bool) -> bytes:
  """JSON of the answers: "predictions" by rows, or "outputs" by columns."""

  def to_json(value):
    is_array = isinstance(value, np.ndarray | np.generic)
    return to_list(np.asarray(value)) if is_array else value

  names = sorted(set().union(*answers))  # an answer may lack some outputs
  rows = [{n: to_json(answer.get(n)) for n in names} for answer in answers]
  if len(names) == 1:  # a single output has no name
    value = [row[names[0]] for row in rows]
  elif by_rows:
    value = rows
  else:
    value = {name: [row[name] for row in rows] for name in names}
  key = "predictions" if by_rows else "outputs"
  return json.dumps({key: value}, ensure_ascii=False).encode()
