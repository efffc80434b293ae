"""Gradients written out, on any backend of Keras.

Sums in them are products with ones: neither TensorFlow nor XLA is as fast at
sums on a CPU as at products.
"""

from collections.abc import Callable

from keras import ops


def own_gradient(function: Callable) -> Callable:
  """Makes a function differentiable by a rule that it states itself.

  Args:
    function: from tensors to an output and to its gradient, a function from
      what comes from above, of the output's shape, to a gradient for each of
      the tensors, or to the only one.

  Returns:
    A function from the same tensors to the output.
  """

  @ops.custom_gradient
  def run(*tensors):
    output, gradient = function(*tensors)

    def backward(*args, upstream=None):  # TensorFlow gives it first
      return gradient(args[0] if upstream is None else upstream)

    return output, backward

  return run


def sum_columns(x):
  """The sum over the last axis: [..., H] -> [..., 1]."""
  size = x.shape[-1] or ops.shape(x)[-1]
  return x @ ops.ones((size, 1), dtype=x.dtype)


def sum_rows(x):
  """The sum over all axes but the last: [..., H] -> [H]."""
  rows = ops.reshape(x, (-1, x.shape[-1]))
  ones = ops.ones((1, ops.shape(rows)[0]), dtype=rows.dtype)
  return (ones @ rows)[0]
