"""LiteRT exports answer raw text as SavedModels do, without TensorFlow."""

import json
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from data import vocab
from data.tokenization_ops import GraphTokenizer
from predictor import Predictor
from serving import export, litert
from serving.export import ServedModel, Signature
from tests.serving import stand_in, tasks

TEXTS = ["ab c", "a b . c d e a b c d e", "abcde", "e [MASK] a [MASK]"]
LABELS = {"classification": tasks.LABELS, "tagging": ("O", "B-X", "I-X")}
NAMES = (
  *("classification", "classification of pairs", "tagging", "questions"),
  *("questions by three", "choices", "masks", "vectors"),
)


def save_litert(folder, model, task, labels):
  """Exports a model as run.export does."""
  vocab.save(stand_in.WORDS, folder / "words.txt")
  export.save_tflite(str(folder), model)
  words = str(folder / "words.txt")
  export.save_tokenizer(str(folder), words, True, tasks.T, labels)
  export.save_task(str(folder), task)


@pytest.fixture(name="export_of", scope="module")
def _export_of(tmp_path_factory):
  """Makes the LiteRT export of a task, once; returns it with its model."""
  everything = tasks.Everything(GraphTokenizer(stand_in.VOCABULARY))
  done = {}

  def make(name):
    if name not in done:
      folder = tmp_path_factory.mktemp("litert")
      labels = LABELS.get(name.split()[0])
      save_litert(folder, *everything[name], labels)
      done[name] = folder, ServedModel(*everything[name], labels)
    return done[name]

  return make


def _columns(predict, name):
  if name == "choices":
    endings = [[text, "ab", ""] for text in "abcd"]
    return {"sent1": ["a b", "", "cd", "e"], "sent2": TEXTS, "choices": endings}
  return {
    key: TEXTS[number:] + TEXTS[:number]
    for number, key in enumerate(predict.inputs)
  }


@pytest.mark.parametrize(
  "name",
  [
    "classification",
    *(pytest.param(name, marks=pytest.mark.slow) for name in NAMES[1:]),
  ],
)
def test_answers_are_those_of_the_savedmodel(export_of, name):
  folder, served = export_of(name)
  predict = Predictor(folder)
  columns = _columns(predict, name)
  results = predict(**columns)
  ask = Signature.of(served)
  assert ask.ranks == dict(sorted(predict._ranks.items()))
  rows = zip(*(columns[name] for name in sorted(columns)), strict=True)
  for result, row in zip(results, rows, strict=True):
    tasks.assert_same(result, *ask([row]))


@pytest.mark.slow
def test_texts_that_nobody_should_send(export_of):
  texts = ["", " \t", "\x00", "\ufffd" * 3, "a" * 1000, b"\xff a"]
  for name in NAMES:
    if name != "choices":
      predict = Predictor(export_of(name)[0])
      columns = dict.fromkeys(predict.inputs, texts)
      assert len(predict(**columns)) == len(texts)


def test_another_of_its_models_is_named_by_its_file(export_of):
  folder, _ = export_of("classification")
  [expected] = Predictor(folder)(["ab c"])
  for kind in ("float16", "int8"):
    [result] = Predictor(folder / f"model_{kind}.tflite", warm_up=True)(
      ["ab c"]
    )
    np.testing.assert_allclose(
      result["probabilities"], expected["probabilities"], atol=0.1
    )
  with pytest.raises(ValueError, match="is an export, whose flags"):
    Predictor(folder, max_seq_length=3)


@pytest.mark.parametrize("kind", ["float32", "int8"])
def test_several_texts_at_the_same_time_change_no_bit(export_of, kind):
  predict = Predictor(
    export_of("classification")[0] / f"model_{kind}.tflite", warm_up=True
  )
  texts = ["ab " * n for n in range(20)]
  expected = [predict([text])[0] for text in texts]
  with ThreadPoolExecutor(3) as pool:  # callers need not take turns either
    others = [pool.submit(predict, texts) for _ in range(3)]
    assert predict(texts) == expected
    assert all(other.result() == expected for other in others)


def test_an_export_of_an_earlier_version_is_named(tmp_path):
  (tmp_path / "model_float32.tflite").write_bytes(b"")
  with pytest.raises(
    ValueError, match=r"no task\.json.*export the model again"
  ):
    Predictor(tmp_path / "model_float32.tflite")


def test_a_task_is_one_of_the_known_ones(export_of, tmp_path):
  shutil.copytree(export_of("classification")[0], tmp_path, dirs_exist_ok=True)
  (tmp_path / litert.SETTINGS).write_text('{"task": "os"}')
  with pytest.raises(ValueError, match="the task 'os', not one of"):
    Predictor(tmp_path / "model_float32.tflite")


@pytest.mark.parametrize(
  "names",
  [NAMES[:1], pytest.param(NAMES[1:], marks=pytest.mark.slow)],
  ids=["classification", "others"],
)
def test_no_tensorflow_is_imported(export_of, names):
  program = """if True:
    import json, sys

    class Blocked:
      def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("tensorflow", "keras"):
          raise ImportError(name)

    sys.meta_path.insert(0, Blocked())
    from predictor import Predictor

    predict = Predictor(sys.argv[1])
    texts = {name: ["ab c [MASK]"] for name in predict.inputs}
    if "choices" in texts:
      texts["choices"] = [["ab", "c"]]
    print(json.dumps(predict(**texts)))
  """
  pytest.importorskip("ai_edge_litert")
  for name in names:
    folder, _ = export_of(name)
    done = subprocess.run(
      [sys.executable, "-c", program, str(folder)],
      stdout=subprocess.PIPE,
      check=True,
    )
    assert len(json.loads(done.stdout)) == 1


@pytest.mark.parametrize(
  ("name", "content"),
  [("task.json", "[]"), ("task.json", "{"), ("model_float32.tflite", "[]")],
)
def test_a_damaged_file_is_named(tmp_path, name, content):
  contents = {
    "task.json": '{"task": "classification"}',
    "tokenizer_config.json": '{"do_lower_case": true, "model_max_length": 8}',
    "model_float32.tflite": "",
    "vocab.txt": "[PAD]\n[UNK]\n[CLS]\n[SEP]\n",
    name: content,
  }
  for file, text in contents.items():
    (tmp_path / file).write_text(text)
  with pytest.raises(ValueError, match=f"{name} is damaged, export"):
    Predictor(tmp_path / "model_float32.tflite")
