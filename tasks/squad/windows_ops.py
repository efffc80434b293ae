"""Windows of paragraphs and candidate spans in them, in the graph.

As tasks/squad/records.py and decoding.py.

Legend: B paragraphs, N tokens of a paragraph, W windows, D tokens of the
paragraph in a window, T tokens of a record, K n_best_size, C candidate spans. A
ragged dimension is in parentheses.
"""

from typing import NamedTuple

import tensorflow as tf


class Windows(NamedTuple):
  """Parts of paragraphs, in their order.

  Attributes:
    rows: [W] int64, index of the paragraph.
    tokens: [W, (D)] int64, indices of tokens among those of all paragraphs.
    is_max_context: [W, (D)] bool, whether no other window has more context for
      a token.
  """

  rows: tf.Tensor
  tokens: tf.RaggedTensor
  is_max_context: tf.RaggedTensor

  def slice(self, begin, end) -> "Windows":
    """Windows `begin` to `end`, exclusive."""
    return Windows(*(values[begin:end] for values in self))


def cut_windows(
  paragraphs: tf.RaggedTensor, max_length: tf.Tensor, doc_stride: int
) -> Windows:
  """Splits paragraphs into overlapping windows.

  Args:
    paragraphs: [B, (N)] of any type.
    max_length: [B] int64, maximum tokens of the paragraph in a window.
    doc_stride: tokens from one window to the next, `max_length` at most.

  Returns:
    All windows; none for a paragraph without tokens.
  """
  lengths = paragraphs.row_lengths()
  stride = tf.minimum(tf.constant(doc_stride, tf.int64), max_length)
  further = -(-tf.maximum(lengths - max_length, 0) // stride)
  numbers = tf.ragged.range(tf.where(lengths > 0, further + 1, 0))
  rows = numbers.value_rowids()
  begin = numbers.values * tf.gather(stride, rows)
  end = tf.minimum(
    begin + tf.gather(max_length, rows), tf.gather(lengths, rows)
  )
  shift = tf.gather(paragraphs.row_starts(), rows)
  tokens = tf.ragged.range(begin + shift, end + shift)
  count = tf.size(paragraphs.values, tf.int64)
  return Windows(rows, tokens, _is_max_context(tokens, count))


def _is_max_context(tokens, count):
  """Marks tokens in their window of most context, the first of equals.

  Args:
    tokens: [W, (D)] int64.
    count: number of tokens of all paragraphs.

  Returns:
    [W, (D)] bool.
  """
  windows, length = tokens.value_rowids(), tokens.row_lengths()
  left = tf.ragged.range(length).values
  length = tf.gather(length, windows)
  context = tf.cast(tf.minimum(left, length - 1 - left), tf.float64)
  # The same float64 operations as in records.py: there are ties.
  context += tf.constant(0.01, tf.float64) * tf.cast(length, tf.float64)
  best = tf.math.unsorted_segment_max(context, tokens.values, count)
  best = context == tf.gather(best, tokens.values)
  first = tf.math.unsorted_segment_min(
    tf.where(best, windows, windows.dtype.max), tokens.values, count
  )
  return tokens.with_values(windows == tf.gather(first, tokens.values))


def concat(first: NamedTuple, second: NamedTuple, axis: int = 0) -> NamedTuple:
  """Concatenates the tensors of two tuples of the same type."""
  pairs = zip(first, second, strict=True)
  return type(first)(*(tf.concat(pair, axis) for pair in pairs))


class Candidates(NamedTuple):
  """Spans that could be answers, grouped by question.

  Attributes:
    rows: [C] int64, index of the question.
    first: [C] int64, index of the first token among those of all paragraphs.
    last: [C] int64, index of the last.
    start_logits: [C] float64, so that sums equal those of Python's floats.
    end_logits: [C] float64.
  """

  rows: tf.Tensor
  first: tf.Tensor
  last: tf.Tensor
  start_logits: tf.Tensor
  end_logits: tf.Tensor

  @classmethod
  def empty(cls) -> "Candidates":
    """C = 0."""
    types = (tf.int64,) * 3 + (tf.float64,) * 2
    return cls(*(tf.zeros([0], dtype) for dtype in types))


def _tokens_at(positions, windows):
  """Tokens at positions in the paragraph's part of windows.

  Args:
    positions: [W, 2, K] int64, of starts and ends.
    windows: W windows.

  Returns:
    Indices of starts and ends in `windows.tokens.values`, [W, K] each, and
    [W, 2, K] bool, whether they are in the paragraph's part.
  """
  length = windows.tokens.row_lengths()[:, None, None]
  in_paragraph = (positions >= 0) & (positions < length)
  row_starts = windows.tokens.row_starts()[:, None, None]
  tokens = row_starts + tf.clip_by_value(positions, 0, length - 1)
  return *tf.unstack(tokens, axis=1), in_paragraph


def candidates(
  logits: tf.Tensor,
  windows: Windows,
  context_offset: tf.Tensor,
  n_best_size: int,
  max_answer_length: int,
) -> Candidates:
  """Spans of windows that could be answers.

  Starts and ends are among the K best of the window and in its part of the
  paragraph; a start has its maximum context in this window.

  Args:
    logits: [W, 2, T] float32, of start and end; W > 0.
    windows: W windows.
    context_offset: [W] int64, position of the first token of the paragraph.
    n_best_size: K.
    max_answer_length: maximum tokens of a span.

  Returns:
    Spans by window, by start from best to worst, by end from best to worst.
  """
  size = min(n_best_size, logits.shape[-1])
  values, positions = tf.math.top_k(logits, size)  # stable
  values = tf.cast(values, tf.float64)
  positions = tf.cast(positions, tf.int64) - context_offset[:, None, None]
  starts, ends, in_paragraph = _tokens_at(positions, windows)
  is_start = tf.gather(windows.is_max_context.values, starts)
  is_start &= in_paragraph[:, 0]
  length = ends[:, None] - starts[..., None] + 1  # [W, K, K]
  allowed = (length > 0) & (length <= max_answer_length)
  allowed &= is_start[..., None] & in_paragraph[:, 1][:, None]

  window, i, j = tf.unstack(tf.where(allowed), axis=1)
  start, end = tf.stack([window, i], axis=1), tf.stack([window, j], axis=1)
  token_ids = windows.tokens.values
  return Candidates(
    tf.gather(windows.rows, window),
    tf.gather(token_ids, tf.gather_nd(starts, start)),
    tf.gather(token_ids, tf.gather_nd(ends, end)),
    tf.gather_nd(values[:, 0], start),
    tf.gather_nd(values[:, 1], end),
  )
