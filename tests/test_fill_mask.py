"""fill_mask.py: printed words, and refused input."""

import pytest

from data.vocab import SPECIAL_TOKENS
from modeling import models
from tests import programs, small_model, stages
from training import checkpoint

WORDS = [*SPECIAL_TOKENS, "red", "blue", "sky", "."]
CONFIG = small_model.config(len(WORDS), max_position_embeddings=8)


@pytest.fixture(scope="module", name="flags")
def _flags(tmp_path_factory):
  """Writes a model that predicts blue; returns flags."""
  folder = tmp_path_factory.mktemp("fill")
  files = small_model.write(folder, WORDS, max_position_embeddings=8)
  values = checkpoint.variables(models.pretrainer(CONFIG))
  # With this bias, a random model predicts "blue" with a probability near 99 %.
  bias = [7.0 if word == "blue" else 0.0 for word in WORDS]
  values["cls/predictions/output_bias"].assign(bias)
  checkpoint.write(str(folder / "bert_model.ckpt"), values)
  return files | {"init_checkpoint": folder / "bert_model.ckpt"}


def test_the_program_prints_the_likeliest_words_of_every_mask(flags, tmp_path):
  (tmp_path / "texts").write_text("Sky [MASK] [MASK].\n\n")
  texts = {"text": "The [MASK] sky.", "input_file": tmp_path / "texts"}
  done = programs.call("fill_mask", **flags, **texts, text_pair="red", top_k=2)
  assert done.returncode == 0, done.stderr
  lines = done.stdout.splitlines()
  assert lines[0] == "The [MASK] sky. | red"
  assert lines[3] == "Sky [MASK] [MASK]. | red"
  assert len(lines) == 7
  assert lines[2].startswith("  IsNext ")
  for line in (lines[1], *lines[4:6]):
    assert line.startswith("  blue 9")
    assert len(line.split()) == 4  # two words with probabilities


def test_standard_input_is_read_by_a_masked_lm_in_a_folder(flags, tmp_path):
  model = checkpoint.Reader(str(flags["init_checkpoint"]))
  values = {k: model[k] for k in model.shapes if "seq_rel" not in k}
  checkpoint.write(str(tmp_path / "bert_model.ckpt"), values)
  text = "하늘 [MASK]\n"
  flags = flags | {"init_checkpoint": tmp_path, "input_file": "-"}
  done = programs.call("fill_mask", **flags, stdin=text.encode())
  assert done.stdout.startswith(text + "  blue")
  assert "the texts: --do_lower_case=True damages 100 %" in done.stderr
  assert "the texts: 100 % of the words become [UNK]" in done.stderr


LONG = (
  "'[MASK] red red red red red red red red r' has 12 tokens with [CLS] and "
  "[SEP], which exceeds max_position_embeddings 8"
)
UNREADABLE = [
  ({"text": "[MASK]" + " red" * 9}, LONG),
  ({"input_file": "-", "stdin": b"a\nThe \xff.\n"}, "stdin, line 2: byte 6 of"),
]


@pytest.mark.parametrize(("texts", "message"), UNREADABLE)
def test_unreadable_and_too_long_texts_are_reported(flags, texts, message):
  programs.fails("fill_mask", message, **flags, **texts)


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
  (tmp_path / "vocab.txt").write_text("\n".join(SPECIAL_TOKENS))
  flags = flags | {"vocab_file": str(tmp_path / "vocab.txt")}
  args = programs.arguments("fill_mask", **flags)
  read = stages.program("fill_mask").read_texts
  if expected is None:
    with pytest.raises(ValueError, match=r"there is no \[MASK\]"):
      read(args)
  else:
    assert read(args) == expected
