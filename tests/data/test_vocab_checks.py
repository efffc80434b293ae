import os
import re
import unicodedata
from itertools import count

import pytest
from absl import logging

from data import tokenization, vocab_checks
from data.tokenization import FullTokenizer, doubt_case
from storage import textfiles

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


def test_the_warning_about_the_case_is_logged_once(caplog, tmp_path):
  for _ in range(2):
    tokenization.warn_of_case(_tokenizer(tmp_path, ["A"], True))
  text = f"do_lower_case=True, but {tmp_path}/vocab.txt has 1 of 1"
  assert caplog.text.count(text) == 1


JAMO = ["ᄒ", "##ᅡ", "##ᆫ", "##ᄀ", "##ᅮ", "##ᆨ", "##ᄋ", "##ᅥ"]
KOREAN = "한국어 한국"
OTHER_CASE = "100 % .* '한국어'; with do_lower_case=True .* 0 %"
DECOMPOSED = r"100 % .* decomposed \(NFD\); composed \(NFC\) it would be 0 %"


@pytest.mark.parametrize(
  ("tokens", "lower_case", "text", "warning"),
  [
    (JAMO, False, KOREAN, OTHER_CASE),
    (JAMO, True, KOREAN, None),
    (["owl", "##s"], False, "Owl owls owls", "33 % .*such as 'Owl'; with"),
    (["owl"], True, "owl Wren", "50 % .*such as 'wren'; the vocabulary has no"),
    (["owl"], True, "owl " * 10 + "wren", None),
    (["owl"], True, " ", None),
    (["한국"], False, unicodedata.normalize("NFD", "한국"), DECOMPOSED),
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


@pytest.mark.parametrize(("form", "number"), [("NFD", 1), ("NFC", 0)])
def test_decomposed_texts_are_reported(caplog, form, number):
  # Three of five words. NFC has no composed form of क़.
  text = unicodedata.normalize(form, "오늘은 비가 온다 क़ लम")
  vocab_checks.warn_of_decomposed([text], "text.txt")
  assert len(caplog.messages) == number
  assert ("text.txt: 60 % of the words are" in caplog.text) == (number == 1)


# --- scripts -----------------------------------------------------------------


@pytest.mark.parametrize(
  ("text", "script", "change"),
  [
    ("오늘은 비가 많이 온다", "Hangul", "2 characters, becomes 4"),
    ("비", "Hangul", "1 character, becomes 2"),
    ("आज बहुत बारिश हुई", "Devanagari", "loses vowels or other signs"),
    ("วันนี้ฝนตกหนัก", "Thai", "loses vowels or other signs"),
    ("がっこうへ いぐ", "Kana", "loses vowels or other signs"),
  ],
)
def test_texts_that_lower_casing_harms_cause_one_warning_with_a_remedy(
  caplog, text, script, change
):
  for name in ("train.tsv", "dev.tsv"):
    vocab_checks.warn_of_scripts([text] * 50, name)
  [warning] = caplog.messages
  assert warning.startswith(f"train.tsv: 100 % of the letters are {script}, ")
  assert change in warning
  assert "do_lower_case=False, here and to every program" in warning
  assert "docs/languages.md" in warning


@pytest.mark.parametrize(
  "text",
  ["Schöne Grüße", "今天下雨", "Сегодня идёт дождь", "a 비 word or two " * 9],
)
def test_there_is_no_warning_for_texts_that_lower_casing_does_not_harm(
  caplog, text
):
  vocab_checks.warn_of_scripts([text] * 50, "text.txt")
  assert not caplog.messages


@pytest.mark.parametrize(
  ("vocabulary", "remedy"),
  [
    (["a", "##비"], "do_lower_case=False: the vocabulary has such letters"),
    (["a", "ᄇ"], "learn a vocabulary with build_vocab.py"),
  ],
)
def test_the_remedy_for_hangul_fits_the_vocabulary(caplog, vocabulary, remedy):
  vocab_checks.warn_of_scripts(["비가 온다"], "text.txt", vocabulary)
  assert remedy in caplog.text


def test_scripts_of_examples_are_checked_only_if_the_tokenizer_lower_cases(
  caplog, tmp_path
):
  for lower_case in (False, True):
    assert "Hangul" not in caplog.text
    tokenizer = _tokenizer(tmp_path, ["[UNK]", "비"], lower_case)
    texts = [("오늘은 비가 온다", None)] * 5
    vocab_checks.warn_of_examples(tuple, texts, tokenizer, "a.tsv")
  assert "a.tsv: 100 % of the letters are Hangul" in caplog.text


# --- Samples: the part of the texts that is read -----------------------------


@pytest.mark.parametrize(
  ("number", "files", "lines"),
  # Of 21 files, every second one is read: 1,000 // 11 lines of each.
  [(0, 0, 0), (1, 1, 1000), (3, 3, 333), (21, 11, 90), (4000, 20, 50)],
)
def test_a_sample_has_at_most_1000_lines_the_first_of_at_most_20_files(
  tmp_path, number, files, lines
):
  paths = [str(tmp_path / f"{i:04}") for i in range(number)]
  for path in paths:
    open(path, "w").close()
  read = {}

  def endless(path):
    for line in count(1):
      read[path] = line
      yield path

  # A device is left out, like a pipe.
  sample = list(vocab_checks.sample([*paths, "/dev/null"], endless))
  assert [*read.values()] == [lines] * files
  assert len(sample) == files * lines
  chosen = [paths.index(path) for path in read] or [0]
  assert chosen[0] == 0  # the files are spread evenly, from the first on
  # The last file that is read is near the end.
  assert number - chosen[-1] <= number // max(files, 1) + 1


def test_at_most_a_thousand_examples_are_checked(tmp_path):
  tokenizer = _tokenizer(tmp_path, ["[UNK]", "river"], True)
  for number in (1, 999, 1000, 1001, 25_000):
    seen = []

    def texts(index, seen=seen):
      seen.append(index)
      return "river", None

    vocab_checks.warn_of_examples(texts, range(number), tokenizer, "a.tsv")
    assert min(number, 500) <= len(seen) <= 1000
    assert seen[0] == 0
    assert number - seen[-1] <= number // len(seen) + 1  # spread evenly


def test_only_the_first_200_000_characters_are_checked():
  """To count all words of a corpus with long lines would take minutes."""
  texts = iter(["abcd " * 2000] * 1000)  # a text has 10,000 characters
  assert vocab_checks._count_words(texts) == {"abcd": 42_000}
  assert len([*texts]) == 979  # the 21st text exceeds 200,000 characters


def test_a_sample_reads_nothing_from_a_pipe(tmp_path):
  (tmp_path / "text").write_text("a\nb\n")
  descriptor, write = os.pipe()
  os.write(write, b"c\n")
  os.close(write)
  paths = [str(tmp_path / "text"), f"/dev/fd/{descriptor}"]
  assert [*vocab_checks.sample(paths, textfiles.lines)] == ["a", "b"]
  with os.fdopen(descriptor) as file:
    assert file.read() == "c\n"
