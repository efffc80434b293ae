import os
import re
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


@pytest.mark.parametrize(
  ("tokens", "lower_case", "text", "warning"),
  [
    (
      JAMO,
      False,
      "한국어 한국",
      "100 % .* '한국어'; check do_lower_case, conv",
    ),
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
    ("आज बहुत बारिश हुई", "50 % of the words, such as 'हुई'"),
    ("วันนี้ฝนตกหนัก", "100 % of the words, such as 'วันนี้ฝนตกหน'"),
    ("がっこうへ いぐ", "100 % of the words, such as 'いぐ'"),
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


@pytest.mark.parametrize(
  "text",
  ["Schöne Grüße", "今天下雨", "Сегодня идёт дождь", "a 비 word or two"],
)
def test_there_is_no_warning_for_texts_that_lower_casing_does_not_harm(
  caplog, text
):
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


# --- Samples: the part of the texts that is read -----------------------------


@pytest.mark.parametrize(
  ("number", "files", "lines"),
  [(0, 0, 0), (1, 1, 1000), (3, 3, 333), (21, 20, 50), (4000, 20, 50)],
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
  sample = list(vocab_checks.sample(["/dev/null", *paths], endless))
  assert read == dict.fromkeys(paths[:files], lines)
  assert len(sample) == files * lines


def test_at_most_a_thousand_examples_are_checked(tmp_path):
  tokenizer, seen = _tokenizer(tmp_path, ["[UNK]", "river"], True), []

  def texts(index):
    seen.append(index)
    return "river", None

  vocab_checks.warn_of_examples(texts, range(2000), tokenizer, "a.tsv")
  assert seen == [*range(1000)]


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
  assert [*vocab_checks.sample(paths, textfiles.lines)] == ["a", "b", ""]
  with os.fdopen(descriptor) as file:
    assert file.read() == "c\n"
