"""What stands between the matrix products, each chain in one pass over memory.

They return the type of the first argument; in training they are computed in
float32. Where nothing is to be dropped, the seed of dropout is None.

Legend: B batch, Q tokens that look at T tokens, A heads, H any size.
"""

import keras
from keras import ops

from modeling.gradients import own_gradient, sum_columns, sum_rows
from modeling.one_pass import one_pass
from modeling.randomness import uniform_bits

ACTIVATIONS = {
  "gelu": lambda x: keras.activations.gelu(x, approximate=True),
  "gelu_erf": lambda x: keras.activations.gelu(x, approximate=False),
  "relu": keras.activations.relu,
  "tanh": keras.activations.tanh,
  "linear": keras.activations.linear,
}


@one_pass
def activate(x, bias, *, name: str):
  """ACTIVATIONS[name](x + bias): [..., H], [H] -> [..., H]."""
  return ACTIVATIONS[name](ops.add(x, bias))


def drop(x, seed, *, rate: float, training: bool | None = None, dtype=None):
  """Sets a share of the values to zero and scales up the rest.

  Args:
    x: [...] float.
    seed: [2] uint32.
    rate: the share.
    training: whether to compile.
    dtype: of what it returns, by default that of x.

  Returns:
    [...].
  """
  options = {"rate": rate, "training": training}

  @own_gradient
  def run(x):
    def gradient(upstream):
      # Dropped where the values were: one chain for both.
      return _drop(upstream, seed, **options, dtype=x.dtype)

    return _drop(x, seed, **options, dtype=dtype), gradient

  return ops.cast(x, dtype or x.dtype) if seed is None else run(x)


def add_and_normalize(
  x, residual, seed, gamma, beta, *, rate: float, training: bool | None = None
):
  """Dropout, residual connection and layer normalization, always in float32.

  Args:
    x: [..., H] float.
    residual: [..., H] float, or None.
    seed: [2] uint32.
    gamma: [H] float, multiplied with.
    beta: [H] float, added.
    rate: of dropout.
    training: whether to compile.

  Returns:
    [..., H].
  """
  # Two chains: what the second computes again for its gradient it computes once
  # for each of several sums over rows, and dropout is dear.
  options = {"rate": rate, "training": training}
  if residual is None:
    total = drop(x, seed, **options, dtype="float32")
  else:
    total = _add(x, residual, seed, **options)
  return _normalize(total, gamma, beta, training=training, dtype=x.dtype)


def _add(x, residual, seed, *, rate, training):
  """Dropout of x, plus residual, in float32."""
  options = {"rate": rate, "training": training}

  @own_gradient
  def run(x, residual):
    def gradient(upstream):
      of_x = drop(upstream, seed, **options, dtype=x.dtype)
      return of_x, ops.cast(upstream, residual.dtype)

    total = _drop_and_add(x, residual, seed, **options, dtype="float32")
    return total, gradient

  return run(x, residual)


@one_pass
def _drop_and_add(x, residual, seed, *, rate):
  return _dropped(_real(x), seed, rate) + _real(residual)


@one_pass
def _drop(x, seed, *, rate):
  return _dropped(x, seed, rate)


@one_pass
def _normalize(x, gamma, beta):
  return _normal(x, _real(gamma), _real(beta))


@own_gradient
def _normal(x, gamma, beta):
  """Rows of mean 0 and variance 1, times gamma, plus beta."""
  centered = x - _mean(x)
  scale = ops.rsqrt(_mean(ops.square(centered)) + 1e-12)
  standard = centered * scale

  def gradient(upstream):
    size = x.shape[-1]
    weights = ops.reshape(gamma, (size, 1))
    mean = upstream @ weights / size
    share = (upstream * standard) @ weights / size
    of_x = scale * (upstream * gamma - mean - standard * share)
    return of_x, sum_rows(upstream * standard), sum_rows(upstream)

  return standard * gamma + beta, gradient


def attention_weights(
  scores,
  mask,
  seed,
  *,
  scale: float,
  rate: float,
  training: bool | None = None,
):
  """Softmax over the keys that a query may look at, in float32, and dropout.

  Args:
    scores: [B, A, Q, T] products of queries and keys.
    mask: [B, 1 or Q, T], 1 where the query may look at the key.
    seed: [2] uint32.
    scale: for the scores.
    rate: of dropout.
    training: whether to compile.

  Returns:
    [B, A, Q, T].
  """
  # -10000 and not -inf, as in the original: a query whose keys are all masked
  # then attends evenly instead of becoming NaN.
  hidden = (1.0 - _real(ops.expand_dims(mask, 1))) * -10000.0

  def softmax(scores):
    # Not compiled: TensorFlow's own is faster, and takes the product along.
    return ops.softmax(_real(scores) * scale + hidden)

  @own_gradient
  def trained(scores):
    weights = softmax(scores)
    return weights, lambda upstream: softmax_gradient(
      weights, upstream, scale=scale, training=True, dtype=scores.dtype
    )

  weights = trained(scores) if training else softmax(scores)
  return drop(weights, seed, rate=rate, training=training, dtype=scores.dtype)


@one_pass
def softmax_gradient(weights, upstream, *, scale: float):
  """The gradient of softmax(scale x) for x.

  Args:
    weights: [..., H] float, the softmax.
    upstream: [..., H] float.
    scale: of x.

  Returns:
    [..., H].
  """
  return scale * weights * (upstream - sum_columns(weights * upstream))


@one_pass
def cross_entropy_gradient(shares, labels, upstream):
  """(softmax - one-hot label) * upstream.

  Args:
    shares: [..., L] float, the softmax.
    labels: [...] int.
    upstream: [...] float.

  Returns:
    [..., L].
  """
  size = shares.shape[-1] or ops.shape(shares)[-1]
  is_label = ops.arange(size, dtype=labels.dtype) == labels[..., None]
  return (shares - ops.cast(is_label, shares.dtype)) * upstream[..., None]


def _dropped(x, seed, rate):
  if seed is None:
    return x
  limit = ops.array(round(rate * 2**32), "uint32")
  is_kept = uniform_bits(ops.shape(x), seed) >= limit
  return ops.where(is_kept, x / (1.0 - rate), 0.0)


def _mean(x):
  return ops.mean(x, axis=-1, keepdims=True)


def _real(x):
  return ops.cast(x, "float32")
