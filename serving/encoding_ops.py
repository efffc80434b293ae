"""Texts to rows of data/features.py in the graph.

Legend: B texts or rows, T tokens of the longest row. A ragged dimension is in
parentheses.
"""

import tensorflow as tf

from data import vocab
from data.tokenization_ops import GraphTokenizer
from serving.answers import Answers


class EncodedTexts(tf.Module):
  """Base of texts in the graph (export.TextSignature), as their Answers."""

  def __init__(self, tokenizer: GraphTokenizer, answers: Answers):
    super().__init__()
    self._tokenizer, self._answers = tokenizer, answers
    self._seq_length = answers.config.max_seq_length
    self._ends = tokenizer.vocab[vocab.CLS], tokenizer.vocab[vocab.SEP]
    self.texts = {
      name: tf.TensorSpec([None] * (1 + rank), tf.string)
      for name, rank in answers.inputs.items()
      if name not in answers.optional
    }

  def _encode(
    self,
    text_a: tf.Tensor,
    text_b: tf.Tensor | None = None,
    keep_empty: bool = False,
  ) -> dict[str, tf.Tensor]:
    """Rows of texts, [B] string each, as features.RowEncoder; see `join`."""
    first = self._tokenizer.tokenize(text_a)
    if text_b is None:
      return join(first[:, : self._seq_length - 2], None, *self._ends)
    second = self._tokenizer.tokenize(text_b)
    # A text that is truncated to nothing gets its [SEP], too.
    lengths = second.row_lengths()
    has_second = tf.cast((lengths > 0) | keep_empty, tf.int64)
    limit = self._seq_length - 2 - has_second
    pair = truncate_pair(first, second, limit)
    return join(*pair, *self._ends, has_second)


def truncate_pair(
  first: tf.RaggedTensor, second: tf.RaggedTensor, limit: int
) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
  """Truncates pairs, [B, (T)] each, to `limit` tokens, scalar or [B]."""
  a, b = first.row_lengths(), second.row_lengths()
  # At least half of the limit each, and more if the other text is shorter.
  a = tf.minimum(a, tf.maximum(limit - b, (limit + 1) // 2))
  b = tf.minimum(b, limit - a)
  return _truncate_rows(first, a), _truncate_rows(second, b)


def _truncate_rows(ids, lengths):
  """The first tokens of each row: [B, (T)], [B] -> [B, (T)]."""
  positions = tf.ragged.range(ids.row_lengths())
  is_inside = positions.values < tf.gather(lengths, positions.value_rowids())
  return tf.ragged.boolean_mask(ids, ids.with_values(is_inside))


def join(
  first: tf.RaggedTensor,
  second: tf.RaggedTensor | None,
  cls: int,
  sep: int,
  has_second: tf.Tensor | None = None,
) -> dict[str, tf.Tensor]:
  """Rows of [CLS] first [SEP], or of [CLS] first [SEP] second [SEP].

  Texts are [B, (T)] int32, `second` None if no row has one; `has_second` [B]
  int64, by default 1 where it has tokens. Returns `input_ids`, `input_mask`,
  `segment_ids`: [B, T] int32, padded with zeros.
  """
  once = tf.ones([first.nrows()], tf.int64)
  parts = [repeat(cls, once), first, repeat(sep, once)]
  if second is not None:
    if has_second is None:
      has_second = tf.cast(second.row_lengths() > 0, tf.int64)
    parts += [second, repeat(sep, has_second)]
  ids = tf.concat(parts, axis=1)
  first_lengths = tf.add_n([part.row_lengths() for part in parts[:3]])
  return _pad_inputs(ids, first_lengths)


def _pad_inputs(ids, first_lengths):
  """Inputs of the encoder: [B, (T)] ids, [B] lengths of the first segment."""
  padded = ids.to_tensor()
  # Rows of an empty batch have the length of [CLS] [SEP].
  padded = tf.pad(padded, [[0, 0], [0, tf.maximum(2 - tf.shape(padded)[1], 0)]])
  width = tf.shape(padded)[1]
  mask = tf.sequence_mask(ids.row_lengths(), width, tf.int32)
  return {
    "input_ids": padded,
    "input_mask": mask,
    "segment_ids": mask - tf.sequence_mask(first_lengths, width, tf.int32),
  }


def repeat(token: int, counts: tf.Tensor) -> tf.RaggedTensor:
  """Rows with a token `counts` times, [B] int64: [B, (T)] int32."""
  tokens = tf.fill([tf.reduce_sum(counts)], token)
  return tf.RaggedTensor.from_row_lengths(tokens, counts)
