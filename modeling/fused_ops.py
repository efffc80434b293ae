"""Operations of the network, each in a plain and in a fused form.

The plain form has Keras operations. On a GPU (by default), a TPU and with JAX,
XLA compiles them and fuses them.

The fused form is for TensorFlow on a CPU, where XLA's matrix products are
slower than oneDNN's. XLA compiles only the element-wise operations between two
products (modeling/tracing.py), which would otherwise take as long as the
products. This module defines the gradients.

Both forms have the same values and gradients up to rounding, also with dropout.
Operations with an argument `training` are fused in training only, except the
operations on heads, which are fused in inference only.

Legend: B batch, T tokens, Q queries, A heads, D head size, I input size, O
output size, H any size, L labels.
"""

import math
from collections.abc import Sequence

import keras
from keras import ops

from modeling import tracing
from modeling.tracing import is_fused, to_float32


def _run(chain, *tensors, training, dtype=None, **options):
  """Runs element-wise operations; training uses float32, and XLA if fused."""
  dtype = dtype or tensors[0].dtype
  if training and is_fused():
    return tracing.run_compiled(chain, *tensors, dtype=dtype, **options)
  if training:
    tensors = map(to_float32, tensors)
  return ops.cast(chain(*tensors, **options), dtype)


def sizes(x) -> Sequence:
  """Sizes of x for a reshape: -1 for one unknown size, tensors for several."""
  if tuple(x.shape).count(None) > 1:  # otherwise -1 saves five operations
    return ops.shape(x)
  return [-1 if size is None else size for size in x.shape]


def dense(x, kernel, bias, *, activation="linear", training=None):
  """activation(x @ kernel + bias): [..., I], [I, O], [O] -> [..., O].

  `gelu` is the original's tanh approximation, `gelu_erf` the exact GELU. Other
  names are functions of keras.activations.
  """
  if activation == "linear":
    return linear(x, kernel, bias)
  rows = ops.reshape(x, (-1, x.shape[-1])) @ kernel
  rows = _run(_activate, rows, bias, activation=activation, training=training)
  return ops.reshape(rows, (*sizes(x)[:-1], bias.shape[0]))


def _activate(x, bias, *, activation):
  x = ops.add(x, bias)
  if activation in ("gelu", "gelu_erf"):
    return keras.activations.gelu(x, approximate=activation == "gelu")
  return getattr(keras.activations, activation)(x)


def linear(x, kernel, bias, *, transpose_b: bool = False):
  """Affine map: [..., I], [I, O], [O] -> [..., O].

  With `transpose_b`, the kernel is [O, I].
  """
  # With more than two axes, the product would be many small products.
  rows = ops.reshape(x, (-1, x.shape[-1]))
  rows = rows @ (ops.transpose(kernel) if transpose_b else kernel) + bias
  return ops.reshape(rows, (*sizes(x)[:-1], bias.shape[0]))


def split_heads(x, number: int, training: bool | None = None):
  """Splits vectors into heads: [B, T, H] -> [B, A, T, D]."""
  if is_fused() and not training:
    # oneDNN's transposition of a single text takes twice as long.
    return ops.stack(ops.split(x, number, axis=-1), axis=1)
  x = ops.reshape(x, (*sizes(x)[:2], number, x.shape[-1] // number))
  return ops.swapaxes(x, 1, 2)


def join_heads(x, training: bool | None = None):
  """Joins heads to vectors: [B, A, T, D] -> [B, T, H]."""
  width = x.shape[1] * x.shape[3]
  if is_fused() and not training:
    x = ops.stack(ops.unstack(x, axis=1), axis=2)
  else:
    x = ops.swapaxes(x, 1, 2)
  return ops.reshape(x, (*sizes(x)[:2], width))


def uniform_bits(shape, seed):
  """Hashes each index with a seed, [2] uint32, to a uniform uint32 number.

  XLA fuses hashes with their use, but would store numbers of a generator.
  """
  # The host counts, and sends a GPU two vectors instead of all the indices.
  *axes, columns = shape
  rows = ops.arange(math.prod(axes), dtype="int32") * columns
  rows = ops.expand_dims(ops.cast(rows, "uint32"), 1)
  indices = rows + ops.cast(ops.arange(columns, dtype="int32"), "uint32")
  seed = _hash(seed)  # indexed, because a GPU cannot unstack uint32
  bits = _hash(ops.bitwise_xor(indices, seed[0]))
  return ops.reshape(_hash(bits + seed[1]), shape)


def _hash(x):
  """The 32-bit hash `lowbias32`. Source: C. Wellons, nullprogram.com, 2018."""
  for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B), (16, 1)):
    shifted = ops.bitwise_right_shift(x, ops.array(shift, "uint32"))
    x = ops.bitwise_xor(x, shifted) * ops.array(factor, "uint32")
  return x


def dropout(x, residual=None, *, rate: float, training=None, dtype=None):
  """In training, sets a fraction `rate` of x to zero and scales up the others.

  Adds the residual, if there is one. The result has `dtype`, by default x's.
  """
  dtype = dtype or x.dtype
  seed = tracing.dropout_seed(rate, training)
  if residual is None and seed is None:
    return ops.cast(x, dtype)
  options = {"rate": rate, "training": training}
  if not (training and is_fused()):
    return _run(_add_dropped, x, seed, residual, **options, dtype=dtype)

  @ops.custom_gradient
  def fused(x, *residual):
    def gradient(upstream):  # drops the same positions; x is not needed
      gradients = [ops.cast(upstream, t.dtype) for t in (x, *residual)]
      if seed is not None:
        dropped = _run(_add_dropped, upstream, seed, **options, dtype=x.dtype)
        gradients[0] = dropped
      return gradients

    total = _run(_add_dropped, x, seed, *residual, **options, dtype=dtype)
    return total, gradient

  return fused(x) if residual is None else fused(x, residual)


def _add_dropped(x, seed, residual=None, *, rate):
  """Drops x if there is a seed, [2] uint32; the same seed drops the same."""
  if seed is not None:
    limit = ops.array(round(rate * 2**32), "uint32")
    keep = uniform_bits(ops.shape(x), seed) >= limit
    x = ops.where(keep, x / (1.0 - rate), 0.0)
  return x if residual is None else to_float32(x) + to_float32(residual)


def dropout_add_layer_norm(
  x, residual, gamma, beta, *, rate: float, training: bool | None = None
):
  """Dropout, residual connection and layer normalization, in float32.

  x and residual are [..., H], gamma and beta are [H] float32. The residual may
  be None. The result has the type of x.
  """
  total = dropout(x, residual, rate=rate, training=training, dtype="float32")
  # This chain excludes dropout: the gradient would hash the mask again.
  fused = training and is_fused()
  norm = _fused_layer_norm if fused else _layer_norm
  return _run(norm, total, gamma, beta, training=training, dtype=x.dtype)


_EPSILON = 1e-12  # of the normalization


def _layer_norm(x, gamma, beta):
  centered = x - ops.mean(x, axis=-1, keepdims=True)
  variance = ops.mean(ops.square(centered), axis=-1, keepdims=True)
  return centered * ops.rsqrt(variance + _EPSILON) * gamma + beta


def _fused_layer_norm(x, gamma, beta):
  """Like `_layer_norm`; its sums are matrix products, the fastest sums."""
  size = x.shape[-1]
  ones = ops.ones((size, 1))

  @ops.custom_gradient
  def fused(x, gamma, beta):
    centered = x - x @ ones / size
    scale = ops.rsqrt(ops.square(centered) @ ones / size + _EPSILON)
    standard = centered * scale

    def gradient(upstream):
      weights = ops.reshape(gamma, (size, 1))
      mean = upstream @ weights / size
      projection = (upstream * standard) @ weights / size
      return (
        scale * (upstream * gamma - mean - standard * projection),
        sum_leading_axes(upstream * standard),
        sum_leading_axes(upstream),
      )

    return standard * gamma + beta, gradient

  return fused(x, gamma, beta)


def masked_softmax(
  scores, attention_mask, *, scale: float, training: bool | None = None
):
  """Attention probabilities, [B, A, Q, T] float32.

  `scale` multiplies `scores` [B, A, Q, T], the products of queries and keys.
  `attention_mask` [B, 1 or Q, T] is 0 for masked keys.
  """
  # The original's -10000, not -inf: a query whose keys are all masked attends
  # evenly and does not become NaN.
  visible = ops.expand_dims(ops.cast(attention_mask, "float32"), 1)
  attention_bias = (1.0 - visible) * -10000.0

  def softmax(scores):
    # Not compiled: TensorFlow fuses the matrix product, scale and bias itself.
    return ops.softmax(ops.cast(scores, "float32") * scale + attention_bias)

  @ops.custom_gradient
  def fused(scores):
    probs = softmax(scores)
    return probs, lambda upstream: tracing.run_compiled(
      _softmax_gradient, probs, upstream, scale=scale, dtype=scores.dtype
    )

  @ops.custom_gradient
  def plain(scores):
    probs = softmax(scores)
    stored = ops.cast(probs, scores.dtype)  # half of the memory of float32

    def gradient(upstream):
      weighted = to_float32(stored) * upstream
      total = ops.sum(weighted, axis=-1, keepdims=True)
      result = scale * (weighted - to_float32(stored) * total)
      return ops.cast(result, scores.dtype)

    return probs, gradient

  if not training or (scores.dtype == "float32" and not is_fused()):
    return softmax(scores)
  return (fused if is_fused() else plain)(scores)


def _softmax_gradient(probs, upstream, *, scale):
  """Gradient of softmax(scale x) for x: [..., H], [..., H] -> [..., H]."""
  # A matrix product is the fastest sum.
  ones = ops.ones((ops.shape(probs)[-1], 1), dtype=probs.dtype)
  return scale * probs * (upstream - (probs * upstream) @ ones)


def cross_entropy(logits, labels):
  """-log softmax(logits)[label], nats: [..., L], [...] int -> [...] float32.

  The loss of a label out of range is 0.
  """
  in_range = ops.logical_and(labels >= 0, labels < ops.shape(logits)[-1])
  labels = ops.where(in_range, labels, 0)

  @ops.custom_gradient
  def fused(logits):
    probs = ops.softmax(ops.cast(logits, "float32"))
    # log(sum(exp)) from the top probability, which cannot underflow.
    top, index = ops.top_k(probs, 1)
    index = ops.concatenate([index, labels[..., None]], axis=-1)
    pair = ops.cast(ops.take_along_axis(logits, index, axis=-1), "float32")
    loss = pair[..., 0] - ops.log(top[..., 0]) - pair[..., 1]
    return loss, lambda upstream: tracing.run_compiled(
      _cross_entropy_gradient, probs, labels, upstream, dtype=logits.dtype
    )

  if is_fused():
    loss = fused(logits)
  else:
    logits = ops.cast(logits, "float32")
    loss = ops.sparse_categorical_crossentropy(labels, logits, from_logits=True)
  return ops.where(in_range, loss, 0.0)


def _cross_entropy_gradient(probs, labels, upstream):
  """(softmax - one-hot label) * upstream: [..., L]."""
  classes = ops.arange(ops.shape(probs)[-1], dtype=labels.dtype)
  is_label = classes == labels[..., None]
  return (probs - ops.cast(is_label, probs.dtype)) * upstream[..., None]


def is_correct(logits, labels):
  """1 where the largest logit is the label's: [..., L], [...] -> float32."""
  logits = ops.cast(logits, "float32")
  if is_fused():
    # cross_entropy has the same operations, and TensorFlow merges both.
    predicted = ops.top_k(ops.softmax(logits), 1)[1][..., 0]
  else:
    # Keras' argmax of floats runs on the host, even with a GPU, due to -0.0.
    is_largest = logits == ops.max(logits, -1, keepdims=True)
    predicted = ops.argmax(is_largest, axis=-1)
  # TensorFlow compares int32 on the host, even with a GPU, but not floats.
  is_label = ops.cast(predicted, "float32") == ops.cast(labels, "float32")
  return ops.cast(is_label, "float32")


def sum_leading_axes(x):
  """Sum over all axes but the last as a matrix product: [..., H] -> [H]."""
  rows = ops.reshape(x, (-1, x.shape[-1]))
  ones = ops.ones((1, ops.shape(rows)[0]), dtype=rows.dtype)
  return (ones @ rows)[0]
