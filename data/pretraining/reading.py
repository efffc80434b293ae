"""Pre-training records as batches for the model, however they were made.

Legend: B batch, T tokens, P predictions.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import tensorflow as tf

from data import (
  damage,
  features,
  length_groups,
  records,
  shuffling,
  trimming,
  vocab,
)
from data.pretraining.masking import Masker
from data.pretraining.mix import USUAL, Mix
from data.pretraining.next_token import NextToken
from data.shuffling import Source

_TOKENS = tuple(features.Schema(*features.tokens(0)))


@dataclass(frozen=True)
class Masking:
  """How words are masked that --masking=dynamic has left as they are.

  Attributes:
    vocab_file: the vocabulary, without which there are no masks.
    masked_lm_prob: share of the tokens that are masked.
    whole_word: mask all pieces of a word or none.
    mix: what becomes of masked words.
  """

  vocab_file: str | None = None
  masked_lm_prob: float = 0.15
  whole_word: bool = False
  mix: Mix = USUAL


class PretrainingInput:
  """Records of create_pretraining_data.py, masked there or to be masked here.

  Arguments:
    files: paths.
    seq_length: T.
    max_predictions: P.
    vocab_size: number of ids that the model knows.
    masking: of records that are not masked yet.
    next_token: makes a language model's batches of them, which has no masks.
    skip_bad_records: how many may be left out since they cannot be read.
    folder: where files without these go. None looks at no record in advance.
    sources: `files` in groups with weights, by which training mixes them; None
      for a single group.
    index_file: where it is kept where records begin; see record_index.load.

  Raises:
    ValueError: a file does not hold such records; see records.check.
  """

  def __init__(
    self,
    files: list[str],
    seq_length: int,
    max_predictions: int,
    vocab_size: int,
    masking: Masking = Masking(),
    next_token: NextToken | None = None,
    skip_bad_records: int = 0,
    folder: str | None = None,
    sources: Sequence[Source] | None = None,
    index_file: str | None = None,
  ):
    self.files = files
    self._next_token = next_token
    self._sources = sources or [Source(files)]
    self._index_file = index_file
    self._masker = None
    schema = features.pretraining(seq_length, max_predictions)
    if not records.is_masked(files[0]):
      schema = features.unmasked_pretraining(seq_length)
      if not next_token:
        self._masker = Masker(
          _vocabulary(files[0], masking.vocab_file, vocab_size),
          max_predictions,
          masking.masked_lm_prob,
          masking.whole_word,
          masking.mix,
        )
    if not self._masker and masking.mix != USUAL:
      raise ValueError(
        "mask_share and random_share are for words masked when they are read, "
        f"but those of {files[0]} are not: make it with them, or with "
        "--masking=dynamic"
      )
    limits = {
      "input_ids": vocab_size,
      "input_mask": 2,
      "masked_lm_positions": seq_length,
      "masked_lm_ids": vocab_size,
      "next_sentence_labels": 2,
    }
    records.check(files, schema, limits)
    if folder is not None:
      self.files = damage.without(files, schema, folder, skip_bad_records)
      now = dict(zip(files, self.files, strict=True))
      self._sources = [
        source._replace(files=[now[path] for path in source.files])
        for source in self._sources
      ]
    self._schema = schema
    self._parse = records.parser(schema)

  def damage(self) -> str | None:
    """Which record cannot be read; see damage.first."""
    return damage.first(self.files, self._schema)

  def training(
    self,
    batch_size: int,
    seed: int,
    skip: int = 0,
    context: tf.distribute.InputContext | None = None,
    by_length: bool = False,
  ) -> tf.data.Dataset:
    """Batches without end, in an order that is a function of the seed.

    Args:
      batch_size: of all replicas together.
      seed: of the order and of masks that are made here.
      skip: number of records that were read before.
      context: which worker this is; None for the only one.
      by_length: whether records of a batch are of similar length, without the
        padding that they have in common.

    Returns:
      Dicts of the fields of features.pretraining, [B / replicas, ...].
    """
    context = context or tf.distribute.InputContext()
    order = shuffling.Order(self._sources, seed, self._index_file)
    if by_length:
      examples = length_groups.grouped(order, self._schema, batch_size, skip)
    else:
      examples = order.after(skip)
    pieces = records.for_worker(
      examples,
      batch_size,
      context.num_replicas_in_sync,
      context.num_input_pipelines,
      context.input_pipeline_id,
      first=skip // batch_size,
    )
    return self._read(pieces, seed, by_length)

  def evaluation(self, batch_size: int) -> tf.data.Dataset:
    """Full batches in the files' order, from the first again at the end."""
    pieces = records.in_order(self.files).repeat()
    return self._read(pieces.batch(batch_size, True).enumerate(), seed=0)

  def _read(self, pieces, seed, trims=False):
    def finish(number, serialized):
      batch = self._parse(serialized)
      if trims:
        batch |= trimming.trim({name: batch[name] for name in _TOKENS})
      if self._masker:
        number = tf.cast(number % 2**31, tf.int32)
        batch = self._masker(batch, tf.stack([seed, number]))
      return self._next_token(batch) if self._next_token else batch

    return records.ahead(pieces, finish)


def _vocabulary(path, vocab_file, vocab_size):
  if not vocab_file:
    raise ValueError(
      f"{path} was made with --masking=dynamic; --vocab_file is needed to "
      "mask it"
    )
  words = vocab.load(vocab_file)
  vocab.require(words, name=vocab_file)
  vocab.require_room(words, vocab_size, vocab_file)
  return words
