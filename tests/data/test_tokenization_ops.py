import random
import sys
import unicodedata

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from data import features, tokenization, vocab
from data import tokenization_ops as ops
from tests.parity import golden_files
from tests.shared import slow

VOCAB = golden_files.GOLDEN / "vocab.txt"


@pytest.fixture(scope="module", params=[True, False], ids=["lower", "cased"])
def pair(request):
  """Returns the reference tokenizer and the graph tokenizer."""
  full = tokenization.FullTokenizer(VOCAB, request.param)
  return full, full.in_graph()


# Kinds of strings on which both tokenizers must agree.


def any_of(rng, first, last):
  codes = [rng.randint(first, last) for _ in range(rng.randrange(12))]
  return "".join(chr(c) for c in codes if not 0xD800 <= c < 0xE000)


def scripts(rng):
  start = rng.randrange(0, 0x20000, 0x80)
  text = any_of(rng, start, start + 0x7F)
  return text + rng.choice(["", " ", "a", "."]) + any_of(rng, start, start + 99)


def pool(members):
  chars = [c for c in map(chr, range(sys.maxunicode + 1)) if members(c)]
  filler = ["a", "B", " ", "é", "\u0301", "\u034f", "\u0f73"]

  def draw(rng):
    number = rng.randrange(14)
    kinds = (chars if rng.random() < 0.7 else filler for _ in range(number))
    return "".join(map(rng.choice, kinds))

  return draw


def sigmas(rng):
  chars = "ΣΣΣσςAa ΑΩ.'\u00ad\u0301:\u0345ʰª中\u2028\u200bİ\0"
  return "".join(rng.choices(chars, k=12))


def long_words(rng):
  char = rng.choice("aA力é한\u0301𝅗𝅥")
  return char * rng.choice([199, 200, 201]) + rng.choice(["", "!", " b", "\0"])


def invalid(rng):
  valid = scripts(rng).encode() + b"a \xe4\xbd\xa0"
  return bytes(rng.randrange(256) if rng.random() < 0.2 else x for x in valid)


marks = pool(lambda c: unicodedata.combining(c) > 0)
changing = pool(lambda c: unicodedata.normalize("NFD", c.lower()) != c)

GENERATORS = [scripts, marks, changing, sigmas, long_words, invalid]


@pytest.mark.parametrize("generator", GENERATORS)
def test_the_graph_tokenizer_agrees_with_the_python_tokenizer(pair, generator):
  full, graph = pair
  rng = random.Random(0)
  number = 200 if generator is long_words else 1500
  check(full, graph, [generator(rng) for _ in range(number)])


def check(full, graph, texts):
  assert ids(graph, texts) == [*map(full.ids, texts)]


def ids(graph, texts):
  return graph.tokenize(tf.constant(texts, tf.string)).to_list()


@pytest.mark.parametrize("unit", ["한 Σ", slow("a "), slow(", \u0301")])
def test_the_graph_tokenizes_a_text_of_a_megabyte(pair, unit):
  full, graph = pair
  text = unit * (2**20 // len(unit.encode()))
  expected = full.ids(unit * 2000)
  assert ids(graph, [text])[0][: len(expected)] == expected


def test_the_graph_tokenizer_works_in_a_dataset_and_without_texts():
  graph = tokenization.FullTokenizer(VOCAB).in_graph()
  lines = tf.data.Dataset.from_tensor_slices(["a b", "", "c"]).batch(2)
  result = [batch.to_list() for batch in lines.map(graph.tokenize)]
  assert result == [[[1037, 1038], []], [[1039]]]  # ids of a, b and c
  assert ids(graph, []) == []


def test_both_tokenizers_agree_for_odd_lines_of_a_vocabulary(tmp_path):
  path = tmp_path / "vocab.txt"
  path.write_text("[UNK]\na\n b \n\na\n\nc d\n\u2028\n##e", encoding="utf-8")
  full = tokenization.FullTokenizer(path)
  graph = full.in_graph()
  check(full, graph, ["a b c d", "ae be e", "[UNK] \u2028"])
  assert graph.vocab == full.vocab == vocab.load(path)
  path.write_text("a\n")
  with pytest.raises(ValueError, match=r"vocab.txt lacks \[UNK\]"):
    tokenization.FullTokenizer(path).in_graph()


def test_a_saved_model_contains_the_vocabulary_of_its_tokenizer(tmp_path):
  path, module = tmp_path / "my_vocab.txt", tf.Module()
  path.write_bytes(VOCAB.read_bytes())
  module.tokenizer = tokenization.FullTokenizer(path).in_graph()
  path.unlink()

  @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
  def serve(texts):
    ids = module.tokenizer.tokenize(texts)
    tokens = module.tokenizer.tokens(ids)
    return {"ids": ids.to_tensor(), "tokens": tokens.to_tensor()}

  module.serve = serve
  tf.saved_model.save(module, str(tmp_path / "model"))
  saved = tf.saved_model.load(str(tmp_path / "model"))
  text = "Ünaffable ΑΣ 한"
  result = saved.signatures["serving_default"](tf.constant([text]))
  full = tokenization.FullTokenizer(VOCAB)
  tokens = full.tokenize(text)
  assert result["ids"].numpy().tolist() == [full.convert_tokens_to_ids(tokens)]
  assert [token.decode() for token in result["tokens"].numpy()[0]] == tokens


# Word pieces.


def random_words(rng, longest):
  lengths = (rng.randint(1, longest) for _ in range(rng.randrange(30)))
  return ["".join(rng.choices("aab#é한", k=length)) for length in lengths]


@pytest.mark.parametrize("seed", [*range(8), *map(slow, range(8, 20))])
def test_both_tokenizers_agree_for_any_vocabulary(seed, tmp_path):
  rng = random.Random(seed)
  pieces = random_words(rng, 4) + ["##" + w for w in random_words(rng, 3)]
  pieces = list(dict.fromkeys(["[UNK]", "#", "##", *pieces]))
  rng.shuffle(pieces)
  vocabulary = {piece: index for index, piece in enumerate(pieces)}
  specification = tokenization.WordpieceTokenizer(vocabulary)
  words = random_words(rng, 9) + random_words(rng, 3)

  path = tmp_path / "vocab.txt"
  vocab.save(vocabulary, path)
  splitter = tokenization.FullTokenizer(path).in_graph()._wordpieces
  result = splitter(tf.constant(words, tf.string)).to_list()
  assert [[pieces[index] for index in row] for row in result] == [
    specification.tokenize(word) for word in words
  ]


@pytest.mark.parametrize("longest", ["##bcdefghijk", "abcdefghijk", "##é##é"])
def test_the_graph_finds_the_longest_word_piece(longest, tmp_path):
  vocab.save(["[UNK]", "a", "##b", "##c", longest], tmp_path / "vocab.txt")
  full = tokenization.FullTokenizer(tmp_path / "vocab.txt", False)
  end = longest.removeprefix("##")
  words = ["a" + end, end, "a" + end + "b", "ab" + end, "a" + end[:-1]]
  check(full, full.in_graph(), [*words, " ".join(words)])


# --- Rows --------------------------------------------------------------------


CLS, SEP = 101, 102
_rows = st.lists(
  st.tuples(st.integers(0, 9), st.integers(0, 9), st.booleans()), max_size=5
)


def _texts(rows):
  """Returns distinct tokens for first and second texts of given lengths."""
  first = [[10 + i for i in range(a)] for a, _, _ in rows]
  second = [[50 + i for i in range(b)] for _, b, _ in rows]
  return first, second


def _ragged(lists):
  return tf.ragged.constant(lists, tf.int32, ragged_rank=1)


@given(_rows, st.integers(0, 20))
def test_the_graph_truncates_pairs_as_features_py_does(rows, limit):
  each = tf.range(limit, limit + 3 * len(rows), 3, tf.int64)
  for limits in (limit, each):
    first, second = _texts(rows)
    result = ops.truncate_pair(_ragged(first), _ragged(second), limits)
    numbers = np.broadcast_to(limits, len(rows))
    for *pair, number in zip(first, second, numbers, strict=True):
      features.truncate_pair(*pair, number)
    assert [part.to_list() for part in result] == [first, second]


def _expected(first, second):
  """Returns inputs that data/features.py makes; a second text may be None."""
  pairs = zip(first, second, strict=True)
  joined = [features.join(a, b, CLS, SEP) for a, b in pairs]
  length = max([2, *(len(ids) for ids, _ in joined)])
  rows = [features.pad_inputs(*row, length) for row in joined]
  return {name: [row[name] for row in rows] for name in features.TOKENS}


def _lists(inputs):
  return {name: value.numpy().tolist() for name, value in inputs.items()}


@given(_rows)
def test_the_graph_joins_rows_as_features_py_does(rows):
  first, second = _texts(rows)
  result = ops.join(_ragged(first), None, CLS, SEP)
  assert _lists(result) == _expected(first, [None] * len(rows))
  has_second = [has for _, _, has in rows]
  second = [x if y else None for x, y in zip(second, has_second, strict=True)]
  texts = _ragged([text or [] for text in second])
  has_second = tf.constant(has_second, tf.int64)
  result = ops.join(_ragged(first), texts, CLS, SEP, has_second)
  assert _lists(result) == _expected(first, second)


def test_rows_of_an_empty_batch_have_two_columns():
  nothing, has_second = _ragged([]), tf.zeros([0], tf.int64)
  for second in (None, nothing):
    for value in ops.join(nothing, second, CLS, SEP, has_second).values():
      assert value.shape == (0, 2)
      assert value.dtype == tf.int32
