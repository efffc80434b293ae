"""Predictions of exports in Python: plain values, in order, for any batches."""

import re

import numpy as np
import pytest
import tensorflow as tf

import predictor
from predictor import Predictor
from tasks import has_gpu as gpu_is_visible
from tasks import open_model
from tests import programs
from tests.serving import tasks
from tests.serving.fixtures import *  # noqa: F403

TEXTS = ["ab c", "", "a b c d e", "abcde", "a \x00", "e e e e e e e e e e e e"]


@pytest.fixture(name="exports", scope="module")
def _exports(every_task, folders):
  """Predictors by the name of the task."""
  return tasks.Finished(
    every_task,
    lambda served: Predictor(
      next(folders[k] for k, v in every_task.items() if v is served)
    ),
  )


def test_nothing_is_answered_by_nothing(exports):
  predict = exports["classification of pairs"]
  assert predict(text_a=[], text_b=[]) == []


def test_values_are_plain(exports):
  (answer,) = exports["classification of pairs"](text_a=["ab c"], text_b=["d"])
  assert sorted(answer) == ["label", "labels", "probabilities"]
  assert answer["labels"] == list(tasks.LABELS)
  best = int(np.argmax(answer["probabilities"]))
  assert answer["label"] == tasks.LABELS[best]
  assert all(type(value) is float for value in answer["probabilities"])
  assert sum(answer["probabilities"]) == pytest.approx(1.0)


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
    ([["a"], []], "a list in choices is empty"),
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
  "empty": r"UserError: no export and no run\.json in .*--do_export",
  "litert": r"UserError: .*/litert is no complete export .cannot read .*/task",
  "export": r"UserError: .*/export is an export, .*: leave out top_k, or",
  "versions": r"UserError: no export and .*: name .*/versions/3$",
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


def _save_echo(folder):
  """Writes a SavedModel of another project."""
  function = tf.function(lambda x: {"y": x}).get_concrete_function(
    tf.TensorSpec([None], tf.string, name="x")
  )
  signatures = {"serving_default": function}
  tf.saved_model.save(tf.Module(), folder, signatures=signatures)


def test_an_export_may_be_remote(folders):
  with pytest.raises(FileNotFoundError, match="ram://nowhere is no folder"):
    Predictor("ram://nowhere")
  folder = folders["tagging"]
  for path in folder.rglob("*"):
    if path.is_file():
      target = f"ram://export/{path.relative_to(folder)}"
      tf.io.gfile.makedirs(target.rpartition("/")[0])
      tf.io.gfile.copy(str(path), target)
  tasks.assert_same(
    *(Predictor(f)(["ab c"])[0] for f in ("ram://export", folder))
  )


def test_another_projects_savedmodel_is_named(folders, tmp_path):
  _save_echo(str(tmp_path))
  with pytest.raises(ValueError, match=r"is no complete export .*/task\.json"):
    Predictor(tmp_path)
  for name in ("task.json", "tokenizer_config.json", "vocab.txt", "labels.txt"):
    (tmp_path / name).write_bytes((folders["tagging"] / name).read_bytes())
  with pytest.raises(ValueError, match="has no signature serving_features"):
    Predictor(tmp_path)


@pytest.mark.parametrize(
  ("has_gpu", "engine", "expected"),
  [
    (False, "auto", ("LiteRtEngine", "model_float32.tflite")),
    (True, "auto", ("TensorFlowEngine", None)),
    (True, "litert", ("LiteRtEngine", "model_float32.tflite")),
    (False, "savedmodel", ("TensorFlowEngine", None)),
    (False, "litert_int8", ("LiteRtEngine", "model_int8.tflite")),
    (True, "litert_float16", ("LiteRtEngine", "model_float16.tflite")),
  ],
)
def test_the_engine_suits_the_machine_or_is_chosen(
  folders, monkeypatch, has_gpu, engine, expected
):
  monkeypatch.setattr("tasks.has_gpu", lambda: has_gpu)
  model = open_model(str(folders["tagging"]), engine).engine
  name, file = expected
  assert type(model).__name__ == name
  assert file is None or model._file.endswith(file)


def test_an_engine_that_is_not_there_is_named(folders, tmp_path):
  with pytest.raises(ValueError, match="no engine 'onnx': take one of auto, s"):
    Predictor(folders["tagging"], "onnx")
  for file in folders["tagging"].iterdir():
    if file.is_file() and file.suffix not in (".pb", ".tflite"):
      (tmp_path / file.name).write_bytes(file.read_bytes())
  for name in ("model_int8.tflite",):
    source = folders["tagging"] / name
    (tmp_path / name).write_bytes(source.read_bytes())
  with pytest.raises(ValueError, match="for engine=litert, only litert_int8"):
    Predictor(tmp_path, "litert")
  [answer] = Predictor(tmp_path)(["ab c"])
  [other] = Predictor(tmp_path / "model_int8.tflite", warm_up=True)(["ab c"])
  assert answer == other


@pytest.mark.parametrize(
  ("visible", "devices", "expected"),
  [
    (None, ["/dev/nvidia0"], True),
    ("0,1", ["/dev/nvidia0"], True),
    ("", ["/dev/nvidia0"], False),
    ("-1", ["/dev/nvidia0"], False),
    (None, [], False),
  ],
)
def test_a_gpu_is_one_that_the_process_may_use(
  monkeypatch, visible, devices, expected
):
  monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
  if visible is not None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
  monkeypatch.setattr("glob.glob", lambda pattern: devices)
  assert gpu_is_visible() is expected
