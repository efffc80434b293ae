"""Texts to rows of data/features.py in the graph, and a model on such rows.

A model runs on any number of rows in batches of similar length: memory is
bounded and padding short.

Legend: B texts or rows, W words, T tokens of the longest row, L labels. A
ragged dimension is in parentheses.
"""

from collections.abc import Callable, Sequence

import tensorflow as tf

from data import features, vocab
from data.tokenization_ops import GraphTokenizer
from storage.tfrecord import Schema

# Tokens of a batch: enough to keep a processor busy, few enough for its caches.
_TOKENS = 1024
_BATCH_SIZES = (8, 16, 32)


class PackedTexts(tf.Module):
  """Base of serving tasks (export.Task): texts to rows of T tokens at most.

  Raises ValueError if the vocabulary lacks a special token.
  """

  def __init__(
    self,
    tokenizer: GraphTokenizer,
    seq_length: int,
    texts: dict[str, tf.TensorSpec],
    special_tokens: tuple[str, ...] = (vocab.CLS, vocab.SEP),
  ):
    super().__init__()
    vocab.check_tokens(tokenizer.vocab, special_tokens)
    self.texts = texts
    self.schema = Schema(*features.tokens(seq_length))
    self._tokenizer = tokenizer
    self._seq_length = seq_length
    self._ends = tokenizer.vocab[vocab.CLS], tokenizer.vocab[vocab.SEP]

  @property
  def settings(self) -> dict:
    return {}

  def _pack(
    self,
    text_a: tf.Tensor,
    text_b: tf.Tensor | None = None,
    keep_empty: bool = False,
  ) -> dict[str, tf.Tensor]:
    """Rows of texts, [B] string each, as features.TextPacker; see `join`."""
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


def split_words(
  texts: tf.Tensor, whitespace: str
) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
  """Words of texts, [B] string, and begin and end, [B, (W)] int32 each.

  `whitespace` has the characters between words, a blank among them. Begin and
  end count characters of `text.decode("utf-8", "replace")`.
  """
  texts = tf.strings.regex_replace(texts, f"[{whitespace}]", " ")
  pieces = tf.strings.split(texts, " ")  # [B, (W and empty ones)]
  chars = tf.strings.unicode_decode(pieces.values, "UTF-8")
  lengths = tf.cast(chars.row_lengths(), tf.int32)
  begin = tf.cumsum(lengths + 1, exclusive=True)  # 1 for the blank
  first = tf.gather(pieces.row_starts(), pieces.value_rowids())
  begin -= tf.gather(begin, first)
  is_word = pieces.with_values(tf.strings.length(pieces.values) > 0)
  words, begin, end = (
    tf.ragged.boolean_mask(pieces.with_values(values), is_word)
    for values in (pieces.values, begin, begin + lengths)
  )
  return words, begin, end


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


# --- Batches of rows -------------------------------------------------------


def batch_size(length: int | tf.Tensor) -> tf.Tensor:
  """Rows of a batch whose longest has `length` tokens: scalar int32."""
  size = _TOKENS // tf.maximum(length, 1)
  sizes = tf.constant(_BATCH_SIZES)
  return tf.reduce_max(tf.where(sizes <= size, sizes, _BATCH_SIZES[0]))


def row_logits(model, inputs: dict[str, tf.Tensor], size: int) -> tf.Tensor:
  """A model's `logits` for rows: [B, L] float32, of `size` L."""
  return in_batches(model, inputs, lambda logits: logits, (size,))


def token_logits(model, inputs: dict[str, tf.Tensor], size: int) -> tf.Tensor:
  """Logits of tokens, [B, T, L] float32 of `size` L; undefined for padding."""
  length = tf.shape(inputs["input_ids"])[1]
  return in_batches(model, inputs, lambda x: pad(x, length), (None, size))


def pad(values: tf.Tensor, size: tf.Tensor) -> tf.Tensor:
  """Pads dimension 1 of [B, N, ...] with zeros to `size`."""
  missing = size - tf.shape(values)[1]
  rest = [[0, 0]] * (values.shape.rank - 2)
  return tf.pad(values, [[0, 0], [0, missing], *rest])


def in_batches(
  model: Callable,
  inputs: dict[str, tf.Tensor],
  finish: Callable[[tf.Tensor], tf.Tensor],
  shape: Sequence[int | None],
  output: str = "logits",
) -> tf.Tensor:
  """`finish` of a model's output for rows, in batches of similar length.

  `finish` maps the output for b rows, cut to the tokens of the longest, to
  [b, *shape] float32, alike in all batches.
  """
  rows, longest = tf.unstack(tf.shape(inputs["input_ids"]))
  lengths = num_tokens(inputs["input_mask"])
  order = tf.argsort(lengths, stable=True)
  size = batch_size(longest)
  result = tf.TensorArray(
    tf.float32,
    1,
    dynamic_size=True,
    infer_shape=False,
    element_shape=[None, *shape],
  )

  def run_batch(number, result):
    selected = order[number * size : (number + 1) * size]
    longest = tf.concat([[1], tf.gather(lengths, selected)], axis=0)
    length = tf.reduce_max(longest)
    batch = {name: tf.gather(v, selected) for name, v in inputs.items()}
    batch |= {name: batch[name][:, :length] for name in features.TOKENS}
    values = model(batch, training=False)[output]
    return number + 1, result.write(number, finish(values))

  # At least one batch, which may be empty.
  _, result = tf.while_loop(
    lambda number, _: number < tf.maximum(-(-rows // size), 1),
    run_batch,
    (0, result),
    parallel_iterations=1,
  )
  in_order = tf.gather(result.concat(), tf.argsort(order))
  return tf.ensure_shape(in_order, [None, *shape])


def num_tokens(mask: tf.Tensor) -> tf.Tensor:
  """Tokens up to the last real one, T if there is none: [B, T] -> [B]."""
  numbers = tf.range(1, tf.shape(mask)[1] + 1)
  last = tf.reduce_max(tf.where(mask > 0, numbers, 0), axis=1)
  return tf.where(last > 0, last, tf.shape(mask)[1])
