"""Pre-training records to targets of causal language models.

Source: the LTR & No NSP model of section 5.1 of the paper, the same from right
to left, and OpenAI GPT, which has no special tokens.

Legend: B batch, T tokens.
"""

from collections.abc import Sequence

import tensorflow as tf

from data import vocab
from data.pretraining.dynamic_masking import replace_tokens
from data.vocab import CLS, SEP


class CausalTargets:
  """Restores masked words and makes the next token the target of each position.

  Arguments:
    direction: "left_to_right", or "right_to_left" to predict the token before.
    dropped_ids: ids to remove, such as [CLS] and [SEP]; the other tokens move
      up and all are of segment 0.

  Call arguments:
    batch: fields of features.pretraining or of features.unmasked_pretraining,
      [B, T] integers.

  Returns:
    The same with masked_lm_positions, all but the last in reading order;
    masked_lm_ids, the next tokens; masked_lm_weights, 1 where neither is
    padding: [B, T - 1].
  """

  def __init__(
    self, direction: str = "left_to_right", dropped_ids: Sequence[int] = ()
  ):
    self._forward = direction == "left_to_right"
    self._dropped_ids = list(dropped_ids)

  @classmethod
  def without_special_tokens(
    cls, direction: str, vocab_file: str
  ) -> "CausalTargets":
    """Targets without [CLS] and [SEP], which the vocabulary has to have."""
    words = vocab.load(vocab_file)
    vocab.check_tokens(words, (CLS, SEP), vocab_file)
    return cls(direction, (words[CLS], words[SEP]))

  def __call__(self, batch: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """Converts a batch."""
    batch = batch | {"input_ids": _unmasked(batch)}
    if self._dropped_ids:
      batch = self._drop(batch)
    ids = batch["input_ids"]
    size, length = tf.shape(ids)[0], tf.shape(ids)[1]
    positions = tf.range(length - 1, dtype=ids.dtype) + (not self._forward)
    return batch | {
      "masked_lm_positions": tf.tile(positions[None], [size, 1]),
      "masked_lm_ids": ids[:, 1:] if self._forward else ids[:, :-1],
      "masked_lm_weights": tf.cast(batch["input_mask"][:, 1:], tf.float32),
    }

  def _drop(self, batch):
    ids = batch["input_ids"]
    dropped_ids = tf.constant(self._dropped_ids, ids.dtype)
    is_dropped = tf.reduce_any(ids[..., None] == dropped_ids, axis=-1)
    is_text = tf.where(is_dropped, 0, batch["input_mask"])  # [B, T]
    order = tf.argsort(-is_text, axis=1, stable=True)
    mask = tf.gather(is_text, order, batch_dims=1)
    return batch | {
      "input_ids": tf.gather(ids, order, batch_dims=1) * mask,
      "input_mask": mask,
      "segment_ids": tf.zeros_like(ids),
    }


def _unmasked(batch):
  ids = batch["input_ids"]
  if "masked_lm_ids" not in batch:
    return ids
  positions = batch["masked_lm_positions"]  # [B, P]
  # Unused slots point to position 0 and write back its [CLS].
  used = batch["masked_lm_weights"] > 0
  unchanged = tf.gather(ids, positions, batch_dims=1)
  words = tf.where(used, batch["masked_lm_ids"], unchanged)
  return replace_tokens(ids, positions, words)
