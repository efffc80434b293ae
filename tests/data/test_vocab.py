import pytest
from hypothesis import given
from hypothesis import strategies as st

from data import vocab


@pytest.fixture
def write(tmp_path):
  def write(content: bytes):
    path = tmp_path / "vocab.txt"
    path.write_bytes(content)
    return path

  return write


def test_of_equal_lines_the_last_gives_the_id_and_the_first_the_order(write):
  result = vocab.load(write(b"a\n b\nc\nb\t\n\n\r\nd"))
  assert result == {"a": 0, "b": 3, "c": 2, "": 5, "d": 6}
  assert list(result) == ["a", "b", "c", "", "d"]


def test_lines_end_at_newlines_only(write):
  result = vocab.load(write("a\u2028b\r\nc\rd\n".encode()))
  assert result == {"a\u2028b": 0, "cd": 1}


def test_a_file_that_is_missing_empty_or_not_utf8_is_named(write, tmp_path):
  with pytest.raises(FileNotFoundError, match=r"nowhere\.txt"):
    vocab.load(tmp_path / "nowhere.txt")
  for content, message in (
    (b"a\n\xff\nb\n", r"vocab.txt, line 2.* not UTF-8"),
    ("한국어\n".encode("cp949"), "is CP949 for Korean"),
    (b"", "empty"),
  ):
    with pytest.raises(ValueError, match=message):
      vocab.load(write(content))


def test_missing_special_tokens_and_a_byte_order_mark_are_named(write):
  with pytest.raises(ValueError, match=r"v.txt lacks \[SEP\], \[MASK\]; add"):
    vocab.check_tokens({"[PAD]": 0, "[UNK]": 1, "[CLS]": 2}, name="v.txt")
  vocab.check_tokens(dict.fromkeys(vocab.SPECIAL_TOKENS, 0))
  result = vocab.load(write("\ufeff[PAD]\n[UNK]\n".encode()))
  with pytest.raises(ValueError, match=r"lacks \[PAD\]; .*byte order mark"):
    vocab.check_tokens(result, [vocab.PAD, vocab.UNK])


def test_a_vocabulary_of_a_larger_model_is_refused():
  words = {"[PAD]": 0, "a": 7}
  vocab.check_size(words, 8)
  message = r"v.txt has 8 lines but vocab_size in c.json is 7: take the vocab"
  with pytest.raises(ValueError, match=message):
    vocab.check_size(words, 7, "v.txt", "c.json")
  vocab.check_size({"[PAD]": 0, "": 1}, 1)  # a blank line is no token


@pytest.mark.parametrize("token", ["", " a", "a\n", "a\nb", "a\rb", "b"])
def test_what_would_not_be_loaded_is_not_saved(tmp_path, token):
  with pytest.raises(ValueError, match=r"line of a vocabulary|twice"):
    vocab.save(["b", token], tmp_path / "vocab.txt")
  assert not (tmp_path / "vocab.txt").exists()


WORDS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)
WORDS = WORDS.filter(lambda w: w == w.strip() and not {"\n", "\r"} & set(w))


@given(st.lists(WORDS, unique=True, min_size=1))
def test_any_words_come_back(tmp_path_factory, tokens):
  path = tmp_path_factory.mktemp("mit Ü und Blank") / "vocab.txt"
  vocab.save(tokens, path)
  assert list(vocab.load(path)) == tokens


MODEL = ("[PAD]", "[unused1]", "[unused2]", "[UNK]", "owl", "##s")


def _ids(tokens):
  return {token: index for index, token in enumerate(tokens)}


def test_what_goes_with_the_model():
  for tokens in (
    MODEL,
    (*MODEL, ""),  # another end of the file
    (*MODEL, "wren"),  # in a padded row
    ("[PAD]", "wren", "[unused2]", *MODEL[3:]),
  ):
    vocab.check_same(_ids(tokens), _ids(MODEL), "v", "m")


@pytest.mark.parametrize(
  ("tokens", "message"),
  [
    ((*MODEL[:4], "wren", "##s"), "line 5 is 'wren', but 'owl' in m/vocab.txt"),
    (MODEL[:5], "line 6 is missing, but '##s'"),
    (("wren", *MODEL), "v.txt is not the vocabulary .*line 1 is 'wren'"),
  ],
)
def test_the_first_different_line_is_named(tokens, message):
  with pytest.raises(ValueError, match=message):
    vocab.check_same(_ids(tokens), _ids(MODEL), "v.txt", "m/vocab.txt")


def test_unused_tokens_have_any_number():
  tokens = ["[unused9]", "a", "[unused10]", "[unused123]", "[unused]"]
  assert vocab.unused_ids(tokens) == [0, 2, 3]
