"""Exports asked from Python: plain values, in order, whatever the batches."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from data.tokenization_ops import GraphTokenizer
from predictor import Predictor
from tests.serving import stand_in, tasks
from training import export

TEXTS = ["ab c", "", "a b c d e", "abcde", "a \x00", "e e e e e e e e e e e e"]
NAMES = (
  "classification",
  "classification of pairs",
  "tagging",
  "choices",
  "masks",
)


@pytest.fixture(name="exports", scope="module")
def _exports(tmp_path_factory):
  """Predictors by the name of the task."""
  keras.utils.set_random_seed(1)
  tokenizer = GraphTokenizer(stand_in.VOCABULARY)
  everything = tasks.everything(tokenizer)
  found = {}
  for name in NAMES:
    folder = str(tmp_path_factory.mktemp("export") / "1")
    export.save(folder, *everything[name])
    found[name] = Predictor(folder)
  return found


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


def _same(found, wanted):
  assert found.keys() == wanted.keys()
  for name, value in wanted.items():
    if np.asarray(value).dtype.kind == "f":
      np.testing.assert_allclose(found[name], value, atol=1e-5)
    else:
      assert found[name] == value, name


@pytest.mark.parametrize("name", NAMES)
def test_batches_change_nothing(exports, name):
  predict = exports[name]
  columns = _columns(predict, name)
  together = predict(**columns)
  assert len(together) == len(TEXTS)
  for size in (1, 4):
    for found, wanted in zip(
      predict(batch_size=size, **columns), together, strict=True
    ):
      _same(found, wanted)
  empty = {name: [] for name in columns}
  assert predict(**empty) == []


def test_values_are_plain(exports):
  (answer,) = exports["classification"](["ab c"])
  assert sorted(answer) == ["label", "labels", "probabilities"]
  assert answer["labels"] == list(tasks.LABELS)
  best = int(np.argmax(answer["probabilities"]))
  assert answer["label"] == tasks.LABELS[best]
  assert all(type(value) is float for value in answer["probabilities"])
  assert sum(answer["probabilities"]) == pytest.approx(1.0)


def test_what_fills_up_a_batch_is_left_out(exports):
  short, long = exports["tagging"](["ab c", "a b c d e"])
  assert short["words"] == ["ab", "c"]
  assert len(short["tags"]) == len(short["probabilities"]) == 2
  assert short["begin"] == [0, 3]
  assert len(long["tags"]) == 5
  assert short["labels"] == ["O", "B-X", "I-X"]


def test_what_it_says_when_it_is_asked_for_something_else(exports, tmp_path):
  single = exports["classification"]
  pairs = exports["classification of pairs"]
  with pytest.raises(ValueError, match=r"takes text_a=\[...\], text_b=\[...\]"):
    pairs(["a"])
  with pytest.raises(ValueError, match=r"takes text=\[...\]$"):
    single(question=["a"])
  with pytest.raises(ValueError, match="a list of texts is wanted"):
    single("a")
  with pytest.raises(ValueError, match="zip"):
    pairs(text_a=["a"], text_b=["a", "b"])
  with pytest.raises(
    ValueError, match=r"no SavedModel and no run\.json in .*--do_export"
  ):
    Predictor(str(tmp_path))


def test_it_is_the_signature_that_answers(exports):
  texts = TEXTS[::-1]
  predict = exports["masks"]
  found = predict([f"{text} [MASK]" for text in texts], batch_size=2)
  asked = predict._function(
    text=tf.constant([f"{text} [MASK]" for text in texts])
  )
  for row, answer in enumerate(found):
    count = int(asked["num_masks"][row])
    wanted = asked["tokens"][row, :count].numpy().tolist()
    assert answer["tokens"] == [[t.decode() for t in ts] for ts in wanted]
