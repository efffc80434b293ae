from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from data import features
from data.pretraining import instances
from data.tokenization import FullTokenizer

CLS, SEP = 101, 102


def test_pairs_and_single_texts_get_special_tokens():
  ids, segments = features.join([1, 2], [3], CLS, SEP)
  assert ids == [CLS, 1, 2, SEP, 3, SEP]
  assert segments == [0, 0, 0, 0, 1, 1]
  assert features.pad_inputs(ids, segments, 8) == {
    "input_ids": [CLS, 1, 2, SEP, 3, SEP, 0, 0],
    "input_mask": [1, 1, 1, 1, 1, 1, 0, 0],
    "segment_ids": [0, 0, 0, 0, 1, 1, 0, 0],
  }
  assert features.join([1], None, CLS, SEP) == ([CLS, 1, SEP], [0, 0, 0])
  assert features.join([], [], CLS, SEP) == ([CLS, SEP, SEP], [0, 0, 1])


def test_lengths_are_counted_before_truncation(tmp_path):
  path = tmp_path / "vocab.txt"
  path.write_text("[CLS]\n[SEP]\n[UNK]\na\nb\n")
  encoder = features.RowEncoder(FullTokenizer(path), 6)
  lengths = []
  for texts, ids in (
    (("a b", None), [0, 3, 4, 1]),
    (("a b a b a", None), [0, 3, 4, 3, 4, 1]),
    (("a a a a", "b b b"), [0, 3, 3, 1, 4, 1]),
    (("a", ""), [0, 3, 1]),
    (("a", "", True), [0, 3, 1, 1]),
  ):
    lengths.append(encoder.encode(*texts).length)
    for _ in range(2):  # the cache keeps the full tokens
      assert encoder.encode(*texts).ids == ids
  assert lengths == [4, 7, 10, 3, 4]
  with pytest.raises(ValueError, match="max_seq_length 2 is too short"):
    features.RowEncoder(FullTokenizer(path), 2)
  features.RowEncoder(FullTokenizer(path), 3)
  path.write_text("[CLS]\n[SEP]\n")
  with pytest.raises(ValueError, match=r"lacks \[UNK\]"):
    features.RowEncoder(FullTokenizer(path), 3)


def test_too_much_does_not_fit():
  with pytest.raises(ValueError, match="3 values do not fit into 2"):
    features.pad([1, 2, 3], 2)


@pytest.mark.parametrize(
  ("lengths", "limit", "expected"),
  [
    ((2, 1), 3, (2, 1)),
    ((5, 2), 4, (2, 2)),
    ((3, 3), 5, (3, 2)),
    ((1, 9), 4, (1, 3)),
  ],
)
def test_the_longer_text_loses(lengths, limit, expected):
  first, second = (list(range(length)) for length in lengths)
  features.truncate_pair(first, second, limit)
  assert (first, second) == tuple(list(range(length)) for length in expected)


LENGTHS = st.integers(0, 40)


@given(LENGTHS, LENGTHS, LENGTHS, st.integers(0, 9))
@example(2, 1, 3, 1)  # fits already
@example(9, 2, 5, 1)
def test_random_truncation_equals_removing_single_tokens(a, b, limit, seed):
  """Both draw a number for each removed token, and remove at either end."""
  first, second = list(range(a)), list(range(100, 100 + b))
  expected = (list(first), list(second))
  rng = Random(seed)
  while len(expected[0]) + len(expected[1]) > limit:
    longer = max(reversed(expected), key=len)  # the second if equal
    del longer[0 if rng.random() < 0.5 else -1]
  other = Random(seed)
  instances.truncate_pair_at_random(first, second, limit, other)
  assert (first, second) == expected
  assert other.getstate() == rng.getstate()


def test_a_text_of_a_million_tokens_is_cut_at_once():
  text = list(range(1_000_000))
  instances.truncate_pair_at_random(text, [1] * 60, 125, Random(1))
  assert len(text) == 65
