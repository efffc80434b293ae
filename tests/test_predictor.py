"""Predictor: inputs, answers, errors and engines."""

import fnmatch
import functools
import os
import pickle
import re
import shutil
import sys
import weakref
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from data.features import check_texts
from data.vocab import SPECIAL_TOKENS
from predictor import Predictor
from serving.formats import has_gpu as gpu_is_visible
from storage import UserError
from tasks import open as opener
from tasks.open import open_model
from tests import programs, shared, small_model, stages
from tests.serving import tasks
from tests.test_predictor_program import Model
from training import checkpoint_files


@pytest.fixture(name="pairs", scope="module")
def _pairs(folders):
  return Predictor(folders["classification of pairs"])


@pytest.fixture(name="tagger", scope="module")
def _tagger(folders):
  return Predictor(folders["tagging"])


def test_errors_name_wrong_inputs(pairs, tagger):
  both = r"takes text_a=\[...\], text_b=\[...\]"
  check = functools.partial(check_texts, "choices")
  for message, call in (
    (both, lambda: pairs(["a"])),
    (both, lambda: pairs(text_a=["a"])),
    (r"takes tokens=\[...\]; given: question$", lambda: tagger(question=["a"])),
    ("tokens is 'a': give a list of texts", lambda: tagger("a")),
    (r"tokens\[1\] is nan: give a text", lambda: tagger(["a", float("nan")])),
    # A data frame of one column has an array like this.
    (r"tokens is array\(\[\['a'", lambda: tagger(np.array([["a"], ["b"]]))),
    ("length: .'text_a': 1,", lambda: pairs(text_a=["a"], text_b=["a", "b"])),
    (r"text_a\[0\] is \['a'\]: ", lambda: pairs(text_a=[["a"]], text_b=[""])),
    ("batch_size 0 must be at least 1", lambda: tagger(["a"], batch_size=0)),
    (r"choices\[0\] is 'a': give a list", lambda: check(["a", "b"], 2)),
    ("a list in choices is empty", lambda: check([["a"], []], 2)),
  ):
    with pytest.raises(UserError, match=message):
      call()


def test_texts_may_be_any_iterable(tagger, pairs):
  texts = ["a b", "c"]
  for given in (np.array(texts), iter(texts)):
    assert tagger(given) == tagger(texts)
  assert tagger([b"a b", b"\xff"]) == tagger(["a b", "\ufffd"])
  expected = pairs(text_a=texts, text_b=texts)
  assert pairs(text_a=map(str, texts), text_b=(t for t in texts)) == expected


def test_a_model_with_the_head_of_a_task_refuses_embed(tagger):
  with pytest.raises(UserError, match="model of a task, which has no vectors"):
    tagger.embed(["a"])


def test_a_call_may_mix_texts_and_lists_of_words(tagger):
  assert tagger([["ab", "c"], "d"]) == tagger(["ab c", "d"])
  [answer] = tagger([["a.b", "c"]])
  assert answer["words"] == ["a.b", "c"]


WRONG_FOLDERS = {
  "nowhere": r"FileNotFoundError: .*/nowhere is not a folder: name an e",
  "litert": r"UserError: .*/litert is not a complete export .cannot read .*/t",
  "export": r"UserError: .*/export is an export, .*: leave out top_k, or",
  "versions": r"UserError: .*/versions has no export .* \(such as FOLDER/1\)",
  "hub": r"UserError: .*/hub has no export .* a folder that convert_checkpoin",
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


def test_a_folder_without_a_model_is_refused_without_tensorflow(tmp_path):
  for name in "litert export versions/3 hub".split():
    (tmp_path / name).mkdir(parents=True)
  (tmp_path / "litert" / "model_int8.tflite").touch()
  (tmp_path / "export" / "saved_model.pb").touch()
  (tmp_path / "hub" / "model.safetensors").touch()
  paths = [str(tmp_path / name) for name in WRONG_FOLDERS]
  done = programs.python(["-c", OPEN, *paths])
  *lines, is_loaded = done.stdout.splitlines()
  for line, message in zip(lines, WRONG_FOLDERS.values(), strict=True):
    assert re.match(message, line), line
  assert is_loaded == "False"


def test_an_export_may_be_remote(folders, tagger):
  folder = folders["tagging"]
  for path in folder.rglob("*"):
    if path.is_file():
      target = f"ram://export/{path.relative_to(folder)}"
      tf.io.gfile.makedirs(target.rpartition("/")[0])
      tf.io.gfile.copy(str(path), target)
  [answer] = Predictor("ram://export")(["ab c"])
  tasks.assert_same(answer, tagger(["ab c"])[0])


ENGINES = [
  (False, "auto", "model_float32.tflite"),
  (True, "auto", "TensorFlowEngine"),
  (False, "savedmodel", "TensorFlowEngine"),
  (True, "litert_float16", "model_float16.tflite"),
]


@pytest.mark.parametrize(("has_gpu", "engine", "expected"), ENGINES)
def test_the_engine_fits_the_machine_unless_the_user_chooses_an_engine(
  folders, monkeypatch, has_gpu, engine, expected
):
  monkeypatch.setattr("serving.formats.has_gpu", lambda: has_gpu)
  model = open_model(str(folders["tagging"]), engine).engine
  name = type(model).__name__
  result = model.name.split()[-1] if name == "LiteRtEngine" else name
  assert result == expected


def test_an_error_says_that_a_savedmodel_needs_tensorflow(folders, monkeypatch):
  monkeypatch.setitem(sys.modules, "tensorflow", None)
  with pytest.raises(UserError, match="needs TensorFlow: pip install -r"):
    open_model(str(folders["tagging"]), "savedmodel")


@pytest.fixture(name="int8")
def _int8(folders, tmp_path):
  """Copies an export that has only the int8 model; returns the folder."""
  for file in folders["tagging"].iterdir():
    is_model = file.suffix in (".pb", ".tflite")
    if file.is_file() and (not is_model or file.name == "model_int8.tflite"):
      shutil.copy(file, tmp_path)
  return tmp_path


def test_a_missing_engine_is_reported(int8):
  with pytest.raises(ValueError, match="for litert_int8, not engine=litert"):
    Predictor(int8, "litert")


def test_a_pickled_predictor_opens_its_file_in_any_folder(int8, monkeypatch):
  [answer] = Predictor(int8)(["ab c"])
  monkeypatch.chdir(int8)
  predict = Predictor(".", "litert_int8", warm_up=True)
  monkeypatch.chdir("/")
  other = pickle.loads(pickle.dumps(predict))
  assert other._answer.engine.name == predict._answer.engine.name
  assert other(["ab c"]) == [answer]


# In WSL 2, every GPU is /dev/dxg. NVIDIA's driver adds its library.
GPU_FILES = [
  ("/dev/nvidia0", True),
  ("/dev/dxg", False),
  ("/usr/lib/wsl/lib/libcuda.so.1", True),
]


@pytest.mark.parametrize(("file", "expected"), GPU_FILES)
def test_a_gpu_is_visible_if_tensorflow_can_use_it(monkeypatch, file, expected):
  def result(package=None, library=None, visible="0,1"):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    monkeypatch.setattr("serving.formats.find_spec", lambda name: package)
    monkeypatch.setattr("serving.formats.find_library", lambda name: library)
    return gpu_is_visible()

  paths = lambda pattern: fnmatch.filter([file], pattern)  # noqa: E731
  monkeypatch.setattr("glob.glob", paths)
  assert result(library="libcudnn") is expected
  assert result(package="nvidia/cudnn") is expected
  assert result() is False  # TensorFlow would use the CPU
  for visible in ("", "-1"):
    assert result(library="libcudnn", visible=visible) is False


# --- Calls, with stand-ins for models --------------------------------------


@pytest.fixture(name="opened")
def _opened(monkeypatch):
  """Replaces the functions that open a model, and records the calls."""
  opened, model = stages.Events(), Model(text=0)
  monkeypatch.setattr(opener, "open_model", opened.stage("folder", model))
  monkeypatch.setattr(opener, "load_answers", opened.stage("files", "answers"))
  monkeypatch.setattr(opener.remote, "text_model", opened.stage("url", model))
  return SimpleNamespace(calls=opened, model=model)


URL = "http://host:8501/v1/models/m"
SAFE = URL.replace("http", "https")
HOME = os.path.expanduser("~/m")
_FALSE = {"do_lower_case": False, "vocab_file": "", "top_k": 0}
_QUICK = {"files": "~/m", "timeout": 0.5}
OPENED = [
  (["/m"], {}, [("folder", "/m", "auto")]),
  (["~/m"], {}, [("folder", HOME, "auto")]),
  (["/m", "litert"], {}, [("folder", "/m", "litert")]),
  (["/m"], _FALSE, [("folder", "/m", "auto", _FALSE)]),  # but not left out
  ([URL], {"files": "f"}, [("files", "f"), ("url", URL, "answers", 30.0)]),
  ([SAFE], _QUICK, [("files", HOME), ("url", SAFE, "answers", 0.5)]),
]


@pytest.mark.parametrize(("given", "named", "expected"), OPENED)
def test_each_argument_is_used_to_open_a_model(opened, given, named, expected):
  predict = Predictor(*given, **named)
  assert predict.inputs == ["text"]
  assert opened.calls == expected
  pickle.loads(pickle.dumps(predict))  # opens the same model once more
  assert opened.calls == 2 * expected


@pytest.mark.parametrize(("given", "number"), [({}, 0), ({"warm_up": True}, 1)])
def test_a_model_is_warmed_up_only_on_request(opened, given, number):
  Predictor("m", **given)
  assert opened.model.warm_ups == number
  assert opened.model.sizes == []


@pytest.mark.parametrize(
  ("number", "given", "sizes"),
  [
    (7, {"batch_size": 3}, [3, 3, 1]),
    (300, {}, [256, 44]),  # the default batch size is 256
  ],
)
def test_batches_of_texts_are_answered_in_order(opened, number, given, sizes):
  texts = [f"text {i}" for i in range(number)]
  results = Predictor("m")(texts, **given)
  assert opened.model.sizes == sizes
  assert [result["texts"] for result in results] == [[text] for text in texts]


class _Answer:  # a dict has no weak references
  def __getitem__(self, name):
    return [[0.25, 0.5]]


def test_embed_keeps_vectors_and_no_answers(opened):
  alive, numbers = weakref.WeakSet(), []

  def stream(examples):
    for _ in examples:
      alive.add(answer := _Answer())
      numbers.append(len(alive))
      yield answer

  opened.model.stream = stream
  opened.model.settings = {"pooling": "mean"}
  opened.model.engine = SimpleNamespace(outputs={"values": [-1, 1, 2]})
  assert Predictor("m").embed(["a"] * 9).tolist() == [[0.25, 0.5]] * 9
  assert max(numbers) <= 2


@pytest.mark.parametrize("name", ["texts", "text"])
def test_an_empty_list_has_no_answer_and_a_call_needs_texts(opened, name):
  predict = Predictor("m")
  assert predict(**{name: []}) == []
  assert predict(**{name: [""]})[0]["texts"] == [""]
  for wrong in ({}, {"texts": None}, {"texts": [], "text": []}, {"text": None}):
    with pytest.raises(ValueError, match=r"text"):
      predict(**wrong)


# --- Folders of trainings, with and without run.json -------------------------


@pytest.fixture(name="restored")
def _restored(monkeypatch):
  """Returns `restore`, with a session.restore that returns its arguments."""
  monkeypatch.setattr("runs.session.restore", lambda *given: given)
  return opener.restore


def test_a_vector_is_by_default_the_mean_of_the_last_layer(tmp_path, restored):
  small_model.write(tmp_path, SPECIAL_TOKENS, max_position_embeddings=7)
  prefix, folder = shared.touch_checkpoint(tmp_path, "x"), str(tmp_path)
  _, path, entry, build, changes = restored(folder, layers="-2")
  assert (path, changes["layers"]) == (folder, "-2")
  assert build.keywords == {"of_tokens": False}
  assert changes["init_checkpoint"] == prefix
  flags = entry["flags"]
  assert (flags["layers"], flags["pooling"]) == ("-1", "mean")
  assert (flags["max_seq_length"], flags["do_lower_case"]) == (7, True)
  *_, changes = restored(folder, init_checkpoint="y")
  assert changes == {"init_checkpoint": "y"}


def test_the_last_entry_of_run_json_decides_how_to_restore(tmp_path, restored):
  for program, length in (("run_squad", 8), ("run_ner", 9)):
    entry = {"program": program, "flags": {"max_seq_length": length}}
    checkpoint_files.append_run(str(tmp_path), entry)
  _, _, entry, build, changes = restored(str(tmp_path), lstm_units=3)
  assert entry == {"program": "run_ner", "flags": {"max_seq_length": 9}}
  assert build.__module__ == "tasks.ner.task"
  assert changes == {"lstm_units": 3}
