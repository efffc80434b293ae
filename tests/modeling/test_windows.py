import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from modeling import models
from modeling.encoder_variants import PoolWindows, TextWindows
from tests import small_model

CLS, SEP = 2, 3
CONFIG = small_model.narrow(60)


def _rows(lengths, padding=0):
  """Returns [CLS] 10 11 12 ... [SEP] with the given numbers of text tokens."""
  rows = [[CLS, *range(10, 10 + n), SEP] for n in lengths]
  width = max(map(len, rows)) + padding
  ids = np.array([row + [0] * (width - len(row)) for row in rows], np.int32)
  return ids, (ids > 0).astype(np.int32)


def _windows(number, size, stride):
  """Returns the windows of a row of `_rows`, until they have all tokens."""
  text, windows, first = [*range(10, 10 + number)], [], 0
  while not windows or first - stride + size - 2 < number:
    windows.append([CLS, *text[first : first + size - 2], SEP])
    first += stride
  return windows


@given(
  st.lists(st.integers(0, 40), min_size=1, max_size=3),
  st.integers(3, 9).flatmap(
    lambda size: st.tuples(st.just(size), st.integers(1, size - 2))
  ),
  st.integers(0, 3),
)
def test_windows_contain_every_token(lengths, sizes, padding):
  size, stride = sizes
  ids, mask, is_there = map(
    np.asarray, TextWindows(size, stride)(*_rows(lengths, padding))
  )
  width = ids.shape[1]
  assert width <= size
  np.testing.assert_array_equal(mask, ids > 0)
  expected = [_windows(number, size, stride) for number in lengths]
  most = is_there.shape[1]  # padding may add windows
  exists = [[n < len(windows) for n in range(most)] for windows in expected]
  np.testing.assert_array_equal(is_there, exists)
  rows = [
    tokens + [0] * (width - len(tokens))
    for windows in expected
    for tokens in windows + [[CLS, SEP]] * (most - len(windows))
  ]
  assert ids.tolist() == rows


def test_pooling_ignores_windows_that_a_text_lacks():
  vectors = tf.constant([[1.0, -2], [3, -4], [5, -6], [99, 99]])
  is_there = tf.constant([[1.0, 1], [1, 0]])
  mean, top = (PoolWindows(how)(vectors, is_there) for how in ("mean", "max"))
  np.testing.assert_allclose(mean, [[2, -3], [5, -6]])
  np.testing.assert_allclose(top, [[3, -2], [5, -6]])


def _inputs(lengths, padding=0):
  ids, mask = _rows(lengths, padding)
  values = ids, mask, np.zeros_like(ids)
  return dict(zip(models.ENCODER_INPUTS, values, strict=True))


def _parts_of_13_tokens():
  """Yields the windows of a text of 13 tokens, with stride 4."""
  ids = _rows([13])[0][0]
  for part in (ids[1:7], ids[5:11], ids[9:14]):
    row = _inputs([len(part)])
    row["input_ids"][0, 1:-1] = part
    yield row


@pytest.mark.parametrize("pooling", ["mean", "max"])
def test_logits_equal_the_logits_of_windows_cut_by_hand(pooling):
  model = models.classifier(CONFIG, 3, windows=models.Windows(8, 4, pooling))
  alone = models.classifier(CONFIG, 3)
  alone.set_weights(model.get_weights())
  together = model(_inputs([13, 30, 1], padding=2))["logits"]
  for result, length in zip(together, (13, 30, 1), strict=True):
    [expected] = model(_inputs([length]))["logits"]
    np.testing.assert_allclose(result, expected, atol=1e-5)
  if pooling == "mean":  # the head is linear
    logits = [alone(row)["logits"][0] for row in _parts_of_13_tokens()]
    np.testing.assert_allclose(together[0], np.mean(logits, axis=0), atol=1e-5)


def test_xla_compiles_a_model_that_reads_windows():
  model = models.classifier(CONFIG, 3, windows=models.Windows(8, 4, "max"))
  inputs = {k: tf.constant(v) for k, v in _inputs([13, 4], 5).items()}
  result = tf.function(model, jit_compile=True)(inputs)["logits"]
  np.testing.assert_allclose(result, model(inputs)["logits"], atol=1e-5)


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_vectors_equal_the_vectors_of_windows_cut_by_hand(pooling):
  args = CONFIG, [0, -1], pooling
  model = models.layer_outputs(*args, models.Windows(8, 4, "max"))
  alone = models.layer_outputs(*args)
  alone.set_weights(model.get_weights())
  together = model(_inputs([13, 2], padding=1))["values"]  # [B, N, H]
  vectors = [alone(row)["values"][0] for row in _parts_of_13_tokens()]
  expected = [np.max(vectors, axis=0), alone(_inputs([2]))["values"][0]]
  np.testing.assert_allclose(together, expected, atol=1e-5)
