"""First records of files to pre-train on, checked without TensorFlow."""

from collections.abc import Mapping, Sequence

from data import features
from storage import UserError, protobuf, record_scan
from storage.tfrecord import Schema


def find_schema(
  files: Sequence[str], seq_length: int, max_predictions: int, vocab_size: int
) -> Schema:
  """Schema of the records of files: of masked ones, or of unmasked ones.

  Raises ValueError if a file holds neither, records of other lengths, ids that
  a model has not, or if only some files are masked.
  """
  is_masked = _is_masked(files[0])
  for path in files:
    if _is_masked(path) != is_masked:
      raise UserError(
        f"one of {files[0]} and {path} was made with --masking=dynamic and "
        "one was not: train on files of one kind"
      )
  if is_masked:
    schema = features.pretraining(seq_length, max_predictions)
  else:
    schema = features.unmasked_pretraining(seq_length)
  limits = {
    "input_ids": vocab_size,
    "input_mask": 2,
    "masked_lm_positions": seq_length,
    "masked_lm_ids": vocab_size,
    "next_sentence_labels": 2,
  }
  check(files, schema, limits)
  return schema


def check(
  files: Sequence[str], schema: Schema, limits: Mapping[str, int]
) -> None:
  """Checks each file's first record; values of `limits` n must be in [0, n)."""
  for path in files:
    record = _first(path)
    for name, feature in schema.items():
      _check_field(path, record, feature, limits.get(name))


def _is_masked(path):
  return "masked_lm_positions" in _first(path)


def _first(path) -> dict[str, list]:
  first = next(record_scan.scan(path), None)
  if not first:
    raise UserError(f"{path} holds no record")
  error = first.error
  if first.data is not None:
    try:
      return protobuf.example(first.data)
    except protobuf.ERRORS:
      error = record_scan.NO_EXAMPLE
  raise UserError(
    f"{path} is no file of records (the first: {error}); expected a TFRecord "
    "file of tf.train.Examples, as the programs here write them"
  )


def _check_field(path, record, feature, limit):
  values = record.get(feature.name)
  if not values:
    raise UserError(
      f"{path}: a record has no field {feature.name}; it holds "
      f"{', '.join(sorted(record)) or 'nothing'}"
    )
  if len(values) != feature.size:
    raise UserError(
      f"{path}: {feature.name} has {len(values)} values in a record, "
      f"expected {feature.size}: the file was made with other flags "
      "(--max_seq_length, --max_predictions_per_seq)"
    )
  if limit is not None and not 0 <= min(values) <= max(values) < limit:
    raise UserError(
      f"{path}: {feature.name} goes from {min(values)} to {max(values)}, the "
      f"model takes 0 to {limit - 1}: the file was made with a vocabulary or "
      "flags that do not belong to this bert_config.json"
    )
