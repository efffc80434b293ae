"""Pre-training records to batches for the model.

Legend: B batch, T tokens, P predictions.
"""

from collections.abc import Sequence

import tensorflow as tf

from data import features, records, vocab
from data.pretraining.static_masking import DEFAULT, Masking
from data.pretraining.targets import CausalTargets, Masker
from data.shuffling import Source, TrainingRecords
from storage import record_scan
from storage.tfrecord import Schema

_TOKENS = tuple(Schema(*features.tokens(0)))


class PretrainingInput(TrainingRecords):
  """Training data and evaluation data from pre-training records.

  Arguments:
    seq_length: T.
    vocab_size: number of the model's ids.
    masking: of records made with --masking=dynamic; P of all.
    vocab_file: to mask them with.
    causal_targets: converts batches for a left-to-right or right-to-left
      model, which needs no masks.
    max_corrupt_records: the largest number of corrupt records to drop.
    folder: for files without corrupt records; None to skip the check.
    sources: `files` in groups with sampling weights; None for a single group.
    index_file: cache of record_scan.load_index.

  Raises:
    ValueError: a file does not hold such records (see records.check), or flags
      of masking do not fit them.
  """

  def __init__(
    self,
    files: list[str],
    seq_length: int,
    vocab_size: int,
    masking: Masking,
    vocab_file: str | None = None,
    causal_targets: CausalTargets | None = None,
    max_corrupt_records: int = 0,
    folder: str | None = None,
    sources: Sequence[Source] | None = None,
    index_file: str | None = None,
  ):
    self.files = files
    self._causal_targets = causal_targets
    self.sources = sources or [Source(files)]
    self.index_file = index_file
    self._masker = None
    if is_masked := records.is_masked(files[0]):
      schema = features.pretraining(seq_length, masking.max_predictions_per_seq)
    else:
      schema = features.unmasked_pretraining(seq_length)
    if not is_masked and not causal_targets:
      self._masker = _make_masker(files[0], masking, vocab_file, vocab_size)
    elif masking.policy != DEFAULT.policy:
      raise ValueError(
        "mask_token_prob and random_token_prob apply to words masked when "
        f"records are read, but those of {files[0]} are not: make it with them "
        "or with --masking=dynamic"
      )
    limits = {
      "input_ids": vocab_size,
      "input_mask": 2,
      "masked_lm_positions": seq_length,
      "masked_lm_ids": vocab_size,
      "next_sentence_labels": 2,
    }
    records.check(files, schema, limits)
    self.schema = schema
    self._parse = records.parser(schema)
    if folder is not None:
      self._drop_corrupt(folder, max_corrupt_records)

  def evaluation(self, batch_size: int) -> tf.data.Dataset:
    """Infinite full batches in the order of the files, repeated."""
    examples = tf.data.TFRecordDataset(list(self.files)).repeat()
    return self.read(examples.batch(batch_size, True).enumerate(), seed=0)

  def _drop_corrupt(self, folder, max_records):
    copies = record_scan.drop_corrupt(
      self.files, self.schema, folder, max_records
    )
    copy_by_file = dict(zip(self.files, copies, strict=True))
    self.sources = [
      source._replace(files=[copy_by_file[path] for path in source.files])
      for source in self.sources
    ]
    self.files = copies

  def read(self, batches, seed, by_length=False):
    """See TrainingRecords; order and masks depend on the seed."""

    def finish(number, serialized):
      batch = self._parse(serialized)
      if by_length:
        batch |= records.trim_padding({name: batch[name] for name in _TOKENS})
      if self._masker:
        number = tf.cast(number % 2**31, tf.int32)
        batch = self._masker(batch, tf.stack([seed, number]))
      return self._causal_targets(batch) if self._causal_targets else batch

    return records.prefetch_map(batches, finish)


def _make_masker(path, masking, vocab_file, vocab_size):
  if not vocab_file:
    raise ValueError(
      f"{path} was made with --masking=dynamic; --vocab_file is needed to "
      "mask it"
    )
  words = vocab.load(vocab_file)
  vocab.check_tokens(words, name=vocab_file)
  vocab.check_size(words, vocab_size, vocab_file)
  if words.get("", 0) >= vocab_size:  # a blank line at the end
    del words[""]  # it must not be drawn as a random word
  return Masker(words, masking)
