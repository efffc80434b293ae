from collections import Counter

import pytest

from data.pretraining import vocab_learning


def test_words_are_counted_as_the_tokenizer_sees_them():
  counter = vocab_learning.WordCounter(do_lower_case=True, max_words=100)
  for line in ["Don't stop.", "DON'T", "", "stop\u00a0stop"]:
    counter.add(line)
  assert counter.counts() == Counter(
    {"don": 2, "'": 2, "t": 2, "stop": 3, ".": 1}
  )


def test_the_rarest_words_are_dropped():
  counter = vocab_learning.WordCounter(do_lower_case=True, max_words=10)
  for index in range(1000):
    counter.add(f"often word{index} now")
  result = counter.counts()
  assert len(result) <= 10
  assert result["often"] == result["now"] == 1000


def test_rare_characters_stay_out_of_a_full_alphabet():
  counts = Counter({"aab": 5, "abc": 2, "ξ": 1})
  assert vocab_learning.alphabet(counts, 3) == ["a", "b", "c"]
  assert vocab_learning.alphabet(counts, 4) == ["a", "b", "c", "ξ"]


def test_a_vocabulary_has_the_requested_size():
  words = Counter({f"w{i:03}": 1000 - i for i in range(900)})
  chars = vocab_learning.alphabet(words, 100)
  for size in (30, 200, 900):
    tokens = vocab_learning.learn(words, ["[PAD]"], chars, size, min_count=1)
    assert len(tokens) == len(set(tokens)) == size


def test_rare_words_are_ignored_but_not_their_characters():
  counts = Counter({"seen": 9, "often": 9, "rarity": 1})
  chars = vocab_learning.alphabet(counts, 100)
  tokens = vocab_learning.learn(counts, [], chars, 1000, min_count=2)
  assert {"seen", "often", "y", "##y"} <= set(tokens)
  assert "rarity" not in tokens


def test_a_size_too_small_for_the_alphabet_is_an_error():
  with pytest.raises(ValueError, match="give at least 7"):
    vocab_learning.learn(Counter("abc"), ["[PAD]"], ["a", "b", "c"], 6, 1)
