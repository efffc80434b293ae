"""Finds the schema of pre-training files from the first records."""

from collections.abc import Sequence

from data import features
from data.vocab import Tokenizer
from storage import UserError, files, record_scan, setting
from storage.tfrecord import Schema


def find_schema(
  paths: Sequence[str],
  seq_length: int,
  max_predictions: int,
  vocab_size: int,
  *,
  tokenizer: Tokenizer | None,
  needs_masks: bool = True,
  skip_corrupt: bool = False,
) -> Schema:
  """Schema of pre-training files, from the first record of each.

  With `skip_corrupt`, the first intact record counts. Raises ValueError if a
  file has other records, lengths or ids than the arguments allow, or if only
  some files are masked. If none is, `needs_masks` demands a `tokenizer`, and a
  `tokenizer` must have the ids of [CLS] and [SEP] that the files have.
  """
  # Builders write empty files if there are fewer instances than files.
  paths = [path for path in paths if files.size(path)] or paths[:1]
  records = [record_scan.first_record(path, skip_corrupt) for path in paths]
  is_masked = ["masked_lm_positions" in record for record in records]
  if len(set(is_masked)) > 1:
    other = paths[is_masked.index(not is_masked[0])]
    raise UserError(
      f"one of {paths[0]} and {other} was made with "
      f"{setting('masking', 'dynamic')} and one was not: train on files of one "
      "kind"
    )
  if needs_masks and not is_masked[0] and not tokenizer:
    raise UserError(
      f"{paths[0]} was made with {setting('masking', 'dynamic')}; "
      f"{setting('vocab_file')} is needed to mask it"
    )
  schema = features.pretraining(seq_length, max_predictions * is_masked[0])
  limits = {
    "input_ids": vocab_size,
    "input_mask": 2,
    "masked_lm_positions": seq_length,
    "masked_lm_ids": vocab_size,
    "next_sentence_labels": 2,
  }
  for path, record in zip(paths, records, strict=True):
    record_scan.check_record(path, record, schema, limits)
  if tokenizer and not is_masked[0]:
    tokenizer.check(*(() if needs_masks else ("cls", "sep")))
    cls, sep = tokenizer.special.cls, tokenizer.special.sep
    for path, record in zip(paths, records, strict=True):
      ids = record["input_ids"]
      if tokenizer.cls != ids[0] or tokenizer.sep not in ids:
        raise UserError(
          f"{path} was made with another vocabulary than "
          f"{tokenizer.vocab_file}: its first record does not begin with the "
          f"id of {cls}, or has no {sep}"
        )
  return schema
