"""Vocabularies of another model, or of another letter case."""

import re

import pytest
from absl import logging

from data import vocab_checks
from data.tokenization import FullTokenizer

MODEL = ("[PAD]", "[unused1]", "[unused2]", "[UNK]", "owl", "##s")


def _ids(tokens):
  return {token: index for index, token in enumerate(tokens)}


@pytest.mark.parametrize(
  "tokens",
  [
    MODEL,
    (*MODEL, ""),  # another end of the file
    (*MODEL, "wren"),  # in a padded row
    ("[PAD]", "wren", "[unused2]", *MODEL[3:]),
  ],
)
def test_what_goes_with_the_model(tokens):
  vocab_checks.require_same(_ids(tokens), _ids(MODEL), "v", "m")


@pytest.mark.parametrize(
  ("tokens", "message"),
  [
    ((*MODEL[:4], "wren", "##s"), "line 5 is 'wren', but 'owl' in m/vocab.txt"),
    (MODEL[:5], "line 6 is 'missing', but '##s'"),
    (("wren", *MODEL), "v.txt is not the vocabulary .*line 1 is 'wren'"),
  ],
)
def test_the_first_different_line_is_named(tokens, message):
  with pytest.raises(ValueError, match=message):
    vocab_checks.require_same(_ids(tokens), _ids(MODEL), "v.txt", "m/vocab.txt")


PLAIN = [f"a{number:03}" for number in range(300)]


@pytest.mark.parametrize(
  ("tokens", "lower_case", "doubt"),
  [
    (PLAIN, True, None),
    ([*PLAIN, "[CLS]", "ⅣA"], True, None),  # released ones have a few
    ([*PLAIN, *map(str.upper, PLAIN)], True, "300 of 600 .*A000, A001, A002"),
    ([*PLAIN, *(f"é{w}" for w in PLAIN)], True, "--do_lower_case=False is"),
    (
      ["바다", "산", "a"],
      True,
      "2 of 3 tokens",
    ),  # its syllables are taken apart
    (["바다", "산", "a"], False, None),
    ([*PLAIN, "A"], False, None),
    ([*PLAIN, "[CLS]"], False, "no token with a capital"),
  ],
)
def test_doubts_about_the_case(tokens, lower_case, doubt):
  result = vocab_checks.doubt_case(_ids(tokens), lower_case)
  assert result is None if doubt is None else re.search(doubt, result)


def test_a_doubt_is_a_warning(caplog):
  for _ in range(2):
    vocab_checks.warn_of_case({"A": 0}, True, "v.txt")
  assert caplog.text.count("--do_lower_case=True, but v.txt has 1 of 1") == 1


JAMO = ["ᄒ", "##ᅡ", "##ᆫ", "##ᄀ", "##ᅮ", "##ᆨ", "##ᄋ", "##ᅥ"]


@pytest.mark.parametrize(
  ("tokens", "lower_case", "text", "warning"),
  [
    (
      JAMO,
      False,
      "한국어 한국",
      "100 % .* '한국어'; with --do_lower_case=True .* 0 %",
    ),
    (JAMO, True, "한국어 한국", None),
    (["owl", "##s"], False, "Owl owls owls", "33 % .*such as 'Owl'; with"),
    (["owl"], True, "owl Wren", "50 % .*such as 'wren'; the vocabulary has no"),
    (["owl"], True, "owl " * 10 + "wren", None),
    (["owl"], True, " ", None),
  ],
)
def test_words_without_pieces_are_said(
  caplog, tmp_path, monkeypatch, tokens, lower_case, text, warning
):
  monkeypatch.setattr(logging, "_log_counter_per_token", {})
  path = tmp_path / "vocab.txt"
  path.write_text("\n".join(["[UNK]", *tokens]), encoding="utf-8")
  tokenizer = FullTokenizer(path, lower_case)
  with caplog.at_level("WARNING", logger="absl"):
    for name in ("train.tsv", "dev.tsv"):
      vocab_checks.warn_of_unknown([text], tokenizer, name)
  assert len(caplog.messages) == (warning is not None)
  assert re.search(f"train.tsv: {warning}" if warning else "", caplog.text)
