"""The page in a real browser, with answers in the format of the exports."""

import json
import re
import shlex

import pytest

from serving.server.models import Model
from serving.server.version import Spec, Workers
from tests.serving.server import browser, stand_in

pytestmark = [pytest.mark.slow, browser.installed]
EVIL = "<img src=x onerror=\"document.title='evil'\"><b>b</b>"


def _find_answer(texts):
  answer = texts["question"]
  start = texts["context"].find(answer)
  end = start + len(answer)
  if start < 0:
    answer, end = "", -1
  return {"answer": answer, "start": start, "end": end, "probability": 0.75}


TAGS = {"Ada": "B-PER", "Li": "I-PER", "Al": "B-PER", "Oslo": "B-LOC"}
ENTITIES = {"Ada  Li": "PER", "Al": "PER", "Oslo": "LOC"}


def _tag(texts):
  text = texts["tokens"]
  matches = [*re.finditer(r"[\w<>/]+|[^\w\s]", text)]
  entities = [
    {"label": label, "start": start, "end": start + len(name)}
    | {"probability": 0.75}
    for name, label in ENTITIES.items()
    if (start := text.find(name)) >= 0
  ]
  return {
    "words": [match[0] for match in matches],
    "tags": [TAGS.get(match[0], "-") for match in matches],
    "start": [match.start() for match in matches],
    "end": [match.end() for match in matches],
    "labels": ["-", *TAGS.values()],
    "entities": entities,
    "outside": "-",
  }


def _fill(texts):
  count = texts["text"].count("[MASK]")
  answer = {"tokens": [["<i>one</i>", "two"]] * count, "num_masks": count}
  answer["probabilities"] = [[0.9, 0.05]] * count
  if pair := texts.get("text_pair"):
    is_next, probability = (None, None) if pair == "no head" else (True, 0.625)
    answer |= {"is_next": is_next, "is_next_probability": probability}
  return answer


def _choose(texts):
  *others, last = texts["choices"]
  probs = [*[0.1] * len(others), 0.7]
  return {"choice": len(others), "text": last, "probabilities": probs}


LABELED = {"label": "good", "labels": ["bad", "good"]}
LABELED["probabilities"] = [0.2, 0.8]
VECTORS = {"tokens": ["[CLS]", "<b>", "[SEP]"], "num_tokens": 3}
VECTORS |= {"token_vectors": [[[0.5] * 16] * 2] * 3}
VECTORS |= (POOLED := {"sentence": [[0.125] * 16] * 2})
# Each model's answer, inputs and task, and its first example.
NAMES = "Ada Lovelace, the mathematician, lived in London."
RIVER = "She sat by the river."
TASKS = {
  "questions": (
    _find_answer, "question context", "squad", "Where was Ada born?"
  ),
  "names": (_tag, "tokens", "ner", NAMES),
  "masks": (
    _fill, "text text_pair", "pretraining", "The capital of France is [MASK]."
  ),
  "labels": (
    lambda texts: LABELED, "text_a text_b", "classification", "He said so."
  ),
  "choices": (
    _choose, "sent1 sent2 choices", "multiple choice", "She opens the door."
  ),
  "scores": (lambda texts: {"score": 3.14159}, "text", "classification", ""),
  "vectors": (lambda texts: VECTORS, "text", "features", RIVER),
  "pooled": (lambda texts: POOLED, "text", "features", RIVER),
}  # fmt: skip


class _Version:
  def __init__(self, answer, inputs, task, _):
    specs = {
      name: Spec("string", 1 + (name == "choices"), name == "text_pair")
      for name in inputs.split()
    }
    self.specs = {"serving_default": specs}
    self.functions = {"serving_default": lambda rows: [*map(answer, rows)]}
    self.signature_def = {"serving_default": {"inputs": dict.fromkeys(specs)}}
    self.facts = {"task": task, "layers": None, "labels": [EVIL] * 21}
    self.workers = Workers(64, 1)


@pytest.fixture(name="page", scope="module")
def _page(tmp_path_factory):
  folder = tmp_path_factory.mktemp("models")
  (folder / "1").mkdir()
  models = [
    Model(name, str(folder), 1, lambda path, task=task: _Version(*task))
    for name, task in TASKS.items()
  ]
  for model in models:
    model.poll()
  page = browser.Browser(tmp_path_factory.mktemp("browser"))
  settings = stand_in.SETTINGS._replace(read_timeout=30)
  with stand_in.running(models, settings) as client:
    page.open(f"http://ann:secret@127.0.0.1:{client.port}/")
    page.wait("document.querySelectorAll('textarea').length === 2")
    yield page
    page.open("about:blank")
  page.close()


def _inputs(model):
  return TASKS[model][1].split()


def _choose_model(page, model):
  page.run(
    f"byId('model').value = {json.dumps(model)};"
    "byId('inputs').replaceChildren();"
    "byId('model').dispatchEvent(new Event('change'))"
  )
  count = len(_inputs(model))
  page.wait(f"document.querySelectorAll('textarea').length === {count}")


def _ask(page, model, *texts):
  """Submits texts on the page and returns the displayed answer."""
  _choose_model(page, model)
  for name, text in zip(_inputs(model), texts, strict=True):
    page.run(f"byId('input-{name}').value = {json.dumps(text)}")
  page.run("byId('ask').click()")
  page.wait(
    "byId('status').textContent.match(/ms$/) || byId('status').className"
  )
  return page.run("byId('answer').innerText")


def _best(page):
  return page.run("document.querySelector('.best').innerText").split()[0]


def test_an_answer_is_marked_in_its_context(page):
  context = "😀 né <b>Ada</b> in Riga"
  assert "75.0 %" in _ask(page, "questions", "Riga", context)
  assert page.run("document.querySelector('mark').textContent") == "Riga"
  assert page.run("document.querySelector('.text').textContent") == context


RUBIES = "[...document.querySelectorAll('ruby')]"


def test_entities_of_one_type_have_one_color(page):
  _ask(page, "names", "Ada  Li, Al (Oslo) met 😀.")
  texts = page.run(f"{RUBIES}.map((ruby) => ruby.textContent)")
  names = ["Ada LiPER", ",", "AlPER", "(", "OsloLOC", ")", "met", "😀", "."]
  assert texts == names
  words = "document.querySelector('.words').textContent"
  assert page.run(words) == "Ada LiPER, AlPER (OsloLOC) met 😀."
  first, second, third = page.run(
    "[...document.querySelectorAll('.entity')].map((ruby) =>"
    " getComputedStyle(ruby).backgroundColor + ruby.title)"
  )
  assert first == second != third and "75.0 %" in third


SHAPE = "A vector of 16 numbers from each of 2 layer(s)"
PARTS = [
  ("names", ["met in"], ["No entity in this text."]),
  ("questions", ["Oslo", "in Riga"], ["No answer in this context."]),
  ("masks", ["a [MASK] c [MASK]", ""], ["<i>one</i>", "[MASK] 2"]),
  ("masks", ["a", "b"], ["IsNext", "62.5 %"]),
  ("masks", ["a", "no head"], ["The model has no head for next sentences."]),
  ("scores", ["a"], ["3.142"]),
  ("pooled", ["a"], [SHAPE, "0.125, 0.125"]),
  ("vectors", ["a"], ["each of 3 tokens: [CLS] <b> [SEP]."]),
]


@pytest.mark.parametrize(("model", "texts", "parts"), PARTS)
def test_the_page_shows_the_answer_of_each_task(page, model, texts, parts):
  text = _ask(page, model, *texts)
  assert all(part in text for part in parts) and len(text) < 300


def test_a_bar_shows_the_probability_of_each_label_and_choice(page):
  _ask(page, "labels", "a", "b")
  values = "[...document.querySelectorAll('meter')].map((m) => m.value)"
  assert page.run(values) == [0.2, 0.8]
  assert _best(page) == "good"
  text = _ask(page, "choices", "a", "b", "one\n\ntwo\n")
  lines = [line for line in text.split("\n") if "%" not in line]
  assert lines == ["one", "two"]
  assert _best(page) == "two"


@pytest.mark.parametrize("model", [name for name in TASKS if name != "scores"])
def test_each_model_has_a_title_and_an_example(page, model):
  _choose_model(page, model)
  *_, task, example = TASKS[model]
  assert page.run("document.title") == f"{model} - BERT"
  facts = page.run("byId('facts').innerText").split("\n")
  assert facts == ["task", task, "labels", f"{EVIL}, " * 20 + "..."]
  first = f"byId('input-{_inputs(model)[0]}').value"
  assert page.run(first) == example
  page.run("byId('examples').lastChild.click()")
  assert page.run(first) not in ("", example)
  page.run("byId('ask').click()")
  page.wait("byId('status').textContent.match(/ms$/)")
  assert page.run("byId('answer').innerText")


def test_the_shown_command_sends_the_texts(page):
  texts = ["it's $HOME \\ 'so'", 'é\n"b" !']
  _ask(page, "labels", *texts)
  command = page.run("byId('curl').textContent")
  curl, flag, body, url = shlex.split(command)
  assert (curl, flag) == ("curl", "-d")
  row = dict(zip(["text_a", "text_b"], texts, strict=True))
  assert json.loads(body) == {"instances": [row]}
  assert url == page.run("location.origin") + "/v1/models/labels:predict"
  page.run("document.querySelector('details').open = true")
  page.run("byId('copy').click()")
  assert page.run("getSelection().toString()") == command


@pytest.mark.parametrize("late", ["end()", "fail(new Error('late'))"])
def test_a_late_answer_or_error_does_not_replace_a_newer_answer(page, late):
  _choose_model(page, "names")
  ask = "byId('input-tokens').value = '%s'; byId('form').requestSubmit()"
  page.run(
    "usual = fetch; fetch = (...given) => new Promise((yes, no) => {"
    " end = () => usual(...given).then(yes); fail = no; })"
  )
  page.run(ask % "Late Ada")
  page.run("fetch = usual")
  page.run(ask % "Ada soon")
  page.wait("byId('status').textContent.match(/ms$/)")
  page.run(f"{late}; 0")
  page.run("new Promise((done) => setTimeout(done, 500))")
  assert "soon" in page.run("byId('answer').innerText")
  assert page.run("byId('status').className") == ""


def test_a_link_fills_in_the_texts_and_gets_the_answer(page):
  endings = ["one", "two & 'three' <b>"]
  _ask(page, "choices", "a=b", "#c", "\n".join(endings))
  link = page.run("location.href")
  assert page.run("byId('link').href") == link
  _choose_model(page, "names")
  page.run("location.hash = 'model=none'")
  page.wait("byId('status').textContent.startsWith('The link asks')")
  page.run(f"location.hash = new URL({json.dumps(link)}).hash")
  page.wait("byId('status').textContent.match(/ms$/)")
  assert page.run("byId('input-sent1').value") == "a=b"
  answer = page.run("byId('answer').innerText")
  assert [line for line in answer.split("\n") if "%" not in line] == endings


def test_a_model_that_is_loading_is_asked_only_when_its_inputs_are_there(page):
  text = json.dumps({"error": "model vectors is loading: try again later"})
  page.run(
    f"usual = fetch; tries = 0; busy = () => new Response({json.dumps(text)},"
    "{ status: 503 }); fetch = (...given) => new Promise((yes) => {"
    "  const answer = tries++ < 2 ? busy : () => usual(...given);"
    "  setTimeout(() => yes(answer()), 200); })"
  )
  page.run(
    "byId('model').value = 'vectors';"
    "byId('model').dispatchEvent(new Event('change')); byId('ask').click()"
  )
  page.wait("byId('status').className === 'error'")
  assert page.run("byId('ask').disabled")
  page.wait("document.querySelectorAll('textarea').length === 1")
  page.run("fetch = usual")
  page.wait("!byId('ask').disabled")
  assert page.run("byId('status').textContent") == ""
  assert page.run("document.title") == "vectors - BERT"


@pytest.mark.parametrize("model", TASKS)
def test_html_in_texts_stays_text(page, model):
  _ask(page, model, *[EVIL] * len(_inputs(model)))
  assert page.run("document.title") == f"{model} - BERT"
  elements = "document.querySelectorAll('#answer img, #answer b')"
  assert page.run(f"{elements}.length") == 0


@pytest.mark.parametrize("body", ["<html>", '{"message": "no"}', "null"])
def test_an_error_of_a_proxy_is_named(page, body):
  _choose_model(page, "names")
  answer = f"new Response({json.dumps(body)}, {{ status: 502 }})"
  page.run(f"usual = fetch; fetch = async () => {answer}")
  page.run("byId('form').requestSubmit()")
  page.wait("byId('status').textContent.startsWith('Not the server but a pr')")
  page.run("fetch = usual")


def test_the_page_shows_an_error(page):
  _ask(page, "labels", "a" * 20_000, "b")
  message = page.run("byId('status').textContent")
  assert message == "the request has more than 10000 bytes (max_request_bytes)"
  assert page.run("byId('status').className") == "error"
  assert page.run("byId('ask').disabled") is False
