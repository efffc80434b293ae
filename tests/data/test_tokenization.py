import functools
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data import tokenization
from tests.parity import golden_files

VOCAB = golden_files.GOLDEN / "vocab.txt"


def basic(text, do_lower_case=True):
  return tokenization.BasicTokenizer(do_lower_case).tokenize(text)


# tests/parity/test_tokenization.py has every code point and many texts.
@pytest.mark.parametrize(
  ("text", "lower", "cased"),
  [
    (" \t\n\r\u00a0\u3000", [], []),
    ("中文字ab[MASK]", [*"中文字", "ab", "[", "mask", "]"], None),
    ("한", ["\u1112\u1161\u11ab"], ["한"]),
    # The cleaning keeps line separators, but str.split splits there.
    ("a\u2028b\u2029c", ["a", "b", "c"], ["a", "b", "c"]),
    ("ΟΔΟΣ ΣΑΣ Σ ΑΣ\u00adΑ", ["οδος", "σας", "σ", "ασα"], None),
    (b"a\xffb", ["ab"], ["ab"]),
  ],
)
def test_words(text, lower, cased):
  assert basic(text) == lower
  assert basic(text, do_lower_case=False) == cased or cased is None


def test_word_pieces_are_the_longest_first():
  ids = dict.fromkeys(["un", "unaff", "##aff", "##able", "##a", "##b", "a"])
  tokenizer = tokenization.WordpieceTokenizer(ids)
  assert tokenizer.tokenize("unable unaffable aab") == (
    ["un", "##able", "unaff", "##able", "a", "##a", "##b"]
  )
  assert tokenizer.tokenize("unx b") == ["[UNK]", "[UNK]"]
  assert tokenizer.tokenize("") == []


def test_words_of_more_than_200_characters_without_accents_are_unknown():
  full = tokenization.FullTokenizer(VOCAB)
  assert "[UNK]" not in full.tokenize("a\u0301" * 200)
  assert full.tokenize("a\u0301" * 201) == ["[UNK]"]


def test_ids_and_tokens():
  full = tokenization.FullTokenizer(VOCAB)
  tokens = full.tokenize("UNwanted, running")
  assert tokens == ["unwanted", ",", "running"]
  ids = full.convert_tokens_to_ids(tokens)
  assert ids == [18162, 1010, 2770]
  assert full.convert_ids_to_tokens(ids) == tokens
  assert full.inv_vocab[full.vocab["[MASK]"]] == "[MASK]"


def test_convert_to_unicode():
  assert tokenization.convert_to_unicode("é") == "é"
  assert tokenization.convert_to_unicode("é\xff".encode()[:3]) == "é"
  with pytest.raises(ValueError, match="Unsupported string type"):
    tokenization.convert_to_unicode(3)


LOWER_CASED = """
uncased_L-12_H-768_A-12 uncased_L-24_H-1024_A-16 uncased_L-2_H-128_A-2
wwm_uncased_L-24_H-1024_A-16 multilingual_L-12_H-768_A-12
chinese_L-12_H-768_A-12
"""
CASED = """
cased_L-12_H-768_A-12 cased_L-24_H-1024_A-16 wwm_cased_L-24_H-1024_A-16
multi_cased_L-12_H-768_A-12
"""


@pytest.mark.parametrize("folder", (LOWER_CASED + CASED).split())
def test_the_case_of_released_models_is_known(folder):
  check = tokenization.validate_case_matches_checkpoint
  lower_cased = folder in LOWER_CASED.split()
  for path in (f"{folder}/bert_model.ckpt", f"gs://x/{folder}/bert_model.ckpt"):
    check(lower_cased, path)
    with pytest.raises(ValueError, match=f"give do_lower_case={lower_cased}"):
      check(not lower_cased, path)
    with pytest.raises(ValueError, match=f"fit input={path}: {folder} is a"):
      check(not lower_cased, path, "input")


def test_the_case_of_other_models_is_not():
  paths = None, "", "bert_model.ckpt", "mine/bert_model.ckpt", "cased.ckpt"
  for flag, path in itertools.product((True, False), paths):
    tokenization.validate_case_matches_checkpoint(flag, path)


# Any text without lone surrogates, which UTF-8 cannot hold.
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
LINES = st.text("aAbé ,.\t\u00a0\u2028Σσ한中\u0301\x00  ", max_size=40)
SIZES = st.sampled_from([1, 7, 10**6])


@given(st.lists(st.one_of(TEXTS, LINES)), st.booleans(), SIZES)
def test_the_cache_changes_nothing(texts, lower, max_pieces):
  full = _full(lower)
  cached = tokenization.CachedTokenizer(full, max_pieces)
  for text in [*texts, *texts, "a" * 300]:
    tokens = full.tokenize(text)
    result = cached.ids(text)
    assert result == full.convert_tokens_to_ids(tokens)
    assert full.convert_ids_to_tokens(result) == tokens
    assert len(cached) <= max_pieces


@pytest.mark.parametrize("unit", ["a", "owls hunt ", ".", "\0", "größe "])
def test_a_line_of_a_megabyte(unit):
  text = unit * (1_000_000 // len(unit.encode()))
  ids = tokenization.CachedTokenizer(_full(True)).ids(text)
  assert len(ids) == {"a": 1, ".": 1_000_000, "\0": 0}.get(unit, len(ids))
  assert set(ids) <= set(_full(True).vocab.values())


@functools.cache
def _full(lower):
  return tokenization.FullTokenizer(VOCAB, lower)
