"""The command line of predictor.py, with a stand-in for the model."""

import json
import os
from functools import partial
from types import SimpleNamespace

import pytest
from absl import flags

import predictor
from cli import settings
from storage import UserError


class Model:
  """A model that answers with its texts, sorted by name, and its batch size."""

  def __init__(self, **inputs):
    self.inputs, self.answers = inputs, self
    self.optional = frozenset(["text_pair"]) & frozenset(inputs)
    self.word_lists = frozenset()
    self.sizes, self.warm_ups = [], 0  # `sizes`: number of texts in each call

  def warm_up(self):
    self.warm_ups += 1

  def __call__(self, examples):
    self.sizes.append(len(examples))
    return [
      {"texts": [e[n] for n in sorted(e)], "size": len(examples)}
      for e in examples
    ]


# An input takes a text (0) or a list of texts (1).
Pairs = partial(Model, text_a=0, text_b=0)
Single = partial(Model, tokens=0)
Choices = partial(Model, choices=1, sent1=0, sent2=0)
Masks = partial(Model, text=0, text_pair=0)
CHOICE_TEXTS = [["c", "d"], "a", "b"]
TAKES_TOKENS = r"this model takes tokens=\[...\]"


def _run(argv):
  kind, values = predictor.PredictorSettings, flags.FlagValues()
  settings.define(kind, values)
  values(["predictor.py", *argv])
  predictor.main(settings.from_flags(kind, values))


@pytest.fixture(name="call")
def _call(monkeypatch, capsys):
  """Returns a function that runs the program and returns its answers."""

  def call(model, *argv, lines=()):
    opened = lambda path, engine: model()  # noqa: E731
    monkeypatch.setattr("tasks.open.open_model", opened)
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=lines))
    _run(["--model=m", *argv])
    return [*map(json.loads, capsys.readouterr().out.split("\n")[:-1])]

  return call


def _texts(answers):
  return [answer["texts"] for answer in answers]


@pytest.mark.parametrize(
  ("model", "argv", "texts"),
  [
    (Pairs, "--text_a=x --text_b=y", ["x", "y"]),
    (Pairs, "--text_a=x --text_pair=y", ["x", "y"]),
    (Pairs, "--text_a=x --text_b=", ["x", ""]),
    (Single, "--text=x~y", ["x y"]),
    (Masks, "--text=x --text_pair=y", ["x", "y"]),
    (Choices, "--choices=c --sent1=a --sent2=b --choices=d", CHOICE_TEXTS),
    # text and text_pair, as transformers calls them, become sent1 and sent2.
    (Choices, "--text=a --text_pair=b --choices=c --choices=d", CHOICE_TEXTS),
  ],
)
def test_each_input_has_a_flag(call, caplog, model, argv, texts):
  words = [word.replace("~", " ") for word in argv.split()]
  assert (_texts(call(model, *words)), caplog.text) == ([texts], "")


def test_lines_are_answered_in_batches_and_in_order(call):
  lines = ['"long text"', "\n", '{"tokens": "é"}', '{"text": "t"}']
  answers = call(Single, "--batch_size=2", lines=lines)
  assert _texts(answers) == [["long text"], ["é"], ["t"]]
  assert [answer["size"] for answer in answers] == [2, 2, 1]


def test_a_line_may_be_a_list_of_words(call):
  def model():
    tagger = Single()
    tagger.word_lists = frozenset(["tokens"])
    return tagger

  lines = ['["a b", "c"]', '{"tokens": ["d"]}', '"e f"']
  assert _texts(call(model, lines=lines)) == [[["a b", "c"]], [["d"]], ["e f"]]


def test_an_answer_repeats_the_id_of_its_line(call):
  lines = ['{"text": "a", "id": 7}', '"b"', '{"id": ["x"], "tokens": "c"}']
  answers = call(Single, lines=lines)
  assert [answer.get("id") for answer in answers] == [7, None, ["x"]]
  assert _texts(answers) == [["a"], ["b"], ["c"]]
  assert "id" not in answers[1] and next(iter(answers[0])) == "id"


def test_answers_are_written_before_the_next_lines_are_read(call, capsys):
  written = []

  def lines():
    for text in "abc":
      yield f'"{text}"'
      written.append(len(capsys.readouterr().out.splitlines()))

  call(Single, "--batch_size=1", lines=lines())
  assert written == [1, 1, 1]


def test_long_inputs_show_progress(call, monkeypatch, log):
  every_line = partial(predictor.Progress, every=0.0)  # seconds between logs
  monkeypatch.setattr(predictor, "Progress", every_line)
  call(Single, "--batch_size=2", lines=['"a"'] * 3)
  starts = [message.partition(";")[0] for message in log.messages]
  assert starts == [f"answered {n} lines" for n in (1, 2, 3)]


@pytest.mark.parametrize(
  ("flags", "expected"),
  [
    (["--timeout=0.5"], ("auto", None, 0.5, {})),
    (["--engine=litert", "--files=~/f"], ("litert", "/ann/f", 30.0, {})),
    # An unset shell variable makes a value empty.
    (["--vocab_file=", "--files="], ("auto", None, 30.0, {})),
    (["--vocab_file=~/v"], ("auto", None, 30.0, {"vocab_file": "/ann/v"})),
  ],
)
def test_flags_become_arguments_of_the_predictor(monkeypatch, flags, expected):
  def make(model, *given, **named):
    assert (model, *given, named) == ("/ann/m", *expected)
    raise OSError("opened")

  monkeypatch.setenv("HOME", "/ann")
  monkeypatch.setattr(predictor, "Predictor", make)
  with pytest.raises(OSError, match="opened"):
    _run(["--model=~/m", *flags, "--text=x"])


@pytest.mark.parametrize(
  "flags", ["", "--files=f --engine=litert", "--files=f --vocab_file=v"]
)
def test_a_url_needs_files_and_neither_an_engine_nor_other_flags(flags):
  with pytest.raises(UserError, match="for a URL, give files"):
    _run(["--model=http://ann:secret@a/b", *flags.split(), "--text=x"])


@pytest.mark.parametrize(
  "lines, message",
  [
    (["[" * 100_000], "1 is not JSON: "),
    (['{"tokens": "a"}', "A film."], "2 is not JSON: .*; put a text into dou"),
    (['"a"'.encode("utf-16") + b"\n"], "1 is not JSON: .* lines as UTF-8$"),
    ([r'"\ud800 a"'], r"1: .* is '\\ud800 a': give a text in UTF-8"),
    (["1"], "1 is not an object with tokens"),
    (["\n", '{"tokens": 1}'], "2: tokens.* is 1: give a text"),
    (['{"other": "a"}'], f"1: {TAKES_TOKENS}; given: other"),
  ],
)
def test_an_error_names_the_line_that_cannot_be_read(call, lines, message):
  with pytest.raises(UserError, match=f"line {message}"):
    call(Single, lines=lines)


def test_batches_before_an_error_are_answered(call, capsys):
  with pytest.raises(UserError, match="line 3 is not JSON"):
    call(Single, "--batch_size=2", lines=['"é"', '"b"', "{", '"c"'])
  lines = capsys.readouterr().out.splitlines()
  assert _texts(map(json.loads, lines)) == [["é"], ["b"]]
  assert "é" in lines[0]


def test_an_error_names_the_inputs_of_the_model(call):
  with pytest.raises(UserError, match=TAKES_TOKENS):
    call(Single, "--question=x", "--text_pair=y")


def test_the_program_ends_if_its_output_is_closed(call, monkeypatch):
  read, write = os.pipe()
  os.close(read)
  with os.fdopen(write, "w") as closed, pytest.raises(SystemExit, match="1"):
    monkeypatch.setattr("sys.stdout", closed)
    call(Single, "--text=x")
