"""Texts with [MASK] to the most probable tokens for it in the graph.

Legend: B texts, M largest number of masks, T tokens, V vocabulary, K tokens for
a mask. Ragged dimensions are in parentheses.
"""

import functools

import numpy as np
import tensorflow as tf

from data import vocab
from data.tokenization_ops import GraphTokenizer
from serving import packing_ops
from storage import UserError
from storage.tfrecord import Feature, Schema


class FillMask(packing_ops.PackedTexts):
  """Serving task (serving.export.Task) of run_pretraining.py.

  Texts are truncated to T = `seq_length`. Raises ValueError if T is too small
  or the vocabulary lacks a special token.
  """

  def __init__(
    self, tokenizer: GraphTokenizer, seq_length: int, top_k: int = 5
  ):
    texts = {"text": tf.TensorSpec([None], tf.string)}
    super().__init__(tokenizer, seq_length, texts, vocab.SPECIAL_TOKENS)
    if seq_length < 3:
      raise UserError(
        f"max_seq_length {seq_length} is too short: [CLS], [MASK] and [SEP] "
        "take 3"
      )
    positions = Feature("masked_lm_positions", (seq_length,))
    self.schema = Schema(*self.schema.values(), positions)
    ids = [i for token, i in tokenizer.vocab.items() if token]
    self._vocab_ids = np.unique(ids)
    self._top_k = min(top_k, len(self._vocab_ids))
    self._mask = tokenizer.vocab[vocab.MASK]

  @property
  def settings(self) -> dict:
    return {"top_k": self._top_k}

  def encode(self, text: tf.Tensor) -> tf.RaggedTensor:
    """Token ids; the text "[MASK]" is the mask: [B] -> [B, (T)] int32."""
    parts = tf.strings.split(text, vocab.MASK)  # [B, (masks + 1)]
    ids = self._tokenizer.tokenize(parts.values)
    # A mask before every part but the first.
    index = tf.ragged.range(parts.row_lengths()).values
    masks = packing_ops.repeat(self._mask, tf.cast(index > 0, tf.int64))
    ids = tf.concat([masks, ids], axis=1)
    return parts.with_values(ids).merge_dims(1, 2)

  def from_text(self, model, text: tf.Tensor) -> dict[str, tf.Tensor]:
    """Tokens for the masks of texts, [B] string; see `from_features`."""
    ids = self.encode(text)[:, : self._seq_length - 2]
    inputs = packing_ops.join(ids, None, *self._ends)
    rows, columns = tf.unstack(
      tf.where(inputs["input_ids"] == self._mask), axis=1
    )
    positions = tf.RaggedTensor.from_value_rowids(
      tf.cast(columns, tf.int32), rows, ids.nrows()
    )
    return self.from_features(
      model, **inputs, masked_lm_positions=positions.to_tensor()
    )

  def from_features(self, model, **inputs: tf.Tensor) -> dict[str, tf.Tensor]:
    """Tokens for masks by a model with `masked_lm_logits` [B, M, V].

    `inputs` are those of the encoder, [B, T] int32, and `masked_lm_positions`
    [B, M], padded with 0. Returns `tokens` [B, M, K], the most probable first,
    padded with ""; `probabilities` [B, M, K]; `num_masks` [B]. Raises
    InvalidArgumentError for a position beyond the tokens of its row.
    """
    positions = inputs["masked_lm_positions"]
    num_tokens = packing_ops.num_tokens(inputs["input_mask"])
    is_inside = (positions >= 0) & (positions < num_tokens[:, None])
    # Else another row's tokens would be read, perhaps those of another client.
    message = "masked_lm_positions beyond the tokens of a row"
    check = tf.debugging.Assert(tf.reduce_all(is_inside), [message])
    with tf.control_dependencies([check]):
      is_mask = positions > 0

    def best(logits):
      logits += self._vocab_bias(logits.shape[-1])  # [b, up to M, V]
      top_logits, ids = tf.math.top_k(logits, self._top_k)
      log_sum = tf.reduce_logsumexp(logits, axis=-1, keepdims=True)
      pair = tf.exp(top_logits - log_sum), tf.cast(ids, tf.float32)
      return packing_ops.pad(tf.concat(pair, -1), tf.shape(positions)[1])

    pair = packing_ops.in_batches(
      functools.partial(_call, model),
      inputs | {"masked_lm_positions": tf.where(is_mask, positions, 0)},
      best,
      (None, 2 * self._top_k),
      "masked_lm_logits",
    )
    probabilities, ids = tf.split(pair, 2, axis=-1)
    tokens = self._tokenizer.tokens(tf.cast(ids, tf.int32))
    return {
      "tokens": tf.where(is_mask[..., None], tokens, ""),
      "probabilities": tf.where(is_mask[..., None], probabilities, 0.0),
      "num_masks": tf.math.count_nonzero(is_mask, axis=1, dtype=tf.int32),
    }

  def _vocab_bias(self, size):
    """-inf for ids of the model that are not in the vocabulary: [V]."""
    vocab.check_size(self._tokenizer.vocab, size)
    bias = np.full(size, -np.inf, np.float32)
    bias[self._vocab_ids] = 0.0
    return tf.constant(bias)


def _call(model, inputs, training):
  """Calls a model for as many positions, M, as a row of this batch has."""
  positions = inputs["masked_lm_positions"]
  numbers = tf.range(1, tf.shape(positions)[1] + 1)
  size = tf.reduce_max(tf.where(positions > 0, numbers, 1))
  positions = positions[:, : tf.maximum(size, 1)]
  return model(inputs | {"masked_lm_positions": positions}, training=training)
