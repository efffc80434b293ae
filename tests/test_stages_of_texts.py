"""Texts and files that programs read, refuse and write."""

from types import SimpleNamespace

import pytest

from data import vocab
from serving import visualization
from tests import programs, stages

# --- fill_mask.py ----------------------------------------------------------


# None means an error. Each text needs [MASK], unless there is a second text.
@pytest.mark.parametrize(
  ("flags", "lines", "expected"),
  [
    ({"text": ["a [MASK]"]}, None, ["a [MASK]"]),
    ({}, "[MASK] c\n\n \n[MASK]", ["[MASK] c", "[MASK]"]),
    ({"text": ["[MASK] a"]}, "[MASK] b\n", ["[MASK] a", "[MASK] b"]),
    ({"text": ["a"], "text_pair": "b"}, None, ["a"]),
    ({"text": ["a"], "text_pair": ""}, None, None),  # "" is no second text
    ({"text": ["[MASK]", "a"]}, None, None),
    ({"text": [""]}, None, None),
  ],
)
def test_texts_come_from_flags_and_a_file(tmp_path, flags, lines, expected):
  if lines is not None:
    (tmp_path / "lines").write_text(lines)
    flags = flags | {"input_file": str(tmp_path / "lines")}
  (tmp_path / "vocab.txt").write_text("\n".join(vocab.SPECIAL_TOKENS))
  flags = flags | {"vocab_file": str(tmp_path / "vocab.txt")}
  args = programs.arguments("fill_mask", **flags)
  read = stages.program("fill_mask").read_texts
  if expected is None:
    with pytest.raises(ValueError, match=r"there is no \[MASK\]"):
      read(args)
  else:
    assert read(args) == expected


# --- visualize.py ----------------------------------------------------------


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
  message = "" if expected else "the model in m takes "
  error = KeyError if expected else ValueError
  with pytest.raises(error, match=message) as raised:
    visualize.main(args)
  assert not expected or raised.value.args == (expected,)


# --- build_vocab.py --------------------------------------------------------


@pytest.mark.parametrize(
  ("patterns", "exponent", "is_repeated"),
  [
    ("{0}/en,{0}/is", 1.0, False),
    ("{0}/en,{0}/is", 0.5, True),
    (" {0}/en , ,{0}/is,", 0.5, True),
    ("{0}/*", 0.5, False),  # a pattern is one source
  ],
)
def test_sampling_exponent_gives_each_pattern_a_weight(
  tmp_path, log, patterns, exponent, is_repeated
):
  (tmp_path / "en").write_text("the " * 400)
  (tmp_path / "is").write_text("og " * 4)
  flags = {"input_file": patterns.format(tmp_path)}
  args = programs.arguments("build_vocab", **flags, sampling_exponent=exponent)
  counts = stages.program("build_vocab").count_words(args)
  # "en" has 100 times the words of "is". The exponent flattens this ratio.
  factor = round(100 ** (1 - exponent)) if is_repeated else 1
  assert counts == {"the": 400, "og": 4 * factor}
  assert (f"is: 4 words, times {factor}.00" in log.text) == is_repeated


@pytest.mark.parametrize("preset", [None, "mini"])
@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("existing", ["v", "bert_config.json"])
def test_no_vocabulary_and_no_configuration_is_overwritten_by_mistake(
  tmp_path, preset, overwrite, existing
):
  (tmp_path / "text").write_text("low lower")
  (tmp_path / existing).write_text("old")
  paths = {"input_file": f"{tmp_path}/text", "output_file": f"{tmp_path}/v"}
  flags = {"overwrite": overwrite, "preset": preset}
  args = programs.arguments("build_vocab", **paths, **flags)
  check = stages.program("build_vocab").check_flags
  if overwrite or (existing != "v" and not preset):
    check(args)
    return
  with pytest.raises(FileExistsError, match="exists already; remove it"):
    check(args)
