import re

import pytest
from absl import logging

from data import tokenization, vocab_checks
from data.tokenization import FullTokenizer, doubt_case

PLAIN = [f"a{number:03}" for number in range(300)]


@pytest.mark.parametrize(
  ("tokens", "lower_case", "doubt"),
  [
    (PLAIN, True, None),
    ([*PLAIN, "[CLS]", "ⅣA"], True, None),  # occurs in released files
    ([*PLAIN, *map(str.upper, PLAIN)], True, "300 of 600 .*A000, A001, A002"),
    ([*PLAIN, *(f"é{w}" for w in PLAIN)], True, "give do_lower_case=False"),
    # Lower-casing decomposes Hangul syllables.
    (["바다", "산", "a"], True, "2 of 3 tokens"),
    (["바다", "산", "a"], False, None),
    ([*PLAIN, "A"], False, None),
    ([*PLAIN, "[CLS]"], False, "no token with a capital"),
    ([*PLAIN[:50], "1"], False, "no token with a capital"),
    ([*PLAIN[:49], "1"], False, None),  # too few tokens to judge
  ],
)
def test_a_vocabulary_that_contradicts_do_lower_case_is_recognized(
  tokens, lower_case, doubt
):
  result = doubt_case(tokens, lower_case)
  assert result is None if doubt is None else re.search(doubt, result)


@pytest.fixture(autouse=True)
def _no_warnings_yet(monkeypatch):
  monkeypatch.setattr(logging, "_log_counter_per_token", {})


def _tokenizer(folder, tokens, lower_case):
  path = folder / "vocab.txt"
  path.write_text("\n".join(tokens), encoding="utf-8")
  return FullTokenizer(path, lower_case)


JAMO = ["ᄒ", "##ᅡ", "##ᆫ", "##ᄀ", "##ᅮ", "##ᆨ", "##ᄋ", "##ᅥ"]


@pytest.mark.parametrize(
  ("tokens", "lower_case", "text", "warning"),
  [
    (JAMO, False, "한국어 한국", "100 % .* '한국어'; check do_lower_case"),
    (JAMO, True, "한국어 한국", None),
    (["owl", "##s"], False, "Owl owls owls", "33 % .*such as 'Owl'; check"),
    (["owl"], True, "owl " * 9 + "wren", "10 % .*'wren'"),
    (["owl"], True, "owl " * 10 + "wren", None),
    (["owl"], True, " ", None),
  ],
)
def test_the_first_file_with_many_unknown_words_is_reported(
  caplog, tmp_path, tokens, lower_case, text, warning
):
  tokenizer = _tokenizer(tmp_path, ["[UNK]", *tokens], lower_case)
  for name in ("train.tsv", "dev.tsv"):
    vocab_checks.warn_of_texts([text], tokenizer, name)
  messages = [text for text in caplog.messages if "words become" in text]
  assert len(messages) == (warning is not None)
  assert re.search(f"train.tsv: {warning}" if warning else "", caplog.text)


# --- scripts -----------------------------------------------------------------


@pytest.mark.parametrize(
  ("text", "effect"),
  [
    ("비가 온다", "100 % of the words, such as '비가': it splits Hangul"),
    ("비 word or two", "25 % of the words"),
    ("วันนี้ฝนตกหนัก", "100 % of the words, such as 'วันนี้ฝนตกหน'"),
  ],
)
def test_texts_that_lower_casing_harms_cause_one_warning_with_a_remedy(
  caplog, text, effect
):
  for name in ("train.tsv", "dev.tsv"):
    vocab_checks.warn_of_scripts([text] * 50, name)
  [warning] = caplog.messages
  assert re.match(f"train.tsv: do_lower_case=True damages {effect}", warning)
  assert "Give do_lower_case=False, here and to every program" in warning
  assert "docs/languages.md" in warning


def test_there_is_no_warning_for_texts_that_lower_casing_does_not_harm(caplog):
  for text in ("Schöne Grüße", "今天下雨", "Сегодня идёт", "a 비 word or two"):
    vocab_checks.warn_of_scripts([text] * 50, "text.txt")
  assert not caplog.messages


def test_scripts_of_examples_are_checked_only_if_the_tokenizer_lower_cases(
  caplog, tmp_path
):
  for lower_case in (False, True):
    assert "damages" not in caplog.text
    tokenizer = _tokenizer(tmp_path, ["[UNK]", "비"], lower_case)
    texts = [("오늘은 비가 온다", None)] * 5
    vocab_checks.warn_of_examples(tuple, texts, tokenizer, "a.tsv")
  assert "a.tsv: do_lower_case=True damages 100 % of the words" in caplog.text


# --- Samples -----------------------------------------------------------------


def test_the_first_1000_lines_are_read_but_not_from_a_device(tmp_path):
  paths = [str(tmp_path / name) for name in "abc"]
  for path in paths:
    open(path, "w").close()
  read = vocab_checks.sample(["/dev/null", *paths], lambda path: [path] * 600)
  assert [*read] == [paths[0]] * 600 + [""] + [paths[1]] * 399


def test_1000_examples_and_200_000_characters_are_checked(tmp_path, caplog):
  tokenizer = _tokenizer(tmp_path, ["[UNK]", "river"], True)
  rows = [("river",)] * 1000 + [("brook",)] * 1000
  vocab_checks.warn_of_examples(tuple, rows, tokenizer, "a.tsv")
  texts = ["river " * 50_000, "brook " * 50_000]
  vocab_checks.warn_of_texts(texts, tokenizer, "a.tsv")
  assert not caplog.messages


def test_a_tokenizer_of_the_wrong_case_is_reported(caplog, tmp_path):
  tokenization.warn_of_case(_tokenizer(tmp_path, ["A"], True))
  text = f"do_lower_case=True, but {tmp_path}/vocab.txt has 1 of 1"
  assert text in caplog.text
