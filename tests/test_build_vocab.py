"""Vocabularies that build_vocab.py learns from a small text."""

import functools
import gzip
import json

import pytest

from data import tokenization, vocab
from modeling.config import BertConfig
from tests import programs

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
  size = len(full.vocab)
  assert config == BertConfig.preset("tiny", size, from_scratch=True)
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
