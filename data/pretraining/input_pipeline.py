"""Converts pre-training records to batches with targets."""

import os
from collections.abc import Sequence

import tensorflow as tf

from data import vocab
from data.batching import Packing, trim_padding
from data.pretraining.dynamic_masking import CausalTargets, Masker
from data.pretraining.instances import DEFAULT_MASKING, Masking
from data.records import Source, TrainingRecords, parser, prefetch_map
from data.tokenizer import Tokenizer
from storage import UserError, record_scan, setting
from storage.tfrecord import Schema


class PretrainingInput(TrainingRecords):
  """Batches of pre-training records with targets.

  `schema` is from `record_schema.find_schema`. `masking` and `tokenizer` mask
  records made with --masking=dynamic; `masking` has the P of all records.
  `causal_targets` converts batches for models of one direction. At most
  `max_corrupt_records` are dropped. `folder` gets the index of records and the
  repaired copies of corrupt files. `sources` groups `files` with sampling
  weights. Raises ValueError if masking flags do not fit the records.
  """

  sources: Sequence[Source] = ()

  def __init__(
    self,
    files: list[str],
    schema: Schema,
    vocab_size: int,
    masking: Masking,
    tokenizer: Tokenizer | None = None,
    causal_targets: CausalTargets | None = None,
    max_corrupt_records: int = 0,
    folder: str = "",
    sources: Sequence[Source] | None = None,
    packing: Packing | None = None,
  ):
    self.packing = packing
    self._causal_targets = causal_targets
    self.sources = sources or [Source(files)]
    self.index_file = folder and os.path.join(folder, "records-index.npz")
    self._masker = None
    self.schema = schema
    is_masked = "masked_lm_positions" in schema
    self.masks_words = not is_masked and not causal_targets
    if self.masks_words and tokenizer:
      vocab.check_size(tokenizer.vocab, vocab_size, tokenizer.vocab_file)
      self._masker = Masker(tokenizer, masking, vocab_size)
    elif masking.policy != DEFAULT_MASKING.policy:
      remedy = f"make it with them, or with {setting('masking', 'dynamic')}"
      if causal_targets:
        remedy = "leave them out, as this objective masks no words"
      raise UserError(
        f"{setting('mask_token_prob')} and {setting('random_token_prob')} are "
        f"for words masked when records are read, and none of {files[0]} is: "
        f"{remedy}"
      )
    if folder and max_corrupt_records:
      copies = record_scan.drop_corrupt(
        self.files, schema, folder, max_corrupt_records
      )
      copy_by_file = dict(zip(self.files, copies, strict=True))
      self.sources = [
        source._replace(files=[copy_by_file[path] for path in source.files])
        for source in self.sources
      ]

  def endless_eval_batches(self, batch_size: int) -> tf.data.Dataset:
    """Full batches in the order of the files, repeated without end."""
    examples = tf.data.TFRecordDataset(list(self.files)).repeat()
    return self.parse_batches(examples.batch(batch_size, True).enumerate(), 0)

  def parse_batches(self, numbered, seed, by_length=False):
    """See TrainingRecords. The masks depend on seed and batch number."""
    parse = parser(self.schema)

    def finish(number, serialized):
      batch = parse(serialized)
      if by_length:
        batch = trim_padding(batch)
      if self._masker:
        number = tf.cast(number % 2**31, tf.int32)
        batch = self._masker(batch, tf.stack([seed, number]))
      return self._causal_targets(batch) if self._causal_targets else batch

    return prefetch_map(numbered, finish)
