import functools
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data import tokenization, vocab
from data.features import RowEncoder
from tests import characters
from tests.parity import golden_files

VOCAB = golden_files.GOLDEN / "vocab.txt"


@functools.cache
def _full(lower=True):
  return tokenization.FullTokenizer(VOCAB, lower)


@pytest.mark.parametrize("char", ["a", "é", "力", "\U0001f989"])
def test_a_word_of_more_than_200_characters_is_unknown(char):
  pieces = tokenization.WordpieceTokenizer({char: 0, f"##{char}": 1}).tokenize
  assert pieces(200 * char) == [char, *[f"##{char}"] * 199]
  assert pieces(f"{char} {201 * char} {char}") == [char, "[UNK]", char]


def test_accents_do_not_add_to_the_length_of_a_word():
  assert "[UNK]" not in _full().tokenize("a\u0301" * 200)
  assert _full().tokenize("a\u0301" * 201) == ["[UNK]"]


# tests/parity/test_tokenization.py compares every code point and many texts
# with the original.
def test_bytes_that_are_not_utf8_are_dropped():
  assert tokenization.convert_to_unicode("é".encode() + b"\xc3") == "é"
  assert tokenization.BasicTokenizer().tokenize(b"a\xffb") == ["ab"]
  with pytest.raises(ValueError, match="Unsupported string type"):
    tokenization.convert_to_unicode(3)


KINDS = "uncased wwm_uncased multilingual chinese cased wwm_cased multi_cased"


@pytest.mark.parametrize("kind", KINDS.split())
def test_do_lower_case_must_fit_the_name_of_a_released_model(kind):
  check = tokenization.validate_case_matches_checkpoint
  lower_cased = kind not in ("cased", "wwm_cased", "multi_cased")
  folder = f"{kind}_L-12_H-768_A-12"
  for path in (f"{folder}/bert_model.ckpt", f"gs://x/{folder}/bert_model.ckpt"):
    check(lower_cased, path)
    with pytest.raises(ValueError, match=f"give do_lower_case={lower_cased}"):
      check(not lower_cased, path)
    with pytest.raises(ValueError, match=f"fit input={path}: {folder} is a"):
      check(not lower_cased, path, "input")


def test_a_name_of_no_released_model_allows_both_values_of_do_lower_case():
  paths = None, "", "bert_model.ckpt", "mine/bert_model.ckpt", "cased.ckpt"
  for flag, path in itertools.product((True, False), paths):
    tokenization.validate_case_matches_checkpoint(flag, path)


# --- CachedTokenizer ---------------------------------------------------------

# Any text without lone surrogates, which UTF-8 cannot hold.
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
LINES = st.text("aAbé ,.\t\u00a0\u2028Σσ한中\u0301\x00  ", max_size=40)
SIZES = st.sampled_from([1, 7, 10**6])


@given(st.lists(st.one_of(TEXTS, LINES)), st.booleans(), SIZES)
def test_the_cache_gives_the_ids_of_the_tokenizer(texts, lower, max_pieces):
  full = _full(lower)
  cached = tokenization.CachedTokenizer(full, max_pieces)
  for text in [*texts, *texts, "a" * 300]:
    result = cached.ids(text)
    assert result == full.ids(text)
    assert full.convert_ids_to_tokens(result) == full.tokenize(text)
    assert len(cached) <= max_pieces


def test_a_cached_piece_is_not_tokenized_again(monkeypatch):
  full, tokenized = tokenization.FullTokenizer(VOCAB), []
  tokenize = full.tokenize
  monkeypatch.setattr(
    full, "tokenize", lambda text: tokenized.append(text) or tokenize(text)
  )
  cached = tokenization.CachedTokenizer(full, 99)
  line = "the River the river. river, (the) größe größe."
  long, longer = "a" * 100, "a" * 101
  for text in (line, long, longer) * 2:
    cached.ids(text)
  # Only ASCII text between blanks is divided at punctuation. A piece of more
  # than 100 characters is not cached.
  split = ["the", "river", ".", ",", "(", ")", "größe", "größe."]
  assert sorted(tokenized) == sorted([*split, long, longer, longer])


# --- Kinds of tokenizers -----------------------------------------------------


@pytest.fixture(name="path")
def _path(tmp_path, monkeypatch):
  """Returns the path of a vocabulary for a tokenizer that only tests have."""
  kind = characters.Characters
  monkeypatch.setitem(tokenization.KINDS, characters.ENDING, kind)
  path = tmp_path / f"vocab{characters.ENDING}"
  path.write_text("ab")
  return path


def test_the_extension_of_a_vocabulary_chooses_the_tokenizer(path, tmp_path):
  tokens = tokenization.open_tokenizer(path).tokenize("aB c")
  assert tokens == ["\u2581a", "b", "<unk>"]
  for name in ("vocab.txt", "vocab"):
    vocab.save(["[UNK]", "a"], tmp_path / name)
    kind = tokenization.open_tokenizer(tmp_path / name)
    assert type(kind) is tokenization.FullTokenizer


def test_rows_have_the_special_tokens_of_their_tokenizer(path):
  encoder = RowEncoder(tokenization.open_tokenizer(path), 8)
  row = encoder.encode("ab", "b")
  assert row.ids == [0, 5, 8, 2, 6, 2]  # <s> ▁a b </s> ▁b </s>
  padded = encoder.inputs(row.ids, row.segments)["input_ids"]
  assert padded[6:] == [1, 1]  # <pad>
