"""Converts pre-training records to batches with targets.

Legend: B rows, T tokens, P predictions of a record, K = min(P, T).
"""

import os
from collections.abc import Sequence

import tensorflow as tf

from data import vocab
from data.batching import Packing, trim_padding
from data.features import Masking
from data.records import Source, TrainingRecords, parser, prefetch_map
from data.vocab import Tokenizer
from storage import record_scan
from storage.tfrecord import Schema


class Masker:
  """Masks words of unmasked sentence pairs by the rules of StaticMasking.

  Adds the predictions of features.pretraining to a batch; masked_lm_positions
  are ascending, then zeros. Random numbers depend only on `seed`, [2] integers.
  """

  def __init__(self, tokenizer: Tokenizer, masking: Masking):
    self._cls, self._sep = tokenizer.cls, tokenizer.sep
    self._mask = tokenizer.mask
    self._masking = masking
    self._max_predictions = masking.max_predictions_per_seq
    whole_word = masking.whole_word
    self._choose = self._choose_words if whole_word else self._choose_tokens
    # Without blank lines, which may follow the last token of a model.
    tokens = {token: i for token, i in tokenizer.vocab.items() if token}
    self._all_ids = [*tokens.values()]
    self._is_continuation = [False] * (max(self._all_ids) + 1)
    for token, i in tokens.items():
      self._is_continuation[i] = tokenizer.continues(token)

  def __call__(self, batch: dict, seed: tf.Tensor) -> dict:
    ids, real = batch["input_ids"], batch["input_mask"] > 0  # [B, T]
    order_seed, replace_seed = tf.unstack(tf.random.split(seed, 2))
    candidates = real & (ids != self._cls) & (ids != self._sep)
    # tf.round rounds half to even, like Python's round.
    lengths = tf.reduce_sum(tf.cast(real, tf.float64), axis=1, keepdims=True)
    limit = tf.cast(tf.round(lengths * self._masking.masked_lm_prob), tf.int32)
    limit = tf.clip_by_value(limit, 1, self._max_predictions)  # [B, 1]
    keys = self._choose(ids, candidates, limit, order_seed)  # [B, K]

    length = tf.shape(ids)[1]
    chosen = keys > 0
    positions = tf.where(chosen, length - keys, 0)
    labels = tf.gather(ids, positions, batch_dims=1)
    draw_seed, word_seed = tf.unstack(tf.random.split(replace_seed, 2))
    shape, number = tf.shape(labels), len(self._all_ids)
    draw = tf.random.stateless_uniform(shape, draw_seed)
    index = tf.random.stateless_uniform(shape, word_seed, 0, number, tf.int32)
    drawn = tf.gather(tf.constant(self._all_ids, labels.dtype), index)
    is_random = draw >= 1.0 - self._masking.random_token_prob
    replaced = tf.where(is_random, drawn, labels)
    is_mask = draw < self._masking.mask_token_prob
    replaced = tf.where(is_mask, tf.constant(self._mask, ids.dtype), replaced)
    # Unused slots point to position 0 and write back its [CLS].
    updates = tf.where(chosen, replaced, labels)
    labels = tf.where(chosen, labels, 0)
    return batch | {
      "input_ids": _replace_tokens(ids, positions, updates),
      "masked_lm_positions": self._pad(tf.cast(positions, ids.dtype)),
      "masked_lm_ids": self._pad(labels),
      "masked_lm_weights": self._pad(tf.cast(chosen, tf.float32)),
    }

  def _choose_tokens(self, ids, candidates, limit, seed):
    """Chooses tokens; returns keys [B, K], descending.

    The key of a chosen token is T minus its position, so the tokens are in the
    order of the text. Unused slots come last, with key 0.
    """
    scores = tf.random.stateless_uniform(tf.shape(ids), seed)
    scores = tf.where(candidates, scores, -1.0)
    length = tf.shape(ids)[1]
    slots = tf.minimum(self._max_predictions, length)
    scores, positions = tf.math.top_k(scores, slots)  # [B, K]
    chosen = (tf.range(slots) < limit) & (scores >= 0)
    keys = tf.where(chosen, length - positions, 0)
    return tf.sort(keys, direction="DESCENDING")

  def _choose_words(self, ids, candidates, limit, seed):
    """Chooses the tokens of whole words. Result: see `_choose_tokens`."""
    shape = tf.shape(ids)
    length = shape[1]
    # Words are numbered from 0 in each row. A continuation piece belongs to the
    # word of the candidate before, even across a [SEP], as in the original.
    counted = tf.cast(candidates, tf.int32)
    first = tf.cumsum(counted, axis=1) == 1
    begins = candidates & (first | ~tf.gather(self._is_continuation, ids))
    words = tf.maximum(tf.cumsum(tf.cast(begins, tf.int32), axis=1) - 1, 0)
    flat = words + tf.range(shape[0])[:, None] * length
    sizes = tf.math.unsorted_segment_sum(counted, flat, tf.size(flat))

    scores = tf.random.stateless_uniform(shape, seed)
    order = tf.argsort(scores, axis=1)
    sizes = tf.gather(tf.reshape(sizes, shape), order, batch_dims=1)
    is_chosen = tf.gather(_fill(sizes, limit), tf.argsort(order), batch_dims=1)
    chosen = candidates & tf.gather(is_chosen, words, batch_dims=1)  # [B, T]
    keys = tf.where(chosen, length - tf.range(length), 0)
    return tf.math.top_k(keys, tf.minimum(self._max_predictions, length))[0]

  def _pad(self, values):
    missing = self._max_predictions - tf.shape(values)[1]
    padded = tf.pad(values, [[0, 0], [0, missing]])
    return tf.ensure_shape(padded, [None, self._max_predictions])


def _fill(sizes: tf.Tensor, limit: tf.Tensor) -> tf.Tensor:
  """Chooses words in order, and skips words that would exceed the limit.

  Each round accepts all words before the first that does not fit, and drops
  later words that are too large. Sizes [B, T], limit [B, 1] -> [B, T] bool.
  """

  def exceeds(chosen):
    total = tf.reduce_sum(tf.where(chosen, sizes, 0), axis=1, keepdims=True)
    return tf.reduce_any(total > limit)

  def drop(chosen):
    total = tf.cumsum(tf.where(chosen, sizes, 0), axis=1)
    fits = total <= limit
    used = tf.reduce_max(tf.where(fits, total, 0), axis=1, keepdims=True)
    return [chosen & (fits | (sizes <= limit - used))]

  [chosen] = tf.while_loop(exceeds, drop, [sizes > 0])
  return chosen


def _replace_tokens(ids, positions, updates):
  """Writes updates [B, K] to ids [B, T] at positions [B, K]."""
  rows = tf.range(tf.shape(ids)[0], dtype=positions.dtype)[:, None]
  indices = tf.stack([tf.zeros_like(positions) + rows, positions], axis=-1)
  return tf.tensor_scatter_nd_update(ids, indices, updates)


class CausalTargets:
  """Restores masked words and makes the next token the target of each position.

  The LTR & No NSP model has these targets (section 5.1 of the paper), and so
  does the right-to-left model. With a `tokenizer`, removes [CLS] and [SEP],
  because OpenAI GPT has no special tokens. The remaining tokens close the gaps
  and get segment 0.

  Takes a batch of features.pretraining, with or without predictions. Returns
  the batch with three fields [B, T - 1]: masked_lm_positions, every position
  but the last in reading order; masked_lm_ids, the next tokens;
  masked_lm_weights, 0 for padding.
  """

  def __init__(self, direction: str, tokenizer: Tokenizer | None = None):
    self._forward = direction == "left_to_right"
    self._dropped_ids = []
    if tokenizer:
      tokenizer.check("cls", "sep")
      self._dropped_ids = [tokenizer.cls, tokenizer.sep]

  def __call__(self, batch: dict) -> dict:
    ids, mask = batch["input_ids"], batch["input_mask"]  # [B, T]
    if "masked_lm_ids" in batch:
      positions = batch["masked_lm_positions"]  # [B, P]
      # Unused slots point to position 0 and write back its [CLS].
      unchanged = tf.gather(ids, positions, batch_dims=1)
      used = batch["masked_lm_weights"] > 0
      words = tf.where(used, batch["masked_lm_ids"], unchanged)
      ids = _replace_tokens(ids, positions, words)
    if self._dropped_ids:
      dropped_ids = tf.constant(self._dropped_ids, ids.dtype)
      is_dropped = tf.reduce_any(ids[..., None] == dropped_ids, axis=-1)
      mask = tf.where(is_dropped, 0, mask)
      order = tf.argsort(-mask, axis=1, stable=True)
      mask = tf.gather(mask, order, batch_dims=1)
      ids = tf.gather(ids, order, batch_dims=1) * mask
      batch = batch | {"segment_ids": tf.zeros_like(ids)}
    size, length = tf.shape(ids)[0], tf.shape(ids)[1]
    positions = tf.range(length - 1, dtype=ids.dtype) + (not self._forward)
    return batch | {
      "input_ids": ids,
      "input_mask": mask,
      "masked_lm_positions": tf.tile(positions[None], [size, 1]),
      "masked_lm_ids": ids[:, 1:] if self._forward else ids[:, :-1],
      "masked_lm_weights": tf.cast(mask[:, 1:], tf.float32),
    }


class PretrainingInput(TrainingRecords):
  """Batches of pre-training records of a `schema`, with targets.

  `masking` and `tokenizer` mask records made with --masking=dynamic, unless
  there are `causal_targets`, for models of one direction. Drops up to
  `max_corrupt_records` corrupt records. The index of the records, and copies of
  files without corrupt records, go to `folder`.
  """

  sources: Sequence[Source] = ()

  def __init__(
    self,
    sources: Sequence[Source],
    schema: Schema,
    vocab_size: int,
    masking: Masking,
    tokenizer: Tokenizer | None = None,
    causal_targets: CausalTargets | None = None,
    max_corrupt_records: int = 0,
    folder: str = "",
    packing: Packing | None = None,
    multiple: int = 0,
  ):
    self.packing = packing
    self.multiple = multiple
    self._causal_targets = causal_targets
    self.sources = sources
    self.index_file = folder and os.path.join(folder, "records-index.npz")
    self._masker = None
    self.schema = schema
    self.masks_words = not (causal_targets or "masked_lm_positions" in schema)
    if self.masks_words and tokenizer:
      vocab.check_size(tokenizer.vocab, vocab_size, tokenizer.vocab_file)
      self._masker = Masker(tokenizer, masking)
    if folder and max_corrupt_records:
      copies = record_scan.drop_corrupt(
        self.files, schema, folder, max_corrupt_records
      )
      self.sources = [
        Source([copies.get(path, path) for path in paths], weight)
        for paths, weight in sources
      ]

  def endless_eval_batches(self, batch_size: int) -> tf.data.Dataset:
    """Full batches in the order of the files, repeated without end."""
    examples = tf.data.TFRecordDataset(list(self.files)).repeat()
    return self.parse_batches(examples.batch(batch_size, True).enumerate(), 0)

  def parse_batches(self, numbered, seed, multiple=0):
    """See TrainingRecords. Masks depend on `seed` and the batch's number."""
    parse = parser(self.schema)

    def finish(number, serialized):
      batch = parse(serialized)
      if multiple:
        batch = trim_padding(batch, multiple=multiple)
      if self._masker:
        number = tf.cast(number % 2**31, tf.int32)
        batch = self._masker(batch, tf.stack([seed, number]))
      return self._causal_targets(batch) if self._causal_targets else batch

    return prefetch_map(numbered, finish)
