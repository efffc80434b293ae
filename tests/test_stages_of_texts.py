"""Texts and files that programs read, refuse and write."""

from types import SimpleNamespace

import pytest

from data import vocab
from data.pretraining import documents
from modeling.config import BertConfig
from tests import programs, stages

# --- fill_mask.py ----------------------------------------------------------


# None means an error. Each text needs [MASK], unless there is a second text.
@pytest.mark.parametrize(
  ("flags", "lines", "expected"),
  [
    ({"text": ["a [MASK]"]}, None, ["a [MASK]"]),
    ({"text": ["[MASK] b", "[MASK]"]}, None, ["[MASK] b", "[MASK]"]),
    ({}, "[MASK] c\n\n \n[MASK]", ["[MASK] c", "[MASK]"]),
    ({"text": ["[MASK] a"]}, "[MASK] b\n", ["[MASK] a", "[MASK] b"]),
    ({"text": ["a"], "text_pair": "b"}, None, ["a"]),
    ({"text": ["a"], "text_pair": "b"}, "c\n[MASK]\n", ["a", "c", "[MASK]"]),
    ({"text": ["a"], "text_pair": ""}, None, None),  # "" is no second text
    ({"text": ["[MASK]"], "text_pair": ""}, None, ["[MASK]"]),
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
    ({"text": "a", "text_pair": ""}, ["text", "text_pair"], {"text": "a"}),
    ({"text": "a", "text_pair": "b"}, PAIR, {"text_a": "a", "text_b": "b"}),
    ({"text": "a", "text_pair": ""}, PAIR, None),
    ({"text": "a", "question": "b"}, ["text"], None),
    ({"text": "a", "question": ""}, ["text"], {"text": "a"}),
    ({"question": "q"}, ["question", "context"], None),
    (
      CHOICES,
      ["sent1", "sent2", "choices"],
      {"sent1": "a", "sent2": "b", "choices": ["c", ""]},
    ),
  ],
)
def test_visualize_gives_each_text_the_name_of_a_model_input(
  flags, inputs, expected
):
  optional = frozenset(["text_pair"]) & {*inputs}
  answers = SimpleNamespace(inputs=dict.fromkeys(inputs, 0), optional=optional)
  args = programs.arguments("visualize", model="m", **flags)
  texts = stages.program("visualize")._texts
  if expected is None:
    with pytest.raises(ValueError, match="the model in m takes --"):
      texts(args, answers)
  else:
    assert texts(args, answers) == expected


# --- build_vocab.py --------------------------------------------------------


@pytest.mark.parametrize(
  ("patterns", "exponent", "is_repeated"),
  [
    ("{0}/en,{0}/is", 1.0, False),
    ("{0}/en,{0}/is", 0.5, True),
    (" {0}/en , ,{0}/is,", 0.5, True),
    ("{0}/*", 0.5, False),  # a pattern is one source
    ("{0}/en,{0}/is", 0.0, True),
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
@pytest.mark.parametrize("existing", ["", "v", "bert_config.json"])
def test_a_preset_has_the_size_of_the_learned_vocabulary(
  tmp_path, preset, overwrite, existing
):
  module = stages.program("build_vocab")
  (tmp_path / "text").write_text("low lower lowest slow slower slowest\n" * 9)
  if existing:
    (tmp_path / existing).write_text("old")
  paths = {"input_file": "text", "output_file": "v"}
  paths = {flag: str(tmp_path / name) for flag, name in paths.items()}
  flags = {"overwrite": overwrite, "preset": preset}
  args = programs.arguments("build_vocab", **paths, **flags)
  if not overwrite and (existing == "v" or (preset and existing)):
    with pytest.raises(FileExistsError, match="exists already; remove it"):
      module.check_flags(args)
    return
  module.check_flags(args)
  module.main(args)
  number = len(vocab.load(tmp_path / "v"))
  assert 20 < number < args.vocab_size
  path = tmp_path / "bert_config.json"
  if preset:
    expected = BertConfig.preset("mini", number, from_scratch=True)
    assert BertConfig.from_json(str(path)) == expected
  else:
    assert path.exists() == (existing == "bert_config.json")


# --- split_sentences.py ----------------------------------------------------


@pytest.mark.parametrize("end", ["", "\n", "\r\n", "\n\n\n"])
@pytest.mark.parametrize("blank", [None, "", "\n \n"])
def test_each_file_becomes_one_document_with_or_without_a_last_line_end(
  tmp_path, end, blank
):
  texts = {"a": f"One. Two.{end}", "b": blank, "c": f"Three.{end}"}
  texts = {name: text for name, text in texts.items() if text is not None}
  for name, text in texts.items():
    (tmp_path / name).write_bytes(text.encode())
  paths = ",".join(str(tmp_path / name) for name in texts)
  flags = {"input_file": paths, "output_file": str(tmp_path / "out")}
  args = programs.arguments("split_sentences", **flags, source="prose")
  stages.program("split_sentences").main(args)
  lines = (tmp_path / "out").read_text().split("\n")
  parts = documents.split_documents(lines)
  assert [*parts] == [["One.", "Two."], ["Three."]]
