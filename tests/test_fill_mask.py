"""fill_mask.py: what it prints, and what it refuses."""

import pytest

from data.vocab import SPECIAL_TOKENS
from modeling import models
from tests import programs, small_model
from training import checkpoint

WORDS = [*SPECIAL_TOKENS, "red", "blue", "sky", "."]
CONFIG = small_model.config(len(WORDS), max_position_embeddings=8)


@pytest.fixture(scope="module", name="flags")
def _flags(tmp_path_factory):
  folder = tmp_path_factory.mktemp("fill")
  files = small_model.write(folder, WORDS, max_position_embeddings=8)
  values = checkpoint.variables(models.pretrainer(CONFIG))
  # "blue" is what it says wherever it is asked.
  bias = values["cls/predictions/output_bias"]
  bias.assign([0, 0, 0, 0, 0, 0, 9, 0, 0])
  checkpoint.write(str(folder / "bert_model.ckpt"), values)
  return files | {"init_checkpoint": folder / "bert_model.ckpt"}


def _run(flags, *more, stdin=b""):
  return programs.call("fill_mask", *more, stdin=stdin, **flags)


def _fails(message, flags, *more, stdin=b""):
  programs.fails("fill_mask", message, *more, stdin=stdin, **flags)


def test_prints_the_likeliest_words_of_every_mask(flags, tmp_path):
  texts = tmp_path / "texts"
  texts.write_text("Sky [MASK] [MASK].\n\n")
  done = _run(
    flags, "--text=The [MASK] sky.", f"--input_file={texts}", "--top_k=2"
  )
  assert done.returncode == 0, done.stderr
  lines = done.stdout.splitlines()
  assert [lines[0], lines[2]] == ["The [MASK] sky.", "Sky [MASK] [MASK]."]
  assert len(lines) == 5
  for line in (lines[1], *lines[3:]):
    assert line.startswith("  blue 9")
    assert len(line.split()) == 4


def test_reads_standard_input_and_the_checkpoint_of_a_folder(flags):
  flags = flags | {"init_checkpoint": flags["init_checkpoint"].parent}
  text = "하늘 [MASK]\n"
  done = _run(flags, "--input_file=-", stdin=text.encode())
  assert done.stdout.startswith(text + "  blue")
  assert "the texts: 100 % of the letters are Hangul" in done.stderr
  assert "the texts: 100 % of the words become [UNK]" in done.stderr


@pytest.mark.parametrize(
  ("more", "message"),
  [
    (["--text=[MASK] \udcff"], r"'[MASK] \udcff' is not UTF-8"),
    (
      ["--text=[MASK]" + " red" * 9],
      "'[MASK] red red red red red red red red r' has 12 tokens with [CLS] and "
      "[SEP], which exceeds max_position_embeddings 8",
    ),
  ],
)
def test_texts_that_the_model_cannot_read(flags, more, message):
  _fails(message, flags, *more)


def test_standard_input_that_is_not_utf_8_is_named(flags):
  texts = b"The [MASK].\nThe \xff.\n"
  _fails("stdin, line 2: byte 16 of", flags, "--input_file=-", stdin=texts)


def test_a_model_without_its_head_is_refused(flags, tmp_path):
  values = checkpoint.variables(models.classifier(CONFIG, 2))
  checkpoint.write(str(tmp_path / "model.ckpt-1"), values)
  flags = flags | {"init_checkpoint": tmp_path / "model.ckpt-1"}
  _fails("model.ckpt-1 has no cls/predictions/", flags, "--text=[MASK]")
