"""REST formats. Expected values come from TF Serving's documentation."""

import json
import math

import numpy as np
import pytest

from serving.server import RestError, rest
from serving.server.version import Spec

TEXT = {"text": Spec("string", 1)}
# From https://www.tensorflow.org/tfx/serving/api_rest.
NAMED = {
  "tag": Spec("string", 1),
  "signal": Spec("int32", 2),
  "sensor": Spec("int64", 3),
}
ROWS = [
  {"tag": "foo", "signal": [1, 2, 3, 4, 5], "sensor": [[1, 2], [3, 4]]},
  {"tag": "bar", "signal": [3, 4, 1, 2, 5], "sensor": [[4, 5], [6, 8]]},
]
COLUMNS = {
  "tag": ["foo", "bar"],
  "signal": [[1, 2, 3, 4, 5], [3, 4, 1, 2, 5]],
  "sensor": [[[1, 2], [3, 4]], [[4, 5], [6, 8]]],
}


def _read(document, specs=TEXT):
  """Returns a request's examples as columns."""
  document = rest.parse(json.dumps(document).encode())
  examples = rest.read_inputs(document, specs)
  return {name: [e[name] for e in examples] for name in examples[0]}


@pytest.mark.parametrize("document", [{"instances": ROWS}, {"inputs": COLUMNS}])
def test_rows_and_columns_give_the_same_examples(document):
  assert _read(document, NAMED) == COLUMNS


FORMS = [
  {"instances": ["a", "b"]},
  {"instances": [{"text": "a"}, {"text": "b"}]},
  {"instances": [{"b64": "YQ=="}, {"b64": "Yg=="}]},
  {"instances": [{"text": {"b64": "YQ=="}}, {"text": "b"}]},
  {"inputs": ["a", "b"]},
  {"inputs": {"text": ["a", "b"]}},
  {"inputs": {"text": ["a", {"b64": "Yg=="}], "more": 1}},
]
OPTIONAL = TEXT | {"text_pair": Spec("string", 1, is_optional=True)}


@pytest.mark.parametrize("document", FORMS)
def test_a_request_for_a_single_input_may_have_several_forms(document):
  for specs in (TEXT, OPTIONAL):
    assert _read(document, specs) == {"text": ["a", "b"]}


def test_a_request_may_have_an_optional_input():
  expected = {"text": ["a"], "text_pair": ["b"]}
  row = {"text": "a", "text_pair": "b"}
  for document in ({"instances": [row]}, {"inputs": expected}):
    assert _read(document, OPTIONAL) == expected


WORDS = {"text": Spec("string", 1, takes_words=True)}


def test_a_text_may_be_a_list_of_words():
  texts = [["a", "b"], {"b64": "Y/8="}, []]
  for document in ({"instances": texts}, {"inputs": {"text": texts}}):
    assert _read(document, WORDS) == {"text": [["a", "b"], "c\ufffd", []]}


# Columns: inputs, document, message.
SPECS = {"text": TEXT, "words": WORDS, "named": NAMED}
ERRORS = r"""
text | {} | a request has either "instances" or "inputs"
text | {"inputs": [], "instances": []} | a request has either "instances" or "inputs"
text | [1] | a request is a JSON object, not [1]
text | {"instances": "a"} | "instances" has to be a list that is not empty
text | {"instances": []} | "instances" has to be a list that is not empty
named | {"instances": ["a"]} | inputs need their names: tag, signal, sensor
named | {"inputs": ["a"]} | inputs need their names: tag, signal, sensor
text | {"instances": [{"text": "a"}, "b"]} | row 1 has other inputs than row 0
text | {"instances": [{"text": "a"}, {"text": "b", "more": 1}]} | row 1 has other inputs than row 0
text | {"instances": [{"text": "a", "more": "b"}]} | inputs are text, and not text, more
named | {"instances": [{"tag": "a"}]} | inputs are tag, signal, sensor, and not tag
text | {"instances": ["a", 5]} | text[1] is 5: give a text in UTF-8
text | {"inputs": {"b64": "YQ=="}} | input "text" has to be a list
text | {"inputs": [{"b64": 1}]} | {'b64': 1} has no base64 data
text | {"inputs": [{"b64": "*"}]} | {'b64': '*'} has no base64 data
pair | {"inputs": [1]} | x[0] is 1: give int32 in lists of equal lengths, nesting depth 1
cube | {"inputs": [[[1], [2]], [[1], [2, 3]]]} | x[1] is [[1], [2, 3]]: give int32 in lists of equal lengths, nesting depth 2
pair | {"inputs": [[1], [2147483648]]} | x[1] is [2147483648]: give int32 in lists of equal lengths, nesting depth 1
named | {"inputs": {"tag": ["foo"], "signal": [[1, 2, 3, 4, 5], [3, 4, 1, 2, 5]], "sensor": [[[1, 2], [3, 4]], [[4, 5], [6, 8]]]}} | inputs have no rows, or different numbers of rows
pair | {"inputs": []} | inputs have no rows, or different numbers of rows
"""  # noqa: E501
SPECS |= {"pair": {"x": Spec("int32", 2)}, "cube": {"x": Spec("int32", 3)}}


@pytest.mark.parametrize("case", ERRORS.strip().splitlines())
def test_an_error_names_the_row_and_the_input(case):
  inputs, document, message = case.split(" | ")
  with pytest.raises(RestError) as error:
    _read(json.loads(document), SPECS[inputs])
  assert (error.value.status, str(error.value)) == (400, message)


def test_an_empty_list_of_texts_is_refused():
  specs = {"choices": Spec("string", 2)}
  for document in ({"instances": [{"choices": []}]}, {"inputs": [[], []]}):
    with pytest.raises(RestError, match="list in choices is empty") as e:
      _read(document, specs)
    assert e.value.status == 400
  positions = {"masked_lm_positions": Spec("int32", 2)}
  assert _read({"inputs": [[]]}, positions) == {"masked_lm_positions": [[]]}


def test_numbers_outside_the_type_of_an_input_are_refused():
  for value in (1.5, math.inf, True, 1 << 31, 10**400, "1"):
    with pytest.raises(RestError):
      _read({"inputs": [value]}, {"x": Spec("int32", 1)})
  limits = {"x": [-(1 << 31), (1 << 31) - 1]}
  assert _read({"inputs": limits}, {"x": Spec("int32", 1)}) == limits


def _write(answers, by_rows):
  return json.loads(rest.write_outputs(answers, by_rows))


def test_a_single_output_is_written_without_its_name():
  answers = [{"y": value} for value in (3.5, 4.0, 5.5)]
  assert _write(answers, True) == {"predictions": [3.5, 4.0, 5.5]}
  assert _write(answers, False) == {"outputs": [3.5, 4.0, 5.5]}


def test_several_outputs_are_written_as_objects():
  probs = np.array([0.2, 0.8], np.float32)
  answers = [{"label": "né", "p": probs}, {"p": [1.0]}]
  rows = [{"label": "né", "p": [0.2, 0.8]}, {"label": None, "p": [1.0]}]
  assert _write(answers, by_rows=True) == {"predictions": rows}
  columns = {"label": ["né", None], "p": [[0.2, 0.8], [1.0]]}
  assert _write(answers, by_rows=False) == {"outputs": columns}


def test_float32_values_are_written_with_as_few_digits_as_possible():
  values = np.array([0.1, 1e-7, 16777216, np.nan, -np.inf], np.float32)
  text = rest.write_outputs([{"y": values}], by_rows=False).decode()
  assert text == '{"outputs": [[0.1, 1e-07, 16777216.0, null, null]]}'
