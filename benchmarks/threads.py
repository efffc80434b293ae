"""How many threads TensorFlow may use."""

import tensorflow as tf


def use(number: int) -> None:
  """For operations side by side and within one, before it does anything."""
  tf.config.threading.set_intra_op_parallelism_threads(number)
  tf.config.threading.set_inter_op_parallelism_threads(number)
