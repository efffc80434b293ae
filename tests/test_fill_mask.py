"""fill_mask.py: what it prints, and what it refuses."""

import json
import shutil

import pytest

from modeling import models
from modeling.config import BertConfig
from tests import programs
from training import checkpoint

WORDS = [
  "[PAD]",
  "[UNK]",
  "[CLS]",
  "[SEP]",
  "[MASK]",
  "red",
  "blue",
  "sky",
  ".",
]


@pytest.fixture(scope="module", name="flags")
def _flags(tmp_path_factory):
  folder = tmp_path_factory.mktemp("fill")
  (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n")
  config = BertConfig(len(WORDS), 8, 1, 2, 8, max_position_embeddings=8)
  config.to_json(str(folder / "bert_config.json"))
  model = models.pretrainer(config)
  values = checkpoint.variables(model)
  # "blue" is what it says wherever it is asked.
  bias = values["cls/predictions/output_bias"]
  bias.assign([0, 0, 0, 0, 0, 0, 9, 0, 0])
  checkpoint.write(str(folder / "bert_model.ckpt"), values)
  return {
    "bert_config_file": folder / "bert_config.json",
    "vocab_file": folder / "vocab.txt",
    "init_checkpoint": folder / "bert_model.ckpt",
  }


def _run(flags, *more, stdin=b""):
  return programs.call("fill_mask", *more, stdin=stdin, **flags)


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
    ([], "give --text or --input_file"),
    (["--text=no mask"], "there is no [MASK] in 'no mask'"),
    (["--text=[MASK]" + " red" * 9], "exceeds max_position_embeddings 8"),
  ],
)
def test_mistakes(flags, more, message):
  done = _run(flags, *more)
  assert done.returncode == 1
  assert message in done.stderr
  assert "Traceback" not in done.stderr


def test_a_vocabulary_of_a_larger_model_is_refused(flags, tmp_path):
  (tmp_path / "vocab.txt").write_text("\n".join([*WORDS, "more"]) + "\n")
  done = _run(flags | {"vocab_file": tmp_path / "vocab.txt"}, "--text=[MASK]")
  assert done.returncode == 1
  named = f"vocab_size in {flags['bert_config_file']} is 9"
  assert f"has 10 lines but {named}" in done.stderr
  assert "Traceback" not in done.stderr


def test_a_vocabulary_without_masks_is_named(flags, tmp_path):
  for path in flags["init_checkpoint"].parent.glob("bert_model*"):
    shutil.copy(path, tmp_path)
  (tmp_path / "words.txt").write_text("\n".join(WORDS).replace("[MASK]", "x"))
  flags = flags | {
    "vocab_file": tmp_path / "words.txt",
    "init_checkpoint": tmp_path,
  }
  done = _run(flags, "--text=[MASK]")
  assert done.returncode == 1
  assert "words.txt lacks [MASK]" in done.stderr
  assert "Traceback" not in done.stderr


@pytest.mark.parametrize("given", ["a file", "standard input"])
def test_what_is_not_utf_8_is_named(flags, given, tmp_path):
  texts = b"The [MASK].\nThe \xff.\n"
  (tmp_path / "a file").write_bytes(texts)
  path = "-" if given == "standard input" else tmp_path / given
  done = _run(flags, f"--input_file={path}", stdin=texts)
  assert done.returncode == 1
  assert f"{given}, line 2" in done.stderr
  assert "Traceback" not in done.stderr


def test_a_model_without_its_head_is_refused(flags, tmp_path):
  config = BertConfig.from_json(str(flags["bert_config_file"]))
  values = checkpoint.variables(models.classifier(config, 2))
  checkpoint.write(str(tmp_path / "model.ckpt-1"), values)
  flags = flags | {"init_checkpoint": tmp_path / "model.ckpt-1"}
  done = _run(flags, "--text=[MASK]")
  assert done.returncode == 1
  assert "model.ckpt-1 has no cls/predictions/" in done.stderr
  assert "another kind of model" in done.stderr
  assert "Traceback" not in done.stderr


def test_a_fine_tuned_folder_is_refused_before_tensorflow(flags, tmp_path):
  shutil.copytree(flags["init_checkpoint"].parent, tmp_path, dirs_exist_ok=True)
  entry = {"program": "run_ner", "flags": {}}
  (tmp_path / "run.json").write_text(json.dumps([entry]))
  done = _run(flags | {"init_checkpoint": tmp_path}, "--text=red [MASK]")
  assert done.returncode == 1
  assert f"{tmp_path} was trained by run_ner, without the head" in done.stderr


def test_a_language_model_is_refused(flags, tmp_path):
  shutil.copytree(flags["init_checkpoint"].parent, tmp_path, dirs_exist_ok=True)
  start = {"flags": {"objective": "right_to_left"}}
  (tmp_path / "run.json").write_text(json.dumps([start]))
  flags = flags | {"init_checkpoint": tmp_path / "bert_model.ckpt"}
  done = _run(flags, "--text=red [MASK]")
  assert done.returncode == 1
  assert "a model of --objective=right_to_left cannot fill" in done.stderr
  assert "Traceback" not in done.stderr
