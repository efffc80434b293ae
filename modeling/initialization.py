"""Initial values of the network, published or structured.

Structured values ("initial_attention" of a configuration) let small models
learn from little text (docs/pretraining.md). All hidden units hold the word,
the first half also the position, and the last unit also the segment. In units
of initializer_range squared, the variance is 1 for words, 2 for positions in
the first half, and H / 5 for segments in the last unit, on average 2.2.

Legend: T positions, S segments, H hidden.
"""

import keras
import numpy as np
from keras import ops

from modeling.config import BertConfig

_POSITION_VARIANCE, _SEGMENT_VARIANCE, _MEAN_VARIANCE = 2.0, 0.2, 2.2


def initializer(config: BertConfig):
  """Makes the published initializer. Each variable needs a new one.

  Two variables with the same Keras initializer would get the same values.
  """
  return keras.initializers.TruncatedNormal(stddev=config.initializer_range)


def sinusoids(config: BertConfig):
  """Initializer of position embeddings: sines, cosines, zeros, [T, H].

  Evenly spaced frequencies make the vectors of different positions orthogonal.
  """

  def make(shape, dtype=None):
    length, width = shape
    angles = np.arange(length)[:, None] * _frequencies(width)
    waves = np.concatenate([np.sin(angles), np.cos(angles)], axis=-1)
    values = np.pad(waves, [(0, 0), (0, width // 2)])
    scale = (2 * _POSITION_VARIANCE) ** 0.5 * config.initializer_range
    return ops.cast(values * scale, dtype)

  return make


def opposite_segments(config: BertConfig):
  """Initializer of segment embeddings [S, H]: opposite signs in one unit."""

  def make(shape, dtype=None):
    values = np.zeros(shape)
    values[:2, -1] = [1, -1][: shape[0]]
    scale = (_SEGMENT_VARIANCE * shape[1]) ** 0.5 * config.initializer_range
    return ops.cast(values * scale, dtype)

  return make


def structure_attention(layer, attention: str) -> None:
  """Adds the initial attention to the first SelfAttention's kernels, [H, H].

  The first half of the heads attends to neighbors: one token before, one after,
  two before, two after and so on. With attention "left_to_right" all neighbors
  are before the token, with "right_to_left" all are after. A query is a part of
  the position, and a key is the same part of another position, by a rotation.
  The last head attends to the same word in the other segment, since a next
  sentence repeats more words than a random one. Other heads stay random.
  """
  num_heads, head_size = layer.num_heads, layer.head_size
  width = num_heads * head_size
  half = width // 2
  columns = np.arange(half).reshape(2, head_size // 2, num_heads // 2)
  columns = np.transpose(columns, (2, 0, 1)).reshape(num_heads // 2, head_size)
  queries, keys = np.zeros((2, num_heads, width, head_size))
  # A neighbor scores 32 / 3 for any head size, which is most of a softmax.
  gain = (32 / 3 * _MEAN_VARIANCE / _POSITION_VARIANCE) ** 0.5
  for head, its_columns in enumerate(columns):
    angles = _offset(head, attention) * _frequencies(width)
    cos, sin = np.diag(np.cos(angles)), np.diag(np.sin(angles))
    queries[head] = gain * np.eye(width)[:, its_columns]
    rotation = np.block([[cos, sin], [-sin, cos]])
    keys[head, :half] = gain * rotation[:, its_columns]
  # The same word scores nearly 8. A token of the other segment scores higher by
  # more than 8, so that a token is not its own match.
  match = 17**0.5 * np.eye(width)[:, -head_size:]
  queries[-1] = match
  keys[-1] = match * np.where(np.arange(width) == width - 1, -1, 1)[:, None]
  for dense, added in (layer.query, queries), (layer.key, keys):
    added = np.concatenate(added, axis=1) * head_size**-0.25
    dense.kernel.assign(dense.kernel + ops.cast(added, dense.kernel.dtype))


def _frequencies(width):
  return np.pi * (np.arange(width // 4) + 0.5) / (width // 4)


def _offset(head, attention):
  """Position that an untrained head attends to, relative to the token."""
  if attention == "bidirectional":
    return (head // 2 + 1) * (1 if head % 2 else -1)
  return (head + 1) * (1 if attention == "right_to_left" else -1)
