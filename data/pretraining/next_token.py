"""Pre-training records read as a left-to-right language model's.

Source: the LTR & No NSP model of section 5.1 of the paper.
"""

import tensorflow as tf


def labels(batch: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
  """Puts the masked words back and asks for the next token at each position.

  Args:
    batch: fields of features.pretraining or of features.unmasked_pretraining,
      [B, T] integers.

  Returns:
    The same with masked_lm_positions 0..T-2, masked_lm_ids the tokens one
    further, masked_lm_weights 1 where such a token is no padding: [B, T - 1].
  """
  ids = _unmasked(batch)
  batch_size, length = tf.shape(ids)[0], tf.shape(ids)[1]
  positions = tf.tile(tf.range(length - 1)[None], [batch_size, 1])
  return batch | {
    "input_ids": ids,
    "masked_lm_positions": tf.cast(positions, ids.dtype),
    "masked_lm_ids": ids[:, 1:],
    "masked_lm_weights": tf.cast(batch["input_mask"][:, 1:], tf.float32),
  }


def _unmasked(batch):
  ids = batch["input_ids"]
  if "masked_lm_ids" not in batch:
    return ids
  positions = batch["masked_lm_positions"]  # [B, P]
  rows = tf.zeros_like(positions) + tf.range(tf.shape(ids)[0])[:, None]
  # Unused slots point to [CLS] at 0, which keeps what it has.
  used = batch["masked_lm_weights"] > 0
  here = tf.gather(ids, positions, batch_dims=1)
  words = tf.where(used, batch["masked_lm_ids"], here)
  return tf.tensor_scatter_nd_update(
    ids, tf.stack([rows, positions], axis=-1), words
  )
