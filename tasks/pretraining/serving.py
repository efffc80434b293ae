"""Texts with [MASK] to the most probable tokens for it in the graph.

Legend: B texts, M largest number of masks, T tokens, V vocabulary, K tokens for
a mask. Ragged dimensions are in parentheses.
"""

import numpy as np
import tensorflow as tf

from data import vocab
from data.tokenization_ops import GraphTokenizer
from serving import encoding_ops
from tasks.pretraining.answers import Answers


class FillMask(encoding_ops.EncodedTexts):
  """Tokens for masks in the graph (serving.export.TextSignature)."""

  def __init__(self, tokenizer: GraphTokenizer, answers: Answers):
    super().__init__(tokenizer, answers)
    self._mask = tokenizer.vocab[vocab.MASK]
    # The model may have more ids than the vocabulary has tokens.
    self._vocab_ids = np.unique([i for t, i in tokenizer.vocab.items() if t])
    self._top_k = min(answers.settings["top_k"], len(self._vocab_ids))

  def encode(self, text: tf.Tensor) -> tf.RaggedTensor:
    """Token ids; the text "[MASK]" is the mask: [B] -> [B, (T)] int32."""
    parts = tf.strings.split(text, vocab.MASK)  # [B, (masks + 1)]
    ids = self._tokenizer.tokenize(parts.values)
    # A mask before every part but the first.
    index = tf.ragged.range(parts.row_lengths()).values
    masks = encoding_ops.repeat(self._mask, tf.cast(index > 0, tf.int64))
    ids = tf.concat([masks, ids], axis=1)
    return parts.with_values(ids).merge_dims(1, 2)

  def from_text(self, model, text: tf.Tensor) -> dict[str, tf.Tensor]:
    """Tokens for the masks of texts, [B] string, by `masked_lm_logits`.

    Returns `tokens` [B, M, K], the most probable first, padded with "";
    `probabilities` [B, M, K]; `num_masks` [B].
    """
    ids = self.encode(text)[:, : self._seq_length - 2]
    inputs = encoding_ops.join(ids, None, *self._ends)
    rows, columns = tf.unstack(
      tf.where(inputs["input_ids"] == self._mask), axis=1
    )
    positions = tf.RaggedTensor.from_value_rowids(
      tf.cast(columns, tf.int32), rows, ids.nrows()
    ).to_tensor()
    is_mask = positions > 0
    outputs = model(inputs | {"masked_lm_positions": positions}, training=False)
    logits = outputs["masked_lm_logits"]  # [B, M, V]
    logits += self._vocab_bias(logits.shape[-1])
    values, ids = tf.math.top_k(logits, self._top_k)
    log_sum = tf.reduce_logsumexp(logits, axis=-1, keepdims=True)
    tokens = self._tokenizer.tokens(ids)
    return {
      "tokens": tf.where(is_mask[..., None], tokens, ""),
      "probabilities": tf.where(
        is_mask[..., None], tf.exp(values - log_sum), 0.0
      ),
      "num_masks": tf.math.count_nonzero(is_mask, axis=1, dtype=tf.int32),
    }

  def _vocab_bias(self, size):
    """-inf for ids of the model that are not in the vocabulary: [V]."""
    vocab.check_size(self._tokenizer.vocab, size)
    bias = np.full(size, -np.inf, np.float32)
    bias[self._vocab_ids] = 0.0
    return tf.constant(bias)
