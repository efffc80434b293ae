"""Predictions of exports in Python: plain values, in order, for any batches."""

import re

import numpy as np
import pytest
import tensorflow as tf

import predictor
from data.tokenization_ops import GraphTokenizer
from predictor import Predictor
from serving import export
from tests import programs
from tests.serving import stand_in, tasks

TEXTS = ["ab c", "", "a b c d e", "abcde", "a \x00", "e e e e e e e e e e e e"]


@pytest.fixture(name="exports", scope="module")
def _exports(tmp_path_factory):
  """Predictors by the name of the task."""
  folder = tmp_path_factory.mktemp("exports")

  def load(model, task):
    path = str(folder / str(len(list(folder.iterdir()))))
    export.save(path, model, task)
    return Predictor(path)

  return tasks.Everything(GraphTokenizer(stand_in.VOCABULARY), load)


def _columns(predict, name):
  if name == "choices":
    endings = [[text, "ab"] for text in TEXTS]
    return {"sent1": TEXTS[::-1], "sent2": TEXTS, "choices": endings}
  if name == "masks":
    return {"text": [f"{text} [MASK]" * i for i, text in enumerate(TEXTS)]}
  return {
    input_name: TEXTS[number:] + TEXTS[:number]
    for number, input_name in enumerate(predict.inputs)
  }


@pytest.mark.parametrize(
  "name",
  [
    "classification of pairs",
    "tagging",
    *(
      pytest.param(name, marks=pytest.mark.slow)
      for name in ("classification", "choices", "masks")
    ),
  ],
)
def test_batches_change_nothing(exports, name):
  predict = exports[name]
  columns = _columns(predict, name)
  together = predict(**columns)
  assert len(together) == len(TEXTS)
  for size in (1, 4):
    for result, expected in zip(
      predict(batch_size=size, **columns), together, strict=True
    ):
      tasks.assert_same(result, expected)
  empty = {name: [] for name in columns}
  assert predict(**empty) == []


def test_values_are_plain(exports):
  (answer,) = exports["classification of pairs"](text_a=["ab c"], text_b=["d"])
  assert sorted(answer) == ["label", "labels", "probabilities"]
  assert answer["labels"] == list(tasks.LABELS)
  best = int(np.argmax(answer["probabilities"]))
  assert answer["label"] == tasks.LABELS[best]
  assert all(type(value) is float for value in answer["probabilities"])
  assert sum(answer["probabilities"]) == pytest.approx(1.0)


def test_padding_is_left_out(exports):
  short, long = exports["tagging"](["ab c", "a b c d e"])
  assert short["words"] == ["ab", "c"]
  assert len(short["tags"]) == len(short["probabilities"]) == 2
  assert short["start"] == [0, 3]
  assert len(long["tags"]) == 5
  assert short["labels"] == ["O", "B-X", "I-X"]


def test_wrong_inputs_are_named(exports):
  single = exports["tagging"]
  pairs = exports["classification of pairs"]
  for wrong in (lambda: pairs(["a"]), pairs, lambda: pairs(text_a=["a"])):
    with pytest.raises(
      ValueError, match=r"takes text_a=\[...\], text_b=\[...\]"
    ):
      wrong()
  with pytest.raises(ValueError, match=r"takes tokens=\[...\]$"):
    single(question=["a"])
  with pytest.raises(ValueError, match=r"takes tokens=\[...\]$"):
    single([], tokens=["a"])
  with pytest.raises(ValueError, match="tokens is 'a': give a list of texts"):
    single("a")
  with pytest.raises(ValueError, match=r"tokens\[1\] is nan: give a text"):
    single(["a", float("nan")])
  with pytest.raises(ValueError, match="tokens is 7: give a list of texts"):
    single(7)
  with pytest.raises(ValueError, match=r"length: \{'text_a': 1, 'text_b': 2\}"):
    pairs(text_a=["a"], text_b=["a", "b"])
  with pytest.raises(ValueError, match="batch_size 0 must be at least 1"):
    single(["a"], batch_size=0)


@pytest.mark.parametrize(
  ("choices", "message"),
  [
    (["a", "b"], r"choices\[0\] is 'a': give a list"),
    ([["a", "b"], ["c"]], "in choices are not of one length"),
    ([[]], "the lists in choices are not of one length, or empty"),
  ],
)
def test_wrong_choices_are_named(choices, message):
  with pytest.raises(ValueError, match=message):
    predictor._check_texts("choices", choices, 2)


def test_columns_of_a_table_are_lists_of_texts(exports):
  texts = np.array(["a b", "c"])
  assert exports["tagging"](texts) == exports["tagging"]([*texts])


WRONG_FOLDERS = {
  "nowhere": r"FileNotFoundError: .*/nowhere is no folder: name what",
  "empty": r"UserError: no SavedModel and no run\.json in .*--do_export",
  "litert": r"UserError: .*/litert has no task.json, which says",
  "export": r"UserError: .*/export is an export, .*: leave out top_k, or",
  "versions": r"UserError: no SavedModel and .*: name .*/versions/3$",
}
OPEN = """
import sys
from predictor import Predictor
for path in sys.argv[1:]:
  try:
    Predictor(path, **({"top_k": 1} if path.endswith("export") else {}))
  except (OSError, ValueError) as error:
    print(f"{type(error).__name__}: {error}")
print("tensorflow" in sys.modules)
"""


def test_a_folder_without_a_model_is_named_without_tensorflow(tmp_path):
  for name in ("empty", "litert", "export"):
    (tmp_path / name).mkdir()
  (tmp_path / "litert" / "model_int8.tflite").touch()
  (tmp_path / "export" / "saved_model.pb").touch()
  (tmp_path / "versions" / "3").mkdir(parents=True)
  paths = [str(tmp_path / name) for name in WRONG_FOLDERS]
  done = programs.python(["-c", OPEN, *paths])
  *lines, is_loaded = done.stdout.splitlines()
  for line, message in zip(lines, WRONG_FOLDERS.values(), strict=True):
    assert re.match(message, line), line
  assert is_loaded == "False"


def _save_echo(folder, name, dtype):
  """Writes a SavedModel that answers with its input."""
  function = tf.function(lambda x: {"y": x}).get_concrete_function(
    tf.TensorSpec([None], dtype, name="x")
  )
  tf.saved_model.save(tf.Module(), folder, signatures={name: function})


@pytest.mark.parametrize(
  ("name", "dtype"), [("other", tf.string), ("serving_default", tf.float32)]
)
def test_a_saved_model_that_takes_no_texts_is_named(tmp_path, name, dtype):
  _save_echo(str(tmp_path), name, dtype)
  with pytest.raises(ValueError, match="no signature serving_default of texts"):
    Predictor(tmp_path)


def test_an_export_may_be_remote():
  _save_echo("ram://export", "serving_default", tf.string)
  assert Predictor("ram://export")(["a"]) == [{"y": "a"}]
  with pytest.raises(FileNotFoundError, match="ram://nowhere is no folder"):
    Predictor("ram://nowhere")


def test_predictions_are_those_of_the_signature(exports):
  texts = TEXTS[::-1]
  predict = exports["tagging"]
  result = predict(texts, batch_size=2)
  outputs = predict._predict._function(tokens=tf.constant(texts))
  for row, answer in enumerate(result):
    count = int(outputs["num_words"][row])
    expected = outputs["tags"][row, :count].numpy().tolist()
    assert answer["tags"] == [tag.decode() for tag in expected]


@pytest.mark.slow
def test_a_model_is_warmed_up_with_the_shapes_of_its_file(tmp_path, capsys):
  folder = str(tmp_path / "1")
  tokenizer = GraphTokenizer(stand_in.VOCABULARY)
  export.save(folder, *tasks.Everything(tokenizer)["classification"])
  Predictor(folder, warm_up=True)
  assert "warmed up 2 of 2 shapes (100%)" in capsys.readouterr().err
