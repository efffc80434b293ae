"""Words masked anew whenever a record is read, a batch at a time, in the graph.

The rules are those of static_masking.py; random numbers are a pure function of
a seed, so that a run can be repeated and resumed.

Legend: B batch, T tokens, P masked-LM predictions, K = min(P, T).
"""

from collections.abc import Mapping

import tensorflow as tf

from data.pretraining.mix import USUAL, Mix
from data.vocab import CLS, MASK, SEP


class Masker:
  """Masks words of unmasked sentence pairs (section 3.1, task 1, of the paper).

  By default a chosen token becomes [MASK] in 80 % of the cases, stays in 10 %
  and becomes a token drawn from the whole vocabulary in 10 %.

  Arguments:
    vocab: token to id.
    max_predictions: P, how many tokens of a row are chosen at most.
    masked_lm_prob: share of the tokens that are chosen, at least one.
    whole_word: choose all pieces of a word or none.
    mix: what becomes of the chosen ones.

  Call arguments:
    batch: fields of features.unmasked_pretraining, [B, T] integers and
      next_sentence_labels [B, 1].
    seed: [2] integers.

  Returns:
    Fields of features.pretraining, integers of the type of input_ids: the same
    with words masked, masked_lm_positions (ascending, then zeros) and
    masked_lm_ids [B, P], masked_lm_weights [B, P] float32.
  """

  def __init__(
    self,
    vocab: Mapping[str, int],
    max_predictions: int,
    masked_lm_prob: float = 0.15,
    whole_word: bool = False,
    mix: Mix = USUAL,
  ):
    self._cls, self._sep, self._mask = vocab[CLS], vocab[SEP], vocab[MASK]
    self._max_predictions = max_predictions
    self._masked_lm_prob = masked_lm_prob
    self._whole_word = whole_word
    self._mix = mix
    self._all_ids = list(vocab.values())
    self._continues = [False] * (max(self._all_ids) + 1)
    for token, i in vocab.items():
      self._continues[i] = token.startswith("##")

  def __call__(
    self, batch: Mapping[str, tf.Tensor], seed: tf.Tensor
  ) -> dict[str, tf.Tensor]:
    """Masks a batch."""
    ids, real = batch["input_ids"], batch["input_mask"] > 0  # [B, T]
    order_seed, replace_seed = tf.unstack(tf.random.split(seed, 2))
    candidates = real & (ids != self._cls) & (ids != self._sep)
    wanted = self._wanted(real)  # [B, 1]
    choose = self._choose_words if self._whole_word else self._choose_tokens
    keys = choose(ids, candidates, wanted, order_seed)  # [B, K]

    length = tf.shape(ids)[1]
    chosen = keys > 0
    positions = tf.where(chosen, length - keys, 0)
    labels = tf.gather(ids, positions, batch_dims=1)
    replaced = self._replace(labels, replace_seed)
    # What is not chosen points to [CLS] at 0, and leaves it as it is.
    updates = tf.where(chosen, replaced, labels)
    labels = tf.where(chosen, labels, 0)
    return {
      "input_ids": _scatter(ids, positions, updates),
      "input_mask": batch["input_mask"],
      "segment_ids": batch["segment_ids"],
      "masked_lm_positions": self._pad(tf.cast(positions, ids.dtype)),
      "masked_lm_ids": self._pad(labels),
      "masked_lm_weights": self._pad(tf.cast(chosen, tf.float32)),
      "next_sentence_labels": batch["next_sentence_labels"],
    }

  def _wanted(self, real: tf.Tensor) -> tf.Tensor:
    """How many tokens to choose, [B, 1]; rounds half to even, as Python."""
    lengths = tf.reduce_sum(tf.cast(real, tf.float64), axis=1, keepdims=True)
    share = tf.cast(tf.round(lengths * self._masked_lm_prob), tf.int32)
    return tf.clip_by_value(share, 1, self._max_predictions)

  def _choose_tokens(self, ids, candidates, wanted, seed):
    """Chooses tokens; returns T - position descending, [B, K], 0 for none."""
    scores = tf.random.stateless_uniform(tf.shape(ids), seed)
    scores = tf.where(candidates, scores, -1.0)
    length = tf.shape(ids)[1]
    slots = tf.minimum(self._max_predictions, length)
    scores, positions = tf.math.top_k(scores, slots)  # [B, K]
    chosen = (tf.range(slots) < wanted) & (scores >= 0)
    keys = tf.where(chosen, length - positions, 0)
    return tf.sort(keys, direction="DESCENDING")

  def _choose_words(self, ids, candidates, wanted, seed):
    """Chooses whole words; returns what `_choose_tokens` does."""
    shape = tf.shape(ids)
    length = shape[1]
    # Words are numbered from 0 in each row. Like in the original, a piece that
    # continues a word belongs to the last candidate's, even beyond a [SEP].
    first = tf.cumsum(tf.cast(candidates, tf.int32), axis=1) == 1
    begins = candidates & (first | ~tf.gather(self._continues, ids))
    words = tf.cumsum(tf.cast(begins, tf.int32), axis=1) - 1
    words = tf.maximum(words, 0)
    flat = words + tf.range(shape[0])[:, None] * length
    sizes = tf.math.unsorted_segment_sum(
      tf.cast(candidates, tf.int32), flat, tf.size(flat)
    )

    scores = tf.random.stateless_uniform(shape, seed)
    order = tf.argsort(scores, axis=1)
    sizes = tf.gather(tf.reshape(sizes, shape), order, batch_dims=1)
    taken = tf.gather(_fill(sizes, wanted), tf.argsort(order), batch_dims=1)
    chosen = candidates & tf.gather(taken, words, batch_dims=1)  # [B, T]
    keys = tf.where(chosen, length - tf.range(length), 0)
    return tf.math.top_k(keys, tf.minimum(self._max_predictions, length))[0]

  def _replace(self, labels: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """What stands in the place of each label, [B, K]."""
    seeds = tf.random.split(seed, 2)
    shape = tf.shape(labels)
    draw = tf.random.stateless_uniform(shape, seeds[0])
    index = tf.random.stateless_uniform(
      shape, seeds[1], 0, len(self._all_ids), tf.int32
    )
    others = tf.gather(tf.constant(self._all_ids, labels.dtype), index)
    mask = tf.constant(self._mask, labels.dtype)
    is_random = draw >= 1.0 - self._mix.random_share
    words = tf.where(is_random, others, labels)
    return tf.where(draw < self._mix.mask_share, mask, words)

  def _pad(self, values: tf.Tensor) -> tf.Tensor:
    """Fills up from K to P with zeros."""
    missing = self._max_predictions - tf.shape(values)[1]
    padded = tf.pad(values, [[0, 0], [0, missing]])
    return tf.ensure_shape(padded, [None, self._max_predictions])


def _fill(sizes: tf.Tensor, limit: tf.Tensor) -> tf.Tensor:
  """Takes words in order, without those that would exceed the limit.

  Instead of word by word: whatever comes before the first word that does not
  fit is taken; after it, no word larger than what is left can be. So a few
  rounds do.

  Args:
    sizes: [B, T] tokens of each word.
    limit: [B, 1] tokens that may be taken.

  Returns:
    [B, T] bool.
  """

  def totals(taken):
    return tf.cumsum(tf.where(taken, sizes, 0), axis=1)

  def exceeds(taken):
    return tf.reduce_any(totals(taken)[:, -1:] > limit)

  def drop(taken):
    total = totals(taken)
    fits = total <= limit
    used = tf.reduce_max(tf.where(fits, total, 0), axis=1, keepdims=True)
    return taken & (fits | (sizes <= limit - used))

  return tf.while_loop(exceeds, lambda t: (drop(t),), (sizes > 0,))[0]


def _scatter(
  ids: tf.Tensor, positions: tf.Tensor, updates: tf.Tensor
) -> tf.Tensor:
  rows = tf.broadcast_to(
    tf.range(tf.shape(ids)[0])[:, None], tf.shape(positions)
  )
  indices = tf.stack([rows, positions], axis=-1)  # [B, K, 2]
  return tf.tensor_scatter_nd_update(ids, indices, updates)
