import hashlib
import json
from contextlib import nullcontext

import pytest

from data import vocab
from data.tokenization import FullTokenizer
from storage import UserError

WORD_PIECE = {"continuing_subword_prefix": "##", "unk_token": "[UNK]"}
MODEL = ("[PAD]", "[unused1]", "[unused2]", "[UNK]", "owl", "##s")
# Entries that the original strips to nothing, a repeated word, a Windows line
# end, and blanks around a word.
ODD = "[PAD]\n\u2028\n\nowl\r\n\u3000\n\u00a0\n\x85\n owl \n\x1c\nwren\n\n\n"


@pytest.fixture(name="write")
def _write(tmp_path):
  def write(content, name="vocab.txt"):
    content = content if isinstance(content, bytes) else content.encode()
    (tmp_path / name).write_bytes(content)
    return str(tmp_path / name)

  return write


def _ids(tokens):
  return {token: index for index, token in enumerate(tokens)}


@pytest.mark.parametrize(
  ("content", "expected"),
  [
    # A repeated token has the id of its last line, and keeps its first place
    # in the order of the dict.
    ("\ufeffa\n b\nc\nb\t\n\n\r\nd", {"a": 0, "b": 3, "c": 2, "": 5, "d": 6}),
    # Lines end at newlines only, and every line has an id.
    ("a\u2028b\r\nc\rd\n", {"a\u2028b": 0, "cd": 1}),
    (ODD, {"[PAD]": 0, "": 11, "owl": 7, "wren": 9}),
  ],
)
def test_the_id_of_a_token_is_its_line_number(write, content, expected):
  path = write(content)
  assert [*vocab.load(path).items()] == [*expected.items()]
  assert vocab.read_text(path) == content


@pytest.mark.parametrize(
  ("name", "content", "message"),
  [
    ("v.txt", b"a\n\xff\nb\n", r"v.txt, line 2.* not UTF-8"),
    ("v.txt", b"", "v.txt is empty; a vocabulary has one token a line"),
    ("v.json", "{}", "v.json: its model is WordPiece with prefix None"),
  ],
)
def test_a_file_that_is_no_vocabulary_is_refused(write, name, content, message):
  with pytest.raises(UserError, match=message):
    vocab.load(write(content, name))


def test_a_vocabulary_of_a_larger_model_is_refused():
  words = {"[PAD]": 0, "a": 7}
  vocab.check_size(words, 8)
  message = r"v.txt has 8 lines but vocab_size in c.json is 7: take the vocab"
  with pytest.raises(UserError, match=message):
    vocab.check_size(words, 7, "v.txt", "c.json")
  vocab.check_size({"[PAD]": 0, "": 1}, 1)  # a blank line is not a token


@pytest.mark.parametrize(
  ("tokens", "message"),
  [
    (MODEL, None),
    ((*MODEL, ""), None),  # a blank line at the end
    ((*MODEL, "wren"), None),  # a new token after the model's last
    (("[PAD]", "wren", "[unused2]", *MODEL[3:]), None),  # for [unused1]
    ((*MODEL[:4], "wren", "##s"), "line 5 is 'wren', but 'owl' in m/vocab.txt"),
    (MODEL[:5], "line 6 is missing, but '##s'"),
    (("wren", *MODEL), "v.txt is not the vocabulary .*line 1 is 'wren'"),
  ],
)
def test_an_error_names_the_first_line_that_differs_from_the_models_vocabulary(
  tokens, message
):
  with pytest.raises(UserError, match=message) if message else nullcontext():
    vocab.check_same(_ids(tokens), _ids(MODEL), "v.txt", "m/vocab.txt")


def test_a_fingerprint_ignores_unused_tokens(write):
  """Every Python has the same hash, even for U+1FAE8, new in Unicode 15."""
  tokenizer = FullTokenizer(write("\n".join((*MODEL, "", "\U0001fae8", ""))))
  mark = tokenizer.fingerprint
  assert tokenizer.fingerprint is mark  # not computed again
  hashed = {0: "[PAD]", 3: "[UNK]", 4: "owl", 5: "##s", 7: "\U0001fae8"}
  text = json.dumps([*map(list, hashed.items())])
  digest = hashlib.sha256(text.encode()).hexdigest()
  # The hash is followed by the number of lines and by the unused ids.
  assert mark == f"{digest[:16]}:8:1-2,6-6"
  others = "", "m", "m:7", "m:x:", mark.replace("1-2", "2-2"), f"{mark},4-4"
  assert not any(map(tokenizer.fits, others))


def test_unused_ids_finds_unused_tokens_with_any_number():
  tokens = ["[unused9]", "a", "[unused10]", "[unused123]", "[unused]"]
  assert vocab.unused_ids(tokens) == [0, 2, 3]


# --- tokenizer.json ----------------------------------------------------------


def tokenizer_json(tokens, added=(), **model):
  """Returns a tokenizer.json of transformers 5; `model` changes its "model"."""
  kind = {"type": "WordPiece", **WORD_PIECE, "vocab": _ids(tokens)}
  more = [{"content": x, "id": i} for i, x in enumerate(added, len(tokens))]
  special = [x for x in vocab.SPECIAL_TOKENS if x in tokens]
  more += [{"content": x, "id": [*tokens].index(x)} for x in special]
  return {
    "normalizer": {"type": "BertNormalizer", "lowercase": True},
    "pre_tokenizer": {"type": "BertPreTokenizer"},
    "added_tokens": more,
    "model": {k: v for k, v in (kind | model).items() if v is not None},
  }


@pytest.fixture(name="write_json")
def _write_json(write):
  return lambda *arguments, **model: write(
    json.dumps(tokenizer_json(*arguments, **model)), "tokenizer.json"
  )


@pytest.mark.parametrize("kind", ["WordPiece", None])  # early files lack a type
def test_pieces_of_a_tokenizer_json_are_read_in_order_of_ids(write_json, kind):
  path = write_json(MODEL[::-1], added=["<ent>"], type=kind)
  expected = [*MODEL[::-1], "<ent>"]
  assert vocab.load(path) == _ids(expected)
  assert vocab.read_text(path) == "".join(f"{x}\n" for x in expected)
  tokens = FullTokenizer(path).tokenize("Owls owl wren")
  assert tokens == ["owl", "##s", "owl", "[UNK]"]


def test_missing_ids_become_blank_lines(write_json):
  tokens = ("[PAD]", "a", "\n", "b")
  path = write_json(tokens, vocab={**_ids(tokens), "b": 4})
  assert vocab.read_text(path) == "[PAD]\na\n\n\nb\n"
  assert vocab.load(path) == {"[PAD]": 0, "a": 1, "": 3, "b": 4}


@pytest.mark.parametrize(
  ("model", "message"),
  [
    ({"type": "BPE"}, "its model is BPE with"),
    ({"continuing_subword_prefix": ""}, "is WordPiece with prefix  and unk"),
    ({"unk_token": "<unk>"}, "unknown token <unk>; BERT needs WordPiece with"),
  ],
)
def test_a_tokenizer_json_without_word_pieces_of_bert_is_refused(
  write_json, model, message
):
  with pytest.raises(UserError, match=message) as caught:
    vocab.load(path := write_json(MODEL, **model))
  assert path in str(caught.value)
