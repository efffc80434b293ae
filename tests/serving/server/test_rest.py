"""REST forms: expected values are typed from TF Serving's documentation."""

import json
import math

import numpy as np
import pytest

from serving.server import rest
from serving.server.rest import RestError, Spec

TEXT = {"text": Spec("string", 1)}
# The example of https://www.tensorflow.org/tfx/serving/api_rest.
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
  """Columns of the examples of a request."""
  document = rest.parse(json.dumps(document).encode())
  examples = rest.read_inputs(document, specs)
  return {name: [e[name] for e in examples] for name in examples[0]}


@pytest.mark.parametrize("document", [{"instances": ROWS}, {"inputs": COLUMNS}])
def test_rows_and_columns_are_the_same(document):
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


@pytest.mark.parametrize("specs", [TEXT, OPTIONAL])
@pytest.mark.parametrize("document", FORMS)
def test_forms_of_a_single_input(document, specs):
  assert _read(document, specs) == {"text": ["a", "b"]}


def test_an_optional_input_may_be_there():
  expected = {"text": ["a"], "text_pair": ["b"]}
  row = {"text": "a", "text_pair": "b"}
  for document in ({"instances": [row]}, {"inputs": expected}):
    assert _read(document, OPTIONAL) == expected


WORDS = {"text": Spec("string", 1, takes_words=True)}


@pytest.mark.parametrize(
  "document",
  [
    {"instances": [["a", "b"], "c", []]},
    {
      "instances": [
        {"text": ["a", "b"]},
        {"text": {"b64": "Yw=="}},
        {"text": []},
      ]
    },
    {"inputs": [["a", "b"], "c", []]},
    {"inputs": {"text": [["a", "b"], "c", []]}},
  ],
)
def test_a_text_may_be_a_list_of_words(document):
  assert _read(document, WORDS) == {"text": [["a", "b"], "c", []]}


# Inputs, a document, and the message.
SPECS = {"text": TEXT, "named": NAMED, "words": WORDS}
ERRORS = r"""
text | {} | Missing 'inputs' or 'instances' key
text | [1] | JSON Value: [1] Is not object
text | "a" | JSON Value: "a" Is not object
text | {"inputs": [], "instances": []} | JSON Value: {"inputs":[],"instances":[]} Not formatted correctly expecting only one of 'inputs' or 'instances' keys to exist
text | {"signature_name": 5} | JSON Value: {"signature_name":5} not formatted correctly. 'signature_name' key must be a string value.
text | {"instances": "a"} | JSON Value: {"instances":"a"} Excepting 'instances' to be an list/array
text | {"instances": []} | JSON Value: {"instances":[]} No values in 'instances' array
named | {"instances": ["a"]} | instances is a plain list, but expecting list of objects as multiple input tensors required as per tensorinfo_map
named | {"instances": [{"b64": "YQ=="}]} | instances is a plain list, but expecting list of objects as multiple input tensors required as per tensorinfo_map
named | {"inputs": ["a"]} | inputs is a plain value/list, but expecting an object as multiple input tensors required as per tensorinfo_map
text | {"instances": [{"text": "a"}, "b"]} | Expecting object but got list at item 1 of input list
text | {"instances": ["a", {"text": "b"}]} | Expecting value/list but got object at item 1 of input list
text | {"instances": [{"texts": "b"}]} | Failed to process element: 0 key: texts of 'instances' list. Error: INVALID_ARGUMENT: JSON object: does not have named input: texts
named | {"instances": [{"tag": "a"}]} | Failed to process element: 0 of 'instances' list. JSON object: {"tag":"a"} keys must be equal to: sensor,signal,tag
named | {"inputs": {"tag": ["a"]}} | Missing named input: signal in 'inputs' object.
text | {"instances": ["a", 5]} | Failed to process element: 1 of 'instances' list. Error: INVALID_ARGUMENT: JSON Value: 5 Type: Number is not of expected type: string
text | {"inputs": [null]} | JSON Value: null Type: Null is not of expected type: string
text | {"inputs": [true]} | JSON Value: true Type: True is not of expected type: string
text | {"inputs": {"b64": "YQ", "more": 1}} | Missing named input: text in 'inputs' object.
text | {"inputs": [{"b64": 1}]} | JSON Value: {"b64":1} not formatted correctly for base64 data
text | {"inputs": [{"b64": "*"}]} | Unable to base64 decode
text | {"inputs": [["a"], "b"]} | JSON Value: "b" found at incorrect level: 2 in the JSON DOM. Expected at level: 2
text | {"inputs": ["a", ["b"]]} | Encountered list at unexpected level: 1 expected < 1
text | {"inputs": [["a", "b"], ["c"]]} | Encountered list at unexpected size: 1 at level: 1 expected size: 2
text | {"instances": [["a"], ["b", "c"]]} | Failed to process element: 1 of 'instances' list. Error: INVALID_ARGUMENT: Expecting shape [1] but got: [2]
text | {"inputs": [["a", "b"]]} | Tensor name: text has shape: [1,2] expecting: [-1]
words | {"inputs": ["a", ["b", ""]]} | JSON Value: "" is no word, item 1 of a list of words
words | {"inputs": [[null, "b"]]} | JSON Value: null is no word, item 0 of a list of words
words | {"instances": [["a", ["b"]]]} | Failed to process element: 0 of 'instances' list. Error: INVALID_ARGUMENT: JSON Value: ["b"] is no word, item 1 of a list of words
words | {"inputs": "a"} | Tensor name: text has shape: [] expecting: [-1]
named | {"inputs": {"tag": ["foo"], "signal": [[1, 2, 3, 4, 5], [3, 4, 1, 2, 5]], "sensor": [[[1, 2], [3, 4]], [[4, 5], [6, 8]]]}} | Batching input tensors must have equal 0th-dimension size
"""  # noqa: E501


@pytest.mark.parametrize("case", ERRORS.strip().splitlines())
def test_errors_are_worded_as_by_tf_serving(case):
  inputs, document, message = case.split(" | ")
  with pytest.raises(RestError) as error:
    _read(json.loads(document), SPECS[inputs])
  assert (error.value.status, str(error.value).rstrip()) == (400, message)


def test_a_list_of_texts_is_not_empty():
  specs = {"choices": Spec("string", 2)}
  for document in ({"instances": [{"choices": []}]}, {"inputs": [[], []]}):
    with pytest.raises(RestError, match="name: choices has an empty list") as e:
      _read(document, specs)
    assert e.value.status == 400
  assert _read({"inputs": [["a"]]}, specs) == {"choices": [["a"]]}
  assert rest.read_inputs({"inputs": []}, TEXT) == []
  positions = {"masked_lm_positions": Spec("int32", 2)}
  assert _read({"inputs": [[]]}, positions) == {"masked_lm_positions": [[]]}


def test_numbers_have_to_fit():
  for value in (1.5, math.inf, True, 1 << 31, -(1 << 40), 10**400, "1"):
    with pytest.raises(RestError):
      _read({"inputs": [value]}, {"x": Spec("int32", 1)})


def _write(answers, by_rows):
  return json.loads(rest.write_outputs(answers, by_rows))


def test_a_single_output_goes_without_its_name():
  answers = [{"y": value} for value in (3.5, 4.0, 5.5)]
  assert _write(answers, True) == {"predictions": [3.5, 4.0, 5.5]}
  assert _write(answers, False) == {"outputs": [3.5, 4.0, 5.5]}


def test_several_outputs_are_objects():
  probs = np.array([0.2, 0.8], np.float32)
  answers = [{"label": "né", "p": probs}, {"label": "a", "p": [1.0]}]
  rows = [{"label": "né", "p": [0.2, 0.8]}, {"label": "a", "p": [1.0]}]
  assert _write(answers, by_rows=True) == {"predictions": rows}
  columns = {"label": ["né", "a"], "p": [[0.2, 0.8], [1.0]]}
  assert _write(answers, by_rows=False) == {"outputs": columns}


def test_an_output_that_only_some_answers_have_is_null_in_others():
  answers = [{"p": 0.5}, {"p": 1.0, "is_next": True}]
  rows = [{"p": 0.5, "is_next": None}, {"p": 1.0, "is_next": True}]
  assert _write(answers, True) == {"predictions": rows}


def test_floats_are_as_short_as_float32_allows():
  values = np.array([0.1, 1e-7, 16777216, np.nan, -np.inf], np.float32)
  text = rest.write_outputs([{"y": values}], by_rows=False).decode()
  assert text == '{"outputs": [[0.1, 1e-07, 16777216.0, NaN, -Infinity]]}'


def test_large_answers_are_counted():
  assert rest.num_values([{"a": [[1.0] * 3] * 4, "b": "text"}] * 2) == 26
  assert rest.num_values([{"a": np.zeros((5, 2)), "b": []}]) == 10
