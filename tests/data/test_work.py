"""Work that no result shows: sampled lines and cached words, counted."""

from itertools import count

import pytest

from data import tokenization, vocab_checks
from tests.parity.golden_files import GOLDEN


def _numbered(limit=10**9):
  """Returns a reader of endless files, and the number of lines read by path."""
  read = {}

  def lines(path):
    for number in count():
      assert number < limit
      read[path] = number + 1
      yield f"{path} {number}"

  return lines, read


@pytest.mark.parametrize(
  ("number", "files", "lines"),
  [(1, 1, 1000), (3, 3, 333), (20, 20, 50), (21, 11, 90), (4000, 20, 50)],
)
def test_a_sample_reads_the_first_lines_of_some_files(
  tmp_path, number, files, lines
):
  """The sampled files are spread over all files."""
  paths = [str(tmp_path / f"{i:04}") for i in range(number)]
  for path in paths:
    open(path, "w").close()
  reader, read = _numbered()
  sample = list(vocab_checks.sample(paths, reader))
  assert {*read.values()} == {lines}
  assert len(read) == files
  assert len(sample) == files * lines
  chosen = [paths.index(path) for path in read]
  assert chosen[0] == 0
  assert number - chosen[-1] <= number // files + 1


def test_a_sample_of_no_file_is_empty():
  assert list(vocab_checks.sample(["/dev/null"], _numbered(0)[0])) == []
  assert list(vocab_checks.sample([], _numbered(0)[0])) == []


def test_warnings_of_examples_look_at_a_thousand_at_most():
  tokenizer = tokenization.FullTokenizer(GOLDEN / "vocab.txt")
  for number in (1, 999, 1000, 1001, 25_000):
    seen = []
    examples = range(number)
    vocab_checks.warn_of_examples(
      lambda i, seen=seen: seen.append(i) or ("river", None),
      examples,
      tokenizer,
      "a.tsv",
    )
    assert min(number, 500) <= len(seen) <= 1000
    assert seen[0] == 0
    assert number - seen[-1] <= number // len(seen) + 1


def test_words_of_the_first_characters_are_counted():
  """Counting all words of a corpus with long lines would take minutes."""
  seen = []

  def texts():
    for number in range(1000):
      seen.append(number)
      yield "abcd " * 2000  # 10,000 characters

  words = vocab_checks._count_words(texts())
  assert len(seen) == 21  # the 21st exceeds 200,000 characters
  assert words == {"abcd": 42_000}


class _Tokenizer(tokenization.FullTokenizer):
  """Notes the texts that are tokenized."""

  def __init__(self):
    super().__init__(GOLDEN / "vocab.txt")
    self.texts = []

  def tokenize(self, text):
    self.texts.append(text)
    return super().tokenize(text)


def test_each_word_is_split_once():
  tokenizer = _Tokenizer()
  cached = tokenization.CachedTokenizer(tokenizer)
  for _ in range(3):
    cached.ids("the River the river. river, (the) größe größe.")
  assert sorted(tokenizer.texts) == sorted(
    ["the", "river", ".", ",", "(", ")", "größe", "größe."]
  )


def test_a_full_cache_begins_again():
  """The cache never has more than `max_pieces` pieces."""
  tokenizer = _Tokenizer()
  cached = tokenization.CachedTokenizer(tokenizer, max_pieces=3)
  for word in "abcde":
    cached.ids(word)
    assert len(cached) <= 3
  assert sorted(cached) == ["d", "e"]
  cached.ids("d e")
  assert tokenizer.texts == [*"abcde"]
  cached.ids("a")
  assert tokenizer.texts == [*"abcdea"]


def test_a_long_piece_is_split_each_time_and_not_cached():
  tokenizer = _Tokenizer()
  cached = tokenization.CachedTokenizer(tokenizer)
  for size, number in ((100, 1), (101, 2), (5000, 2)):
    tokenizer.texts.clear()
    for _ in range(2):
      cached.ids("a" * size)
    assert len(tokenizer.texts) == number
  assert len(cached) == 1
