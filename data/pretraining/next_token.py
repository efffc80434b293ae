"""Pre-training records read as a language model's, which predicts neighbours.

Source: the LTR & No NSP model of section 5.1 of the paper, its mirror image,
and OpenAI GPT's way without special tokens.

Legend: B batch, T tokens.
"""

from collections.abc import Sequence

import tensorflow as tf

from data import vocab
from data.vocab import CLS, SEP

DIRECTIONS = ("left_to_right", "right_to_left")


class NextToken:
  """Puts masked words back and asks for the next token at each position.

  Arguments:
    direction: where it reads to; "right_to_left" asks for the token before.
    leave_out: ids that are left out, such as [CLS] and [SEP]; what is left
      moves up, and has no segments any more.

  Call arguments:
    batch: fields of features.pretraining or of features.unmasked_pretraining,
      [B, T] integers.

  Returns:
    The same with masked_lm_positions, all but the last in reading order;
    masked_lm_ids, the tokens that come next; masked_lm_weights, 1 where neither
    is padding: [B, T - 1].
  """

  def __init__(
    self, direction: str = "left_to_right", leave_out: Sequence[int] = ()
  ):
    self._forward = direction == "left_to_right"
    self._leave_out = list(leave_out)

  @classmethod
  def of_plain_text(cls, direction: str, vocab_file: str) -> "NextToken":
    """One that leaves out what the vocabulary has as [CLS] and [SEP]."""
    words = vocab.load(vocab_file)
    vocab.require(words, (CLS, SEP), vocab_file)
    return cls(direction, (words[CLS], words[SEP]))

  def __call__(self, batch: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """Makes a batch of the language model."""
    batch = batch | {"input_ids": _unmasked(batch)}
    if self._leave_out:
      batch = self._plain(batch)
    ids = batch["input_ids"]
    size, length = tf.shape(ids)[0], tf.shape(ids)[1]
    places = tf.range(length - 1, dtype=ids.dtype) + (not self._forward)
    return batch | {
      "masked_lm_positions": tf.tile(places[None], [size, 1]),
      "masked_lm_ids": ids[:, 1:] if self._forward else ids[:, :-1],
      "masked_lm_weights": tf.cast(batch["input_mask"][:, 1:], tf.float32),
    }

  def _plain(self, batch):
    ids = batch["input_ids"]
    leave_out = tf.constant(self._leave_out, ids.dtype)
    special = tf.reduce_any(ids[..., None] == leave_out, axis=-1)
    is_text = tf.where(special, 0, batch["input_mask"])  # [B, T]
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
  rows = tf.zeros_like(positions) + tf.range(tf.shape(ids)[0])[:, None]
  # Unused slots point to [CLS] at 0, which keeps what it has.
  used = batch["masked_lm_weights"] > 0
  here = tf.gather(ids, positions, batch_dims=1)
  words = tf.where(used, batch["masked_lm_ids"], here)
  return tf.tensor_scatter_nd_update(
    ids, tf.stack([rows, positions], axis=-1), words
  )
