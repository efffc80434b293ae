import random

import pytest
import tensorflow as tf

from data import tokenization, tokenization_ops


def random_words(rng, longest):
  count = rng.randrange(30)
  return [
    "".join(rng.choices("aab#é한", k=rng.randint(1, longest)))
    for _ in range(count)
  ]


@pytest.mark.parametrize("seed", range(20))
def test_agrees_with_the_specification_for_any_vocabulary(seed):
  rng = random.Random(seed)
  pieces = random_words(rng, 4) + ["##" + w for w in random_words(rng, 3)]
  pieces = list(dict.fromkeys(["[UNK]", "#", "##", *pieces]))
  rng.shuffle(pieces)
  vocabulary = {piece: index for index, piece in enumerate(pieces)}
  specification = tokenization.WordpieceTokenizer(vocabulary)
  words = random_words(rng, 9) + random_words(rng, 3)

  splitter = tokenization_ops.GraphTokenizer(vocabulary)._wordpieces
  ids, limits = splitter(tf.constant(words, tf.string))
  for word, row, ends in zip(
    words, ids.to_list(), limits.to_list(), strict=True
  ):
    expected = specification.tokenize(word)
    assert [pieces[index] for index in row] == expected, word
    assert ends[-1] == len(word)
    if expected != ["[UNK]"]:
      starts = [0, *ends[:-1]]
      result = [word[s:e] for s, e in zip(starts, ends, strict=True)]
      assert result[0] == expected[0]
      assert ["##" + piece for piece in result[1:]] == expected[1:]


def test_longest_first_and_giving_up_by_hand():
  pieces = ["[UNK]", "un", "una", "##aff", "##able", "##a", "b"]
  vocabulary = {piece: index for index, piece in enumerate(pieces)}
  splitter = tokenization_ops.GraphTokenizer(vocabulary)._wordpieces
  words = tf.constant(["unaffable", "unable", "unaffx", "b", "unaa", "[UNK]"])
  ids, limits = splitter(words)
  # Greedy: "una" is taken although only "un" would lead on to the end.
  assert ids.to_list() == [[0], [0], [0], [6], [2, 5], [0]]
  assert limits.to_list() == [[9], [6], [6], [1], [3, 4], [5]]


def test_no_words():
  splitter = tokenization_ops.GraphTokenizer({"[UNK]": 0})._wordpieces
  ids, limits = splitter(tf.constant([], tf.string))
  assert ids.to_list() == limits.to_list() == []
