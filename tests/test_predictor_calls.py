"""Predictor: calls, batches and arguments, with stand-ins for models."""

from types import SimpleNamespace

import pytest

from tasks import open as opener
from tasks.open import Predictor


class _Model:
  """Answers with the number of the call."""

  word_lists = frozenset()

  def __init__(self, *optional, **inputs):
    self.inputs, self.answers = inputs, self
    self.optional = frozenset(optional)
    self.sizes, self.warmed = [], 0

  def __call__(self, examples):
    self.sizes.append(len(examples))
    return [{"call": len(self.sizes), "texts": [*e.values()]} for e in examples]

  def warm_up(self):
    self.warmed += 1


@pytest.fixture(name="opened")
def _opened(monkeypatch):
  """Replaces the models of folders and servers; notes what is opened."""
  opened = []

  def note(kind, model):
    def call(*given, **named):
      opened.append((kind, *given, named))
      return model

    return call

  model = _Model(text=0)
  monkeypatch.setattr(opener, "open_model", note("folder", model))
  monkeypatch.setattr(opener, "load_answers", note("files", "answers"))
  monkeypatch.setattr(opener.remote, "text_model", note("url", model))
  opened_model = SimpleNamespace(calls=opened, model=model)
  return opened_model


URL = "http://host:8501/v1/models/m"


FLAGS = {"do_lower_case": False, "vocab_file": "", "n": 0}


def _served(files, timeout=30.0):
  return [("files", files, {}), ("url", URL, "answers", timeout, {})]


@pytest.mark.parametrize(
  ("given", "named", "expected"),
  [
    (["m"], {}, [("folder", "m", "auto", {})]),
    (["m", "litert"], {}, [("folder", "m", "litert", {})]),
    (["m"], {"engine": "savedmodel"}, [("folder", "m", "savedmodel", {})]),
    (["m"], FLAGS, [("folder", "m", "auto", FLAGS)]),
    ([URL], {"files": "f"}, _served("f")),
    ([URL], {"files": "f", "timeout": 0.5}, _served("f", 0.5)),
    ([URL], {"files": ""}, _served("")),
    ([URL], {}, None),
    ([URL], {"files": "f", "timeout": 0}, None),
    ([URL], {"files": "f", "engine": "litert"}, None),
    ([URL], {"files": "f", "do_lower_case": False}, None),
    (["m"], {"files": "f"}, None),
    (["m"], {"files": ""}, None),
  ],
)
def test_each_argument_reaches_the_model(opened, given, named, expected):
  """The argument may be False, 0 or empty."""
  if expected is None:
    with pytest.raises(ValueError, match=r"\w"):
      Predictor(*given, **named)
    return
  assert Predictor(*given, **named).inputs == ["text"]
  assert opened.calls == expected


@pytest.mark.parametrize(("given", "number"), [({}, 0), ({"warm_up": True}, 1)])
def test_a_model_is_warmed_up_if_asked(opened, given, number):
  Predictor("m", **given)
  assert opened.model.warmed == number
  assert opened.model.sizes == []


@pytest.mark.parametrize(
  ("number", "given", "sizes"),
  [
    (7, {"batch_size": 3}, [3, 3, 1]),
    (6, {"batch_size": 3}, [3, 3]),
    (2, {"batch_size": 1}, [1, 1]),
    (600, {}, [256, 256, 88]),
    (0, {}, []),
  ],
)
def test_texts_are_answered_in_batches_in_their_order(
  opened, number, given, sizes
):
  texts = [f"text {i}" for i in range(number)]
  results = Predictor("m")(texts, **given)
  assert opened.model.sizes == sizes
  assert [result["texts"] for result in results] == [[text] for text in texts]


@pytest.mark.parametrize("name", ["texts", "text"])
def test_no_text_has_no_answer_and_a_text_is_needed(opened, name):
  predict = Predictor("m")
  assert predict(**{name: []}) == []
  assert predict(**{name: [""]})[0]["texts"] == [""]
  for wrong in ({}, {"texts": None}, {"texts": [], "text": []}, {"text": None}):
    with pytest.raises(ValueError, match=r"text"):
      predict(**wrong)
