"""Warnings of scripts that lower-casing damages."""

import pytest

from data import scripts
from data.tokenization import FullTokenizer


@pytest.fixture(autouse=True)
def _no_warnings_yet(monkeypatch):
  monkeypatch.setattr(scripts, "_WARNED", set())


def _warnings(caplog, text, do_lower_case=True, vocabulary=None):
  with caplog.at_level("WARNING", logger="absl"):
    scripts.warn([text] * 50, do_lower_case, "text.txt", vocabulary)
  return [record.getMessage() for record in caplog.records]


@pytest.mark.parametrize(
  ("text", "script", "change"),
  [
    ("오늘은 비가 많이 온다", "Hangul", "2 characters, becomes 4"),
    ("आज बहुत बारिश हुई", "Devanagari", "loses vowels or other signs"),
    ("วันนี้ฝนตกหนัก", "Thai", "loses vowels or other signs"),
    ("がっこうへ いぐ", "Kana", "loses vowels or other signs"),
  ],
)
def test_script_example_and_remedy_are_named(caplog, text, script, change):
  [warning] = _warnings(caplog, text)
  assert warning.startswith(f"text.txt: 100 % of the letters are {script}, ")
  assert change in warning
  assert "--do_lower_case=False" in warning
  assert "docs/languages.md" in warning


@pytest.mark.parametrize(
  "text",
  ["Schöne Grüße", "今天下雨", "Сегодня идёт дождь", "a 비 word or two " * 9],
)
def test_other_texts_are_not_warned_about(caplog, text):
  assert not _warnings(caplog, text)


def test_a_script_is_warned_of_once(caplog):
  scripts.warn(["오늘은 비가 온다"], True, "train.tsv")
  scripts.warn(["오늘은 비가 온다"], True, "dev.tsv")
  [warning] = caplog.messages
  assert warning.startswith("train.tsv: ")


@pytest.mark.parametrize(
  ("vocabulary", "remedy"),
  [
    (["a", "##비"], "--do_lower_case=False: the vocabulary has such letters"),
    (["a", "ᄇ"], "learn a vocabulary with build_vocab.py"),
    (None, "--do_lower_case=False, here and to every program"),
  ],
)
def test_the_remedy_depends_on_the_vocabulary(caplog, vocabulary, remedy):
  [warning] = _warnings(caplog, "비가 온다", vocabulary=vocabulary)
  assert remedy in warning


def test_cased_models_are_not_warned_about(caplog):
  assert not _warnings(caplog, "오늘은 비가 온다", do_lower_case=False)


def test_examples_are_read_by_their_texts(caplog, tmp_path):
  path = tmp_path / "vocab.txt"
  path.write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n비\n", encoding="utf-8")
  examples = [("오늘은 비가 온다", None)] * 5
  with caplog.at_level("WARNING", logger="absl"):
    tokenizer = FullTokenizer(str(path))
    scripts.warn_of_examples(lambda pair: pair, examples, tokenizer, "a.tsv")
  assert "a.tsv: 100 % of the letters are Hangul" in caplog.text
