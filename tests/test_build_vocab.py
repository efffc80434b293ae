"""Vocabularies that build_vocab.py learns, or extends by a domain's words."""

import functools
import gzip
import json
import os

import keras
import numpy as np
import pytest

from data import tokenization, vocab
from data.tokenization import FullTokenizer
from modeling import models
from modeling.config import BertConfig
from tests import programs, small_model, stages
from training import checkpoint

TEXT = (
  "The lower the flower, the slower the tower.\n\n"
  "Lowest, slowest: unaffordable Ångström 力加 力\n"
) * 20


@pytest.fixture
def run(tmp_path):
  """Writes TEXT into a.txt; returns a function that runs build_vocab.py."""
  (tmp_path / "a.txt").write_text(TEXT, encoding="utf-8")
  return functools.partial(programs.run, "build_vocab", cwd=tmp_path)


@pytest.mark.parametrize("do_lower_case", [True, False])
def test_every_word_of_the_text_has_word_pieces(run, tmp_path, do_lower_case):
  flags = {"do_lower_case": do_lower_case, "preset": "tiny", "unused_tokens": 2}
  flags |= {"input_file": "*.txt", "output_file": "vocabulary"}
  log = run(**flags, vocab_size=99)
  full = tokenization.FullTokenizer(tmp_path / "vocabulary", do_lower_case)
  assert f"the text yields only {len(full.vocab)} tokens" in log
  config = BertConfig.from_json(str(tmp_path / "bert_config.json"))
  assert config == BertConfig.preset("tiny", len(full.vocab), from_scratch=True)
  first = [*vocab.SPECIAL_TOKENS, "[unused0]", "[unused1]"]
  assert list(full.vocab)[:7] == first
  assert {"the", "lower"} <= full.vocab.keys()
  assert ("Å" in full.vocab) != do_lower_case
  assert "[UNK]" not in full.tokenize(TEXT)
  for word in full.basic_tokenizer.tokenize(TEXT):
    assert {*word, *("##" + char for char in word[1:])} <= full.vocab.keys()


def test_json_lines_give_the_same_vocabulary_as_plain_text(run, tmp_path):
  rows = [{"body": line, "name": "Zoë"} for line in TEXT.split("\n")]
  with gzip.open(tmp_path / "rows.jsonl.gz", "wt") as file:
    file.writelines(json.dumps(row) + "\n" for row in rows)
  run(vocab_size=99, input_file="a.txt", output_file="plain")
  flags = {"input_file": "rows.jsonl.gz", "text_field": "body"}
  run(vocab_size=99, **flags, output_file="rows")
  assert (tmp_path / "plain").read_text() == (tmp_path / "rows").read_text()
  log = run(vocab_size=99, input_file="rows.jsonl.gz", output_file="json")
  assert "rows.jsonl.gz: the text looks like JSON" in log


def test_apache_beam_learns_the_same_vocabulary_as_one_process(run, tmp_path):
  pytest.importorskip("apache_beam")
  flags = {"input_file": "a.txt", "vocab_size": 99}
  run(**flags, output_file="one")
  run(**flags, output_file="beam", runner="DirectRunner")
  assert (tmp_path / "one").read_bytes() == (tmp_path / "beam").read_bytes()
  assert not list(tmp_path.glob("beam.*"))


def test_rare_pieces_words_and_characters_are_left_out(run, tmp_path):
  flags = {"input_file": "a.txt", "vocab_size": 99, "output_file": "words"}
  log = run(**flags, min_count=21, max_alphabet=20)  # lines occur 20 times
  words = vocab.load(tmp_path / "words").keys()
  assert "the" in words and "unaffordable" not in words
  assert "--max_alphabet=20 leaves out" in log
  log = run(**flags | {"output_file": "few"}, max_words=5)
  assert "dropped words counted" in log


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


# --- build_vocab.py --extend -------------------------------------------------

WORDS = (
  "the of . , car ##ci ##no ##ma ##s cyst ##ic fi ##bro ##sis 1 ##2".split()
)
TOKENS = [*vocab.SPECIAL_TOKENS, "[unused0]", "[unused1]", *WORDS]
SIZES = {"num_hidden_layers": 2, "max_position_embeddings": 20}
CONFIG = small_model.config(len(TOKENS), **SIZES)
WORD_EMBEDDINGS = "bert/embeddings/word_embeddings"
MEDICAL = "The carcinoma of carcinoma carcinomas.\nCystic fibrosis, 12 12 12 12"
MEDICAL = f"{MEDICAL}.\n" * 3 + "cystic fibrosis\n"


@pytest.fixture(scope="module", name="given")
def _given(tmp_path_factory):
  """Writes a model with an optimizer's slots; returns flags of build_vocab."""
  folder = tmp_path_factory.mktemp("model")
  keras.utils.set_random_seed(3)
  values = checkpoint.variables(models.pretrainer(CONFIG))
  slots = {f"{name}/adam_m": value for name, value in values.items()}
  checkpoint.write(str(folder / "bert_model.ckpt"), values | slots)
  files = small_model.write(folder, TOKENS, **SIZES)
  (folder / "text.txt").write_text(MEDICAL)
  files["extend"] = files.pop("vocab_file")
  files |= {"input_file": folder / "text.txt", "init_checkpoint": folder}
  return files | {"new_words": 3, "append_words": True}


@pytest.fixture(scope="module", name="extended")
def _extended(given, tmp_path_factory):
  """Runs build_vocab.py --extend; returns the new folder and the log."""
  folder = tmp_path_factory.mktemp("new") / "medical"
  log = programs.run("build_vocab", **given, output_file=folder / "vocab.txt")
  return folder, log


def test_the_words_that_save_the_most_pieces_become_tokens(extended):
  folder, log = extended
  tokens = list(vocab.load(folder / "vocab.txt"))
  # The new tokens occur 6, 4 and 4 times, and save 3, 2 and 1 pieces each time.
  # "carcinomas" occurs 3 times. It would save 4 pieces each time, but only 1 if
  # "carcinoma" is a token.
  assert tokens[5:7] == ["carcinoma", "fibrosis"]
  assert tokens[7:] == [*WORDS, "cystic"]
  assert (
    "(carcinoma, fibrosis, cystic, ...): 2 replace [unused] tokens, 1" in log
  )
  names = {"vocab.txt", "bert_config.json", "bert_model.ckpt.index"}
  assert names < set(os.listdir(folder))
  assert os.listdir(folder.parent) == ["medical"]
  pieces = FullTokenizer(folder / "vocab.txt").tokenize("The cystic carcinomas")
  assert pieces == ["the", "cystic", "carcinoma", "##s"]


def test_embeddings_of_new_tokens_are_means_of_their_pieces(given, extended):
  folder, _ = extended
  old = checkpoint.open_reader(str(given["init_checkpoint"]))
  new = checkpoint.open_reader(str(folder))
  ids = vocab.load(given["extend"])
  pieces = [ids["cyst"], ids["##ic"]]
  per_token = WORD_EMBEDDINGS, "cls/predictions/output_bias"
  assert {*new.shapes} == {name for name in old.shapes if "adam" not in name}
  for name in new.shapes:
    before, after = old[name], new[name]
    if name in per_token:
      np.testing.assert_array_equal(after[-1], before[pieces].mean(0))
      # The first 7 are special tokens, and tokens that the new words replace.
      before, after = before[7:], after[7:-1]
    np.testing.assert_array_equal(before, after, name)
  config = json.loads((folder / "bert_config.json").read_text())
  assert config == json.loads(given["bert_config_file"].read_text()) | {
    "vocab_size": len(TOKENS) + 1
  }


def test_a_checkpoint_with_nan_is_not_extended(given, tmp_path):
  values = checkpoint.variables(models.pretrainer(CONFIG))
  values[WORD_EMBEDDINGS] = np.full_like(values[WORD_EMBEDDINGS], np.nan)
  checkpoint.write(str(tmp_path / "bert_model.ckpt"), values)
  flags = given | {"init_checkpoint": tmp_path}
  flags |= {"output_file": tmp_path / "x" / "vocab.txt"}
  message = f"1 of {len(values)} variables have NaN"
  programs.fails("build_vocab", message, **flags)
  assert not (tmp_path / "x").exists()
