from collections import Counter

from data import vocab
from data.pretraining import vocab_learning


def test_counted_words_are_the_words_of_the_tokenizer():
  counter = vocab_learning.WordCounter(do_lower_case=True, max_words=100)
  for line in ["Don't stop.", "DON'T", "", "stop\u00a0stop\x85stop\u2028stop"]:
    counter.add(line)
  assert counter.counts() == {"don": 2, "'": 2, "t": 2, "stop": 5, ".": 1}


def test_a_full_word_counter_drops_the_rarest_words():
  counter = vocab_learning.WordCounter(do_lower_case=True, max_words=10)
  for index in range(1000):
    counter.add(f"often word{index} now")
  result = counter.counts()
  assert len(result) <= 10
  assert result["often"] == result["now"] == 1000


def test_a_full_alphabet_leaves_out_the_rarest_characters(caplog):
  counts = Counter({"aab": 5, "abc": 2, "ξ": 1})  # 22 characters
  assert vocab_learning.alphabet(counts, 3) == ["a", "b", "c"]
  assert vocab_learning.alphabet(counts, 4) == ["a", "b", "c", "ξ"]
  [warning] = caplog.messages
  assert "max_alphabet=3 leaves out 1 rare characters (4.55%" in warning


def learn(counts, vocab_size, min_count=1):
  """Returns the learned pieces in order of ids, without the alphabet."""
  chars = vocab_learning.alphabet(counts, 100)
  tokens = vocab_learning.learn(counts, ["[PAD]"], chars, vocab_size, min_count)
  assert tokens[: len(chars) + 1] == ["[PAD]", *chars]
  return [token for token in tokens[1:] if len(token.removeprefix("##")) > 1]


def test_the_most_frequent_pair_is_merged_first():
  counts = Counter(hug=10, pug=5, pun=12, bun=4, hugs=5)
  # Counts: ##u ##g 20, ##u ##n 16, h ##ug 15, p ##un 12, p ##ug 5, hug ##s 5,
  # b ##un 4. The older pieces win the tie.
  pieces = ["##ug", "##un", "hug", "pun", "pug", "hugs", "bun"]
  assert learn(counts, 99) == pieces
  # [PAD], 7 letters and ##g, ##n, ##s, ##u come first.
  assert learn(counts, 15) == pieces[:3]
  # The order of the words does not matter.
  assert learn(Counter(sorted(counts.elements(), reverse=True)), 99) == pieces


def test_a_piece_occurs_min_count_times_or_more():
  counts = Counter(vacant=1, vacate=1, be=3, to=4)
  assert learn(counts, 99, 5) == []
  assert learn(counts, 99, 4) == ["to"]
  assert learn(counts, 99, 3) == ["to", "be"]
  # Words below min_count may share frequent pieces.
  assert learn(counts, 99, 2)[2:] == ["va", "##ca", "vaca"]
  assert {"vacant", "vacate"} <= set(learn(counts, 99, 1))


def test_a_pair_that_repeats_is_merged_from_the_left():
  assert learn(Counter(aaaaa=1, aaa=1), 99)[:2] == ["##aa", "aaa"]


def test_rare_and_long_words_are_ignored_but_not_their_characters():
  longest, longer = "e" * 50, "e" * 51
  counts = Counter({"seen": 9, "often": 2, "rarity": 1, longest: 9, longer: 9})
  chars = vocab_learning.alphabet(counts, 100)
  tokens = vocab_learning.learn(counts, [], chars, 1000, min_count=2)
  assert {"seen", "often", longest, "y", "##y"} <= set(tokens)
  assert not {"rarity", longer} & set(tokens)
  added = vocab_learning.choose_words(counts, ["e", "##e", "n"], 9, 2)
  assert set(added) == {"seen", "often", longest}


def test_a_chosen_word_lowers_the_savings_of_longer_words():
  tokens = ["[UNK]", "c", "##y", "##s", "##t", "##i", "##c", "a", "##b"]
  counts = Counter({"cysts": 5, "cyst": 5, "cystic": 2, "ab": 3, "c": 9})
  # The word cysts saves 5 * 4 pieces, and the word cyst saves 5 * 3. If cyst is
  # chosen first, cysts saves only 5 * 1.
  choose = vocab_learning.choose_words
  assert choose(counts, tokens, 9, 1) == ["cysts", "cyst", "cystic", "ab"]
  counts["cyst"] = 9
  assert choose(counts, tokens, 2, 1) == ["cyst", "cysts"]


def test_only_frequent_words_with_a_letter_are_chosen():
  counts = Counter({"1998": 9, "ß": 2, "ab": 1, "##": 4})
  tokens = ["[UNK]", "1", "a", "##b"]
  assert vocab_learning.choose_words(counts, tokens, 9, 2) == ["ß"]


def test_new_words_replace_unused_tokens(tmp_path, log):
  path = str(tmp_path / "vocab.txt")
  counts = Counter(ab=4, abb=3, aab=1, the=9)
  tokens = ["[PAD]", "[unused0]", "[unused1]", "[UNK]", "the", "a", "##b"]
  vocab.save(tokens, path)
  for min_count, words in ((1, ["abb", "ab"]), (4, ["ab", "[unused1]"])):
    options = {"number": 0, "min_count": min_count}  # 0: one per [unused]
    result, pieces = vocab_learning.extend(path, counts, "text", **options)
    assert result == ["[PAD]", *words, *tokens[3:]]
    ids = {"abb": [5, 6, 6], "ab": [5, 6]}
    assert pieces == {n: ids[w] for n, w in enumerate(words, 1) if w in ids}
    number = len(pieces)
    assert f"{number} new words ({', '.join(words[:number])}, ...)" in log.text


def test_lines_that_are_not_words_keep_their_ids(tmp_path):
  """The released Chinese vocabulary has a line separator, for example."""
  path = tmp_path / "vocab.txt"
  odd = ["\u2028", "", "a", " \u3000"]
  lines = ["[PAD]", "[unused0]", "[UNK]", *odd, "a\r", "##b", ""]
  path.write_bytes("\n".join(lines).encode())
  counts, options = Counter(ab=4, abb=3), {"number": 2, "min_count": 1}
  result, pieces = vocab_learning.extend(str(path), counts, "text", **options)
  assert result == ["[PAD]", "abb", "[UNK]", *odd, "a", "##b", "ab"]
  assert pieces == {1: [7, 8, 8], 9: [7, 8]}  # the last of equal lines counts


def test_words_of_a_language_with_little_text_get_a_higher_weight():
  sources = {"en": Counter(a=90, b=10), "is": Counter(a=1, c=9)}
  merged = vocab_learning.smooth(sources, 0.5)
  assert merged == Counter(a=93, b=10, c=28)  # `is` counts 10 ** 0.5 times
  assert vocab_learning.smooth(sources, 1) == Counter(a=91, b=10, c=9)
