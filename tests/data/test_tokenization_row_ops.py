import numpy as np
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from data import features
from data import tokenization_ops as ops

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
def test_pairs_are_shortened_alike(rows, limit):
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
  joined = [
    features.join(a, b, CLS, SEP) for a, b in zip(first, second, strict=True)
  ]
  length = max([2, *(len(ids) for ids, _ in joined)])
  rows = [features.pad_inputs(*row, length) for row in joined]
  names = features.pad_inputs([], [], length)
  return {name: [row[name] for row in rows] for name in names}


def _lists(inputs):
  return {name: value.numpy().tolist() for name, value in inputs.items()}


@given(_rows)
def test_rows_are_joined_alike(rows):
  first, second = _texts(rows)
  result = ops.join(_ragged(first), None, CLS, SEP)
  assert _lists(result) == _expected(first, [None] * len(rows))
  has_second = [has for _, _, has in rows]
  second = [x if y else None for x, y in zip(second, has_second, strict=True)]
  texts = _ragged([text or [] for text in second])
  has_second = tf.constant(has_second, tf.int64)
  result = ops.join(_ragged(first), texts, CLS, SEP, has_second)
  assert _lists(result) == _expected(first, second)


def test_rows_of_an_empty_batch_have_a_length():
  nothing, has_second = _ragged([]), tf.zeros([0], tf.int64)
  for second in (None, nothing):
    for value in ops.join(nothing, second, CLS, SEP, has_second).values():
      assert value.shape == (0, 2)
      assert value.dtype == tf.int32
