"""The command line of predictor.py, with a function in place of a model."""

import json
from functools import partial
from types import SimpleNamespace

import pytest

from cli import ask
from predictor import Predictor


class Model:
  """Answers with its texts, by the sorted names of its inputs."""

  def __init__(self, **inputs):
    self.inputs, self.answers = inputs, self
    self.optional = frozenset(["text_pair"]) & frozenset(inputs)

  def __call__(self, examples):
    return [
      {"texts": [e[n] for n in sorted(e)], "size": len(examples)}
      for e in examples
    ]


Echo = partial(Model, text_a=0, text_b=0)
Single = partial(Model, tokens=0)
Choices = partial(Model, choices=1, sent1=0, sent2=0)
Masks = partial(Model, text=0, text_pair=0)


@pytest.fixture(name="call")
def _call(monkeypatch, capsys):
  def call(model, *argv, lines=()):
    monkeypatch.setattr("tasks.open_model", lambda path, engine: model())
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=lines))
    ask.main(Predictor, ["--model=m", *argv])
    return [
      json.loads(line) for line in capsys.readouterr().out.split("\n")[:-1]
    ]

  return call


def _texts(answers):
  return [answer["texts"] for answer in answers]


@pytest.mark.parametrize(
  "argv",
  [
    ["--text_a=x", "--text_b=y"],
    ["--text=x", "--text_pair=y"],
    ["--text_pair", "y", "--text", "x"],
    ["--text_a=x", "--text_pair=y"],
  ],
)
def test_inputs_are_flags(call, argv):
  assert _texts(call(Echo, *argv)) == [["x", "y"]]


def test_the_text_of_a_model_with_one_input_is_that_input(call):
  assert _texts(call(Single, "--text=x y")) == [["x y"]]
  assert _texts(call(Single, "--tokens=x y")) == [["x y"]]


def test_choices_are_given_one_by_one(call):
  flags = ["--choices=c", "--sent1=a", "--sent2=", "--choices=d"]
  assert _texts(call(Choices, *flags[:2], "--sent2=b", flags[3])) == [
    [["c", "d"], "a", "b"]
  ]


def test_the_names_of_transformers_stand_for_the_two_sentences(call):
  flags = ["--text=a", "--text_pair=b", "--choices=c", "--choices=d"]
  assert _texts(call(Choices, *flags)) == [[["c", "d"], "a", "b"]]


def test_lines_are_answered_in_their_order_in_batches(call):
  lines = ['"long text"', "\n", '{"tokens": "é"}', '{"text": "t"}']
  answers = call(Single, "--batch_size=2", lines=lines)
  assert _texts(answers) == [["long text"], ["é"], ["t"]]
  assert [answer["size"] for answer in answers] == [2, 2, 1]


def test_a_second_text_may_be_missing_in_some_lines(call):
  lines = ['"a"', '{"text": "b", "text_pair": "c"}', '{"text": "d"}']
  assert _texts(call(Masks, lines=lines)) == [["a"], ["b", "c"], ["d"]]
  assert _texts(call(Masks, "--text=x", "--text_pair=y")) == [["x", "y"]]


def test_choices_of_several_numbers_are_asked_together(call):
  lines = [
    json.dumps({"sent1": "a", "sent2": "b", "choices": ["c"] * number})
    for number in (1, 2)
  ]
  answers = call(Choices, lines=lines)
  assert [len(answer["texts"][0]) for answer in answers] == [1, 2]
  assert [answer["size"] for answer in answers] == [2, 2]


@pytest.mark.parametrize(
  ("flags", "expected"),
  [
    ("--model=m", {"engine": "auto"}),
    ("--model=m --timeout=3 --files=f", {"engine": "auto"}),  # for URLs
    (
      "--model=m --engine=litert_int8 --vocab_file=v --bert_config_file=c",
      {"engine": "litert_int8", "vocab_file": "v", "bert_config_file": "c"},
    ),
    (
      "--model=https://a/b --files=f --vocab_file=v",
      {"engine": "auto", "files": "f", "timeout": 30},
    ),
    (
      "--model=http://a/b --files=f --timeout=3 --engine=litert",
      {"engine": "litert", "files": "f", "timeout": 3},
    ),
  ],
)
def test_what_a_model_is_opened_with(flags, expected):
  def predictor(model, **given):
    assert model == flags.split()[0].removeprefix("--model=")
    assert given == expected
    raise OSError("opened")

  with pytest.raises(SystemExit, match="ERROR: opened"):
    ask.main(predictor, [*flags.split(), "--text=x"])


def test_a_url_needs_files(monkeypatch):
  with pytest.raises(
    SystemExit, match=r"ERROR: --model=http://a/b answers rows"
  ):
    ask.main(Predictor, ["--model=http://a/b", "--text=x"])


@pytest.mark.parametrize(
  "lines, message",
  [
    (
      ['{"tokens": "a"}', "A film."],
      "line 2 is no JSON: .*; a text stands in double quotes",
    ),
    (['"a"', b'"\xff"'], "line 2 is no JSON: 'utf-8' codec can't decode"),
    ([r'"\ud800 a"'], r"line 1: .* is '\\ud800 a': give a text in UTF-8"),
    (["1"], "line 1 is no object with tokens"),
    (["\n", '{"tokens": 1}'], "line 2: tokens.* is 1: give a text"),
    (
      ['{"other": "a"}'],
      r"line 1: this model takes tokens=\[...\], and no other",
    ),
    (
      ['{"text_a": "a", "text_b": "b"}'],
      r"line 1: this model takes tokens=\[...\], and no text_a, text_b",
    ),
    (['{"tokens": ["a"]}'], "line 1: tokens.*give a text"),
  ],
)
def test_an_error_names_the_line(call, lines, message):
  with pytest.raises(SystemExit, match=f"ERROR: {message}"):
    call(Single, lines=lines)


def test_lines_before_an_error_are_answered(call, capsys):
  with pytest.raises(SystemExit, match="line 3 is no JSON"):
    call(Single, lines=['"é"', '"b"', "{", '"c"'])
  lines = capsys.readouterr().out.splitlines()
  assert _texts(map(json.loads, lines)) == [["é"], ["b"]]
  assert "é" in lines[0]


def test_an_error_on_the_command_line_is_one_line(call):
  with pytest.raises(SystemExit) as caught:
    call(Single, "--question=x", "--text_pair=y")
  assert str(caught.value) == (
    "ERROR: the command line: this model takes --tokens, and no question, "
    "text_pair"
  )
  with pytest.raises(SystemExit, match=r"tokens.* is '\\udcff': give a text"):
    call(Single, "--text=\udcff")
  for flags in (["--text=x"], ["--text=x", "--text_a=y"]):
    with pytest.raises(SystemExit, match=r"takes --text_a, --text_b"):
      call(Echo, *flags)
  with pytest.raises(
    SystemExit, match="--tokens is given 2 times: give it once"
  ):
    call(Single, "--tokens=x", "--tokens=y")
  with pytest.raises(SystemExit, match="batch_size=0 must be at least 1"):
    call(Single, "--batch_size=0", lines=['"a"'])


def test_help_names_the_program(capsys):
  with pytest.raises(SystemExit, match="0"):
    ask.main(Predictor, ["--help"])
  assert capsys.readouterr().out.startswith("usage: predictor.py ")


def test_a_folder_that_does_not_exist_is_named():
  with pytest.raises(SystemExit, match="ERROR: --model=/nowhere is no folder"):
    ask.main(Predictor, ["--model=/nowhere", "--text=x"])
