"""Initial values of the network: the published ones and structured ones.

Structured values ("initial_attention" of a configuration) let small models
learn from little text (docs/pretraining.md). The first half of the hidden units
holds positions, the last unit the segment, all units the word. In units of
initializer_range squared a word's variance is 1, a position's 2 in its half, a
segment's H / 5 in its unit: 2.2 on average over the units.

Legend: T positions, S segments, H hidden.
"""

import keras
import numpy as np
from keras import ops

from modeling.config import BertConfig

_POSITION_VARIANCE, _SEGMENT_VARIANCE, _MEAN_VARIANCE = 2.0, 0.2, 2.2


def initializer(config: BertConfig):
  """Makes the published initializer, a new one for each variable.

  The same Keras initializer would give two variables the same values.
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
  """Initializer of segment embeddings: one unit has opposite signs, [S, H]."""

  def make(shape, dtype=None):
    values = np.zeros(shape)
    values[:2, -1] = [1, -1][: shape[0]]
    scale = (_SEGMENT_VARIANCE * shape[1]) ** 0.5 * config.initializer_range
    return ops.cast(values * scale, dtype)

  return make


def structure_attention(layer, attention: str) -> None:
  """Adds the initial attention to kernels, [H, H], of the first SelfAttention.

  The first half of the heads attends to neighbors: the token before, the one
  after, two before, two after and so on; with attention "left_to_right" to one,
  two, three before, with "right_to_left" to those after. Their queries are a
  part of the position, their keys the same part of another position, which is a
  rotation. The last head attends to the same word in the other segment, since a
  next sentence repeats more words than a random one. The heads between remain
  random.
  """
  num_heads, head_size = layer.num_heads, layer.head_size
  width = num_heads * head_size
  half = width // 2
  columns = np.arange(half).reshape(2, head_size // 2, num_heads // 2)
  columns = np.transpose(columns, (2, 0, 1)).reshape(num_heads // 2, head_size)
  queries, keys = np.zeros((2, num_heads, width, head_size))
  # A neighbor's score is 32 / 3, whatever the head size: most of a softmax.
  gain = (32 / 3 * _MEAN_VARIANCE / _POSITION_VARIANCE) ** 0.5
  for head, its_columns in enumerate(columns):
    angles = _offset(head, attention) * _frequencies(width)
    cos, sin = np.diag(np.cos(angles)), np.diag(np.sin(angles))
    queries[head] = gain * np.eye(width)[:, its_columns]
    rotation = np.block([[cos, sin], [-sin, cos]])
    keys[head, :half] = gain * rotation[:, its_columns]
  # The score of the same word is nearly 8, and the other segment's are greater
  # by more than this, so that a token is not its own match.
  match = 17**0.5 * np.eye(width)[:, -head_size:]
  queries[-1] = match
  keys[-1] = match * np.where(np.arange(width) == width - 1, -1, 1)[:, None]
  for dense, added in (layer.query, queries), (layer.key, keys):
    added = np.concatenate(added, axis=1) * head_size**-0.25
    dense.kernel.assign(dense.kernel + ops.cast(added, dense.kernel.dtype))


def _frequencies(width):
  return np.pi * (np.arange(width // 4) + 0.5) / (width // 4)


def _offset(head, attention):
  """Position that a head attends to at first, relative to the token's own."""
  if attention == "bidirectional":
    return (head // 2 + 1) * (1 if head % 2 else -1)
  return (head + 1) * (1 if attention == "right_to_left" else -1)
