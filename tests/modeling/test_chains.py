"""Compiled chains against what they say, values and gradients."""

import numpy as np
import pytest
import tensorflow as tf

from modeling import chains
from modeling.randomness import uniform_bits

SEED = tf.constant([5, 7], tf.uint32)


def _normal(*shape):
  return tf.constant(np.random.default_rng(3).normal(size=shape), tf.float32)


def _mask(*shape):
  return tf.constant(np.random.default_rng(4).integers(0, 2, shape), tf.int32)


NORM = (_normal(2, 3, 8), _normal(2, 3, 8)[::-1])
SCALES = (1.0 + 0.1 * _normal(8), _normal(8))
CALLS = {
  "gelu": (chains.activate, (_normal(6, 8), _normal(8)), {"name": "gelu"}),
  "gelu_erf": (
    chains.activate,
    (_normal(6, 8), _normal(8)),
    {"name": "gelu_erf"},
  ),
  "drop": (chains.drop, (_normal(4, 6), SEED), {"rate": 0.5}),
  "norm": (
    chains.add_and_normalize,
    (*NORM, SEED, *SCALES),
    {"rate": 0.3},
  ),
  "norm without residual and dropout": (
    chains.add_and_normalize,
    (NORM[0], None, None, *SCALES),
    {"rate": 0.0},
  ),
  "attention": (
    chains.attention_weights,
    (_normal(2, 3, 4, 4), _mask(2, 4, 4), SEED),
    {"scale": 0.5, "rate": 0.2},
  ),
  "attention to padding alone": (
    chains.attention_weights,
    (_normal(2, 3, 4, 4), tf.zeros([2, 1, 4], tf.int32), None),
    {"scale": 0.5, "rate": 0.2},
  ),
}


def _run(chain, tensors, options, training):
  watched = [t for t in tensors if t is not None and t.dtype.is_floating]
  with tf.GradientTape() as tape:
    tape.watch(watched)
    output = chain(*tensors, **options, training=training)
    total = tf.reduce_sum(tf.square(output) + 0.5 * output)
  return output, tape.gradient(total, watched)


@pytest.mark.parametrize("in_graph", [False, True])
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_compiled_and_plain_are_the_same(call, in_graph):
  run = tf.function(_run) if in_graph else _run
  plain, gradients = _run(*call, training=False)
  compiled, same = run(*call, training=True)
  np.testing.assert_allclose(compiled, plain, atol=2e-6)
  for one, other in zip(same, gradients, strict=True):
    np.testing.assert_allclose(one, other, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_other_types_are_computed_in_float32(call, dtype):
  chain, tensors, options = call
  narrow = [
    t if t is None or not t.dtype.is_floating else tf.cast(t, dtype)
    for t in tensors
  ]
  wide = [
    t if t is None or not t.dtype.is_floating else tf.cast(t, tf.float32)
    for t in narrow
  ]
  output = chain(*narrow, **options, training=True)
  assert output.dtype == dtype
  exact = chain(*wide, **options, training=True)
  np.testing.assert_array_equal(output, tf.cast(exact, dtype))


def test_normalization_has_the_gradient_of_its_formula():
  tensors = (_normal(2, 3, 8), *SCALES)

  def by_definition(x, gamma, beta):
    mean, variance = tf.nn.moments(x, [-1], keepdims=True)
    return gamma * (x - mean) * tf.math.rsqrt(variance + 1e-12) + beta

  def chain(x, gamma, beta):
    return chains.add_and_normalize(
      x, None, None, gamma, beta, rate=0.0, training=True
    )

  def gradients(function):
    with tf.GradientTape() as tape:
      tape.watch(tensors)
      output = function(*tensors)
    return tape.gradient(output, tensors, tf.sin(tensors[0]))

  for found, known in zip(
    gradients(chain), gradients(by_definition), strict=True
  ):
    np.testing.assert_allclose(found, known, atol=1e-5)


def test_lengths_may_be_unknown_when_traced():
  chain, tensors, options = CALLS["attention"]

  def both(scores, mask):
    with tf.GradientTape() as tape:
      tape.watch(scores)
      weights = chain(scores, mask, SEED, **options, training=True)
    return weights, tape.gradient(weights, scores, tf.sin(scores))

  traced = tf.function(
    both,
    input_signature=[
      tf.TensorSpec([None, 3, None, None]),
      tf.TensorSpec([None, None, None], tf.int32),
    ],
  )
  for length in (4, 3):
    scores = tensors[0][..., :length, :length]
    mask = tensors[1][..., :length, :length]
    for found, known in zip(
      traced(scores, mask), both(scores, mask), strict=True
    ):
      np.testing.assert_allclose(found, known, atol=1e-6)


def test_what_is_dropped_has_no_gradient():
  x = tf.ones([1000, 50])
  with tf.GradientTape() as tape:
    tape.watch(x)
    y = chains.drop(x, SEED, rate=0.1, training=True)
  assert np.mean(y == 0) == pytest.approx(0.1, abs=0.005)
  np.testing.assert_array_equal(tape.gradient(y, x), y)


@pytest.mark.parametrize("other", [(5, 8), (6, 7)])
def test_masks_of_two_seeds_have_nothing_to_do_with_each_other(other):
  limit = 2**31

  def kept(seed):
    bits = uniform_bits((300, 1000), tf.constant(seed, tf.uint32))
    return bits.numpy() >= limit

  first, second = kept((5, 7)), kept(other)
  shifts = [(0, 0), (0, 1), (1, 0), (3, 17)]
  for shift in shifts:
    moved = np.roll(second, shift, (0, 1))
    assert np.mean(first == moved) == pytest.approx(0.5, abs=0.01)
  for shift in shifts[1:]:
    moved = np.roll(first, shift, (0, 1))
    assert np.mean(first == moved) == pytest.approx(0.5, abs=0.01)


def test_bits_are_even():
  bits = uniform_bits((2**16,), SEED).numpy()
  counts = np.bincount(bits >> 28, minlength=16)
  # Chi squared with 15 degrees of freedom: beyond 37.7 once in a thousand.
  assert np.sum((counts - 4096.0) ** 2 / 4096.0) < 37.7
