"""The page, in a real browser, with answers as the tasks' exports give them."""

import json

import numpy as np
import pytest
import tensorflow as tf

from serving.server.batching import Batcher, Function
from serving.server.models import Model
from tests.serving.server import browser, stand_in

pytestmark = [
  pytest.mark.slow,
  pytest.mark.skipif(
    not browser.find(), reason="needs a browser: apt-get install chromium"
  ),
]
EVIL = "<img src=x onerror=\"document.title='evil'\"><b>b</b>"


def _strings(*values):
  return np.array(values, object)


def _find_answer(inputs):
  [question], [context] = inputs["question"], inputs["context"]
  text = context.decode()
  start = text.find(question.decode())
  answer = question if start >= 0 else b""
  return {
    "answer": _strings(answer),
    "start": np.array([start]),
    "end": np.array([start + len(answer.decode()) if start >= 0 else -1]),
    "probability": np.array([0.75], np.float32),
  }


def _tag(inputs):
  words = inputs["tokens"][0].split()
  tags = [b"B-PER" if word[:1].isupper() else b"O" for word in words]
  return {
    "words": np.array([[*words, b""]], object),
    "tags": np.array([[*tags, b""]], object),
    "num_words": np.array([len(words)]),
  }


def _fill(inputs):
  count = inputs["text"][0].count(b"[MASK]")
  return {
    "tokens": np.array([[[b"<i>one</i>", b"two"]] * (count + 1)], object),
    "probabilities": np.array([[[0.9, 0.05]] * (count + 1)], np.float32),
    "num_masks": np.array([count]),
  }


def _label(inputs):
  return {
    "label": _strings(b"good"),
    "labels": np.array([[b"bad", b"good"]], object),
    "probabilities": np.array([[0.2, 0.8]], np.float32),
  }


def _choose(inputs):
  number = inputs["choices"].shape[1]
  probabilities = np.full((1, number), 0.1, np.float32)
  probabilities[0, -1] = 0.7
  return {
    "choice": np.array([number - 1]),
    "text": inputs["choices"][:, -1],
    "probabilities": probabilities,
  }


TASKS = {
  "questions": (_find_answer, ["question", "context"]),
  "names": (_tag, ["tokens"]),
  "masks": (_fill, ["text"]),
  "labels": (_label, ["text_a", "text_b"]),
  "choices": (_choose, ["sent1", "sent2", "choices"]),
  "scores": (lambda inputs: {"score": np.array([3.14159])}, ["text"]),
  "vectors": (lambda inputs: {"a": np.ones((1, 2)), "b": np.ones(1)}, ["text"]),
}


class _Version:
  def __init__(self, run, inputs):
    self.specs = {
      "serving_default": {
        name: tf.TensorSpec([None] * (1 + (name == "choices")), tf.string)
        for name in inputs
      }
    }
    self.functions = {"serving_default": Function(run)}
    self.signature_def = {"serving_default": {"inputs": dict.fromkeys(inputs)}}
    self.batcher = Batcher(32, 0.0, 64)


@pytest.fixture(name="page", scope="module")
def _page(tmp_path_factory):
  folder = tmp_path_factory.mktemp("models")
  (folder / "1").mkdir()
  models = []
  for name, task in TASKS.items():
    load = lambda path, task=task: _Version(*task)  # noqa: E731
    models.append(Model(name, str(folder), 1, load))
    models[-1].poll()
  page = browser.Browser(tmp_path_factory.mktemp("browser"))
  settings = stand_in.SETTINGS._replace(read_timeout=30)
  with stand_in.running(models, settings) as client:
    page.open(f"http://127.0.0.1:{client.port}/")
    page.wait("document.querySelectorAll('textarea').length === 2")
    yield page
    page.open("about:blank")
  page.close()


def _ask(page, model, **texts):
  """Asks on the page; returns the text of the answer when it is there."""
  page.run(
    f"byId('model').value = {json.dumps(model)};"
    "byId('inputs').replaceChildren();"
    "byId('model').dispatchEvent(new Event('change'))"
  )
  count = f"document.querySelectorAll('textarea').length === {len(texts)}"
  page.wait(count)
  for name, text in texts.items():
    page.run(f"byId('input-{name}').value = {json.dumps(text)}")
  page.run("byId('ask').click()")
  page.wait(
    "byId('status').textContent.match(/ms$/) || byId('status').className"
  )
  return page.run("byId('answer').innerText")


def test_an_answer_is_marked_in_its_context(page):
  context = "😀 né <b>Ada</b> in Riga"
  _ask(page, "questions", question="Riga", context=context)
  assert page.run("document.querySelector('mark').textContent") == "Riga"
  assert page.run("document.querySelector('.text').textContent") == context
  assert "75.0 %" in page.run("byId('answer').innerText")


def test_no_answer_is_said(page):
  text = _ask(page, "questions", question="Oslo", context="in Riga")
  assert "No answer in this context." in text
  assert page.run("document.querySelector('mark')") is None


def test_tags_stand_over_words(page):
  _ask(page, "names", tokens="Ada met <b>Bo</b>")
  script = "[...document.querySelectorAll('ruby')].map((r) => r.textContent)"
  assert page.run(script) == ["AdaB-PER", "met", "<b>Bo</b>"]


def test_each_mask_has_its_tokens(page):
  text = _ask(page, "masks", text="a [MASK] c [MASK]")
  assert text.count("<i>one</i>") == 2 and "[MASK] 2" in text
  text = _ask(page, "masks", text="no mask")
  assert "There is no [MASK] in the text." in text


def test_labels_have_bars(page):
  _ask(page, "labels", text_a="a", text_b="b")
  values = "[...document.querySelectorAll('meter')].map((m) => m.value)"
  assert page.run(values) == [0.2, 0.8]
  assert page.run("document.querySelector('.best').innerText").startswith(
    "good"
  )


def test_choices_have_bars(page):
  text = _ask(page, "choices", sent1="a", sent2="b", choices="one\n\ntwo\n")
  assert [line for line in text.split("\n") if "%" not in line] == [
    "one",
    "two",
  ]
  assert page.run("document.querySelector('.best').innerText").startswith("two")


def test_scores_and_vectors(page):
  assert _ask(page, "scores", text="a") == "3.142"
  assert json.loads(_ask(page, "vectors", text="a")) == {"a": [1, 1], "b": 1}


@pytest.mark.parametrize("model", TASKS)
def test_html_in_texts_stays_text(page, model):
  _ask(page, model, **dict.fromkeys(TASKS[model][1], EVIL))
  assert page.run("document.title") == "BERT"
  assert (
    page.run("document.querySelectorAll('#answer img, #answer b').length") == 0
  )


def test_an_error_is_shown(page):
  _ask(page, "labels", text_a="a" * 20_000, text_b="b")
  message = page.run("byId('status').textContent")
  assert message == "the request has more than 10000 bytes"
  assert page.run("byId('status').className") == "error"
  assert page.run("byId('ask').disabled") is False
