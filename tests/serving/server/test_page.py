"""The page, in a real browser, with answers as the tasks' exports give them."""

import json

import pytest

from serving.server.models import Model
from serving.server.rest import Spec
from serving.server.version import Workers
from tests.serving.server import browser, stand_in

pytestmark = [
  pytest.mark.slow,
  pytest.mark.skipif(
    not browser.find(), reason="needs a browser: apt-get install chromium"
  ),
]
EVIL = "<img src=x onerror=\"document.title='evil'\"><b>b</b>"


def _find_answer(texts):
  question, context = texts["question"], texts["context"]
  start = context.find(question)
  return {
    "answer": question if start >= 0 else "",
    "start": start,
    "end": start + len(question) if start >= 0 else -1,
    "probability": 0.75,
  }


def _tag(texts):
  words = texts["tokens"].split()
  tags = ["B-PER" if word[:1].isupper() else "O" for word in words]
  return {"words": words, "tags": tags, "num_words": len(words)}


def _fill(texts):
  count = texts["text"].count("[MASK]")
  answer = {
    "tokens": [["<i>one</i>", "two"]] * count,
    "probabilities": [[0.9, 0.05]] * count,
    "num_masks": count,
  }
  if pair := texts.get("text_pair"):
    is_known = pair != "no head"
    answer["is_next"] = True if is_known else None
    answer["is_next_probability"] = 0.625 if is_known else None
  return answer


def _label(texts):
  return {
    "label": "good",
    "labels": ["bad", "good"],
    "probabilities": [0.2, 0.8],
  }


def _choose(texts):
  endings = texts["choices"]
  return {
    "choice": len(endings) - 1,
    "text": endings[-1],
    "probabilities": [*[0.1] * (len(endings) - 1), 0.7],
  }


def _embed(texts):
  return {
    "sentence": [[0.125] * 16] * 2,
    "token_vectors": [[[0.5] * 16] * 2] * 3,
    "tokens": ["[CLS]", "<b>", "[SEP]"],
    "num_tokens": 3,
  }


TASKS = {
  "questions": (_find_answer, ["question", "context"]),
  "names": (_tag, ["tokens"]),
  "masks": (_fill, ["text", "text_pair"]),
  "labels": (_label, ["text_a", "text_b"]),
  "choices": (_choose, ["sent1", "sent2", "choices"]),
  "scores": (lambda texts: {"score": 3.14159}, ["text"]),
  "vectors": (_embed, ["text"]),
}


class _Version:
  def __init__(self, answer, inputs):
    self.specs = {
      "serving_default": {
        name: Spec(
          "string", [None] * (1 + (name == "choices")), name[-5:] == "_pair"
        )
        for name in inputs
      }
    }
    self.functions = {
      "serving_default": lambda examples: [answer(texts) for texts in examples]
    }
    self.signature_def = {"serving_default": {"inputs": dict.fromkeys(inputs)}}
    self.workers = Workers(64, 1)


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


def test_tags_stand_over_words(page):
  _ask(page, "names", tokens="Ada met <b>Bo</b>")
  script = "[...document.querySelectorAll('ruby')].map((r) => r.textContent)"
  assert page.run(script) == ["AdaB-PER", "met", "<b>Bo</b>"]


@pytest.mark.parametrize(
  ("model", "texts", "parts"),
  [
    (
      "questions",
      {"question": "Oslo", "context": "in Riga"},
      ["No answer in this context."],
    ),
    (
      "masks",
      {"text": "a [MASK] c [MASK]", "text_pair": ""},
      ["<i>one</i>", "[MASK] 2"],
    ),
    (
      "masks",
      {"text": "no mask", "text_pair": ""},
      ["There is no [MASK] in the text."],
    ),
    ("masks", {"text": "a", "text_pair": "b"}, ["IsNext", "62.5 %"]),
    (
      "masks",
      {"text": "a", "text_pair": "no head"},
      ["The model has no head for next sentences."],
    ),
    ("scores", {"text": "a"}, ["3.142"]),
    (
      "vectors",
      {"text": "a"},
      [
        "A vector of 16 numbers from each of 2 layer(s)",
        "each of 3 tokens: [CLS] <b> [SEP].",
        "0.125, 0.125",
      ],
    ),
  ],
)
def test_an_answer_in_words(page, model, texts, parts):
  text = _ask(page, model, **texts)
  assert all(part in text for part in parts) and len(text) < 300


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


@pytest.mark.parametrize("model", TASKS)
def test_each_model_has_a_title_and_an_example(page, model):
  page.run(
    f"byId('model').value = {json.dumps(model)};"
    "byId('inputs').replaceChildren();"
    "byId('model').dispatchEvent(new Event('change'))"
  )
  page.wait("document.querySelectorAll('textarea').length")
  assert page.run("document.title") == f"{model} - BERT"
  page.run("byId('ask').click()")
  page.wait("byId('status').textContent.match(/ms$/)")
  assert page.run("byId('answer').innerText")


def test_a_server_that_is_gone_is_named(tmp_path_factory):
  folder = tmp_path_factory.mktemp("models")
  (folder / "1").mkdir()
  model = Model(
    "labels", str(folder), 1, lambda path: _Version(*TASKS["labels"])
  )
  model.poll()
  page = browser.Browser(tmp_path_factory.mktemp("browser"))
  with stand_in.running([model]) as client:
    page.open(f"http://127.0.0.1:{client.port}/")
    page.wait("document.querySelectorAll('textarea').length === 2")
  page.run("byId('ask').click()")
  page.wait("byId('status').className")
  message = page.run("byId('status').textContent")
  page.close()
  assert message == "The server does not answer: is it still running?"


@pytest.mark.parametrize("model", TASKS)
def test_html_in_texts_stays_text(page, model):
  _ask(page, model, **dict.fromkeys(TASKS[model][1], EVIL))
  assert page.run("document.title") == f"{model} - BERT"
  assert (
    page.run("document.querySelectorAll('#answer img, #answer b').length") == 0
  )


def test_an_error_is_shown(page):
  _ask(page, "labels", text_a="a" * 20_000, text_b="b")
  message = page.run("byId('status').textContent")
  assert message == "the request has more than 10000 bytes"
  assert page.run("byId('status').className") == "error"
  assert page.run("byId('ask').disabled") is False
