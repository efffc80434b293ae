"""visualize.py: the page in a browser, and refused input."""

import contextlib
import json
from functools import partial
from types import SimpleNamespace

import pytest

from data import labels
from data.vocab import SPECIAL_TOKENS
from modeling import models
from serving import visualization
from tests import programs, small_model, stages
from tests.serving.server import browser
from training import checkpoint

WORDS = [*SPECIAL_TOKENS, *"abcde<>/!=.하", "script", "##x"]
SIZES = {"num_hidden_layers": 2, "max_position_embeddings": 40}


@pytest.fixture(name="folder", scope="module")
def _folder(tmp_path_factory):
  """Writes a pre-trained model; returns the folder."""
  return _write(tmp_path_factory.mktemp("visualize"), models.pretrainer)


def _write(folder, make, **changes):
  folder.mkdir(exist_ok=True)
  sizes = SIZES | changes
  small_model.write(folder, WORDS, **sizes)
  model = make(small_model.config(len(WORDS), **sizes))
  checkpoint.write(str(folder / "a.ckpt"), checkpoint.variables(model))
  return folder


@pytest.fixture(name="html", scope="module")
def _html(folder):
  """Runs visualize.py once; returns the path of the page."""
  path = folder / "p.html"
  text = "ax [MASK] </script><script>document.title='x'"
  texts = {"text": text, "text_pair": "하 a"}
  programs.run("visualize", model=folder, **texts, output_file=path)
  return path


def test_the_program_writes_a_page(html):
  text = html.read_text(encoding="utf-8")
  data = json.loads(text.split('json">')[1].split("</script>")[0])
  assert data["facts"]["task"] == "pretraining"
  assert data["answer"]["is_next"] in (True, False)
  tokens = ["[CLS]", "a", "##x", "[MASK]", "<", "/", "script", ">"]
  assert data["sequences"][0]["tokens"][:8] == tokens
  assert sum(data["sequences"][0]["segments"]) == 3  # the pair: 하, a and [SEP]


def test_an_encoder_without_heads_has_a_page(tmp_path):
  path = tmp_path / "page.html"
  model = _write(tmp_path, models.encoder) / "a.ckpt"
  programs.run("visualize", model=model, text="a b", output_file=path)
  assert '"answer": {}' in path.read_text()


def test_a_checkpoint_has_the_task_of_its_run(tmp_path):
  make = partial(models.classifier, num_labels=2)
  best = _write(tmp_path / "best", make)
  other = checkpoint.variables(make(small_model.config(len(WORDS), **SIZES)))
  checkpoint.write(str(best / "b.ckpt"), other)
  (best / "checkpoint").write_text('model_checkpoint_path: "a.ckpt"')
  labels.save(["no", "yes"], str(tmp_path))
  files = {"bert_config_file": "bert_config.json", "vocab_file": "vocab.txt"}
  flags = {flag: str(best / name) for flag, name in files.items()}
  flags |= {"task_name": "tsv", "max_seq_length": 9}
  flags = programs.defaults("run_classifier") | flags
  entry = {"program": "run_classifier", "flags": flags}
  (tmp_path / "run.json").write_text(json.dumps([entry]))
  checkpoint.write(str(tmp_path / "newest.ckpt"), other)
  (tmp_path / "checkpoint").write_text('model_checkpoint_path: "newest.ckpt"')
  _add_averages(str(best / "b.ckpt"))
  weights = []
  for model in (tmp_path, best, best / "a.ckpt", best / "b.ckpt"):
    settings = programs.arguments("visualize", model=str(model), text="a")
    served = stages.program("visualize")._restore(settings)
    assert served.answers.task == "classification"
    weights.append(served.model.get_weights()[0].ravel().tolist())
  # b.ckpt is not the checkpoint that `checkpoint` names.
  assert weights[0] != weights[1] == weights[2] != weights[3]
  assert {*weights[3]} == {5.0}


def _add_averages(prefix):
  """Adds moving averages, all 5, to the variables of a checkpoint."""
  values = checkpoint.Reader(prefix)
  plain = {name: values[name] for name in values.shapes}
  averages = {k + checkpoint.AVERAGE: v * 0 + 5 for k, v in plain.items()}
  checkpoint.write(prefix, plain | averages)


@pytest.mark.parametrize("make", [models.pretrainer, models.encoder])
def test_the_page_shows_the_moving_averages_like_predictor(tmp_path, make):
  prefix = str(_write(tmp_path, make) / "a.ckpt")
  _add_averages(prefix)
  args = programs.arguments("visualize", model=prefix, text="a")
  served = stages.program("visualize")._restore(args)
  assert all((w == 5).all() for w in served.model.get_weights())


@pytest.mark.slow
@browser.installed
def test_the_page_works_without_network(html, tmp_path):
  with contextlib.closing(browser.Browser(tmp_path)) as page:
    page.open(html.as_uri())
    page.wait("document.body?.dataset.ready")
    text = page.run("document.body.innerText")
    assert "Is the second text next?" in text and "layer 1" in text
    assert page.run("document.title").endswith("- BERT")
    assert page.run("performance.getEntriesByType('resource').length") == 0
    # Each of two layers has two heads and their mean.
    assert page.run("document.querySelectorAll('#heads button').length") == 6
    page.run(
      "document.querySelector('#heads button').dispatchEvent("
      "new KeyboardEvent('keydown', {key: 'ArrowDown', bubbles: true}))"
    )
    assert page.run("byId('head-name').textContent") == "Layer 1, head 0"
    page.run(
      "document.querySelectorAll('#lines .query')[3].dispatchEvent("
      "new Event('click'))"
    )
    shown = page.run(
      "[...byId('decided').children].map((node) => node.textContent)"
    )
    assert shown == page.run("current.tokens.slice(0, current.length)")
    assert "for [MASK] 1" in page.run("byId('decision').innerText")
    assert "gradient times input" in text and "It is not a cause" in text
    token = page.run("byId('token').textContent")
    assert token.startswith("[MASK] (3) attends")
    page.run("chooseHead(1, 2)")
    assert page.run("byId('head-name').textContent") == "Layer 1, mean of heads"


# A script that collects the rows of the matrix which have a label.
LABELED = """
  const labeled = [];
  CanvasRenderingContext2D.prototype.fillText = (_, x, y) => {
    if (x < 0) labeled.push(y / cellSize() - 0.5);
  };
"""


@pytest.mark.slow
@browser.installed
def test_the_matrix_labels_every_second_token_of_a_long_text(tmp_path):
  model = _write(tmp_path, models.encoder, max_position_embeddings=300)
  path = tmp_path / "page.html"
  programs.run("visualize", model=model, text="ab " * 298, output_file=path)
  with contextlib.closing(browser.Browser(tmp_path / "browser")) as page:
    page.open(path.as_uri())
    page.wait("document.body?.dataset.ready")
    page.run(LABELED)
    page.run("showToken(null)")
    assert page.run("labeled") == list(range(0, 300, 2))
    page.run("labeled.length = 0, showToken(7)")
    # A chosen token always has a label, and hides labels that would overlap.
    assert page.run("labeled.filter((i) => 5 < i && i < 9)") == [7]


PAIR = ["text_a", "text_b"]
CHOICES = {"text": "a", "text_pair": "b", "choices": ["c", ""]}


@pytest.mark.parametrize(
  ("flags", "inputs", "expected"),
  [
    ({"text": "a"}, ["text"], {"text": "a"}),
    ({"text": "a"}, ["text", "text_pair"], {"text": "a"}),
    ({"text": "a", "text_pair": "b"}, PAIR, {"text_a": "a", "text_b": "b"}),
    ({"text": "a", "text_pair": ""}, PAIR, None),
    ({"text": "a", "question": "b"}, ["text"], None),
    ({"question": "q"}, ["question", "context"], None),
    (
      CHOICES,
      ["sent1", "sent2", "choices"],
      {"sent1": "a", "sent2": "b", "choices": ["c", ""]},
    ),
  ],
)
def test_visualize_gives_each_text_the_name_of_a_model_input(
  flags, inputs, expected, monkeypatch
):
  optional = frozenset(["text_pair"]) & {*inputs}
  answers = SimpleNamespace(inputs=dict.fromkeys(inputs, 0), optional=optional)
  served = SimpleNamespace(answers=answers)
  args = programs.arguments("visualize", model="m", **flags)
  visualize = stages.program("visualize")
  monkeypatch.setattr(visualize, "_restore", lambda _: served)

  def encode(_, texts):  # the end of this test
    raise KeyError(texts)

  monkeypatch.setattr(visualization, "encode", encode)
  message = None if expected else "the model in m takes "
  error = KeyError if expected else ValueError
  with pytest.raises(error, match=message) as raised:
    visualize.main(args)
  assert not expected or raised.value.args == (expected,)
