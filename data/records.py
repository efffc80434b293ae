"""Records read by their schema: batches are dicts of name -> [B, ...].

Legend: B batch, C choices, T tokens.
"""

import re
from collections.abc import Callable, Mapping, Sequence

import tensorflow as tf

from storage.tfrecord import Schema

Batch = dict[str, tf.Tensor]

_PREFETCHED = 4  # batches


def prefetch_map(
  dataset: tf.data.Dataset, function: Callable
) -> tf.data.Dataset:
  """Maps a dataset on all cores and prefetches a few elements.

  tf.data's autotuner is off: with few cores it took one from the training for
  half a minute, and releasing the iterator waited for its end.
  """
  options = tf.data.Options()
  options.autotune.enabled = False
  mapped = dataset.map(function, num_parallel_calls=tf.data.AUTOTUNE)
  return mapped.prefetch(_PREFETCHED).with_options(options)


def parser(schema: Schema) -> Callable[[tf.Tensor], Batch]:
  """Function from serialized records [B] to their fields, int32 or float32."""
  fields = {
    name: tf.io.FixedLenFeature(feature.shape, feature.dtype)
    for name, feature in schema.items()
  }

  def parse_batch(serialized) -> Batch:
    batch = tf.io.parse_example(serialized, fields)
    # As in the original, int64 in the file becomes int32.
    return {
      name: tf.cast(value, tf.int32) if value.dtype == tf.int64 else value
      for name, value in batch.items()
    }

  return parse_batch


def check(
  files: Sequence[str], schema: Schema, limits: Mapping[str, int]
) -> None:
  """Checks the first record of each file.

  Args:
    files: TFRecord files.
    schema: of the records.
    limits: by field n, if its values must be in [0, n).

  Raises:
    ValueError: a file is no TFRecord file or is empty, or a field is missing,
      of another length, or out of its limits; names file, field and flag.
  """
  for path in files:
    record = _first(path)
    for name, feature in schema.items():
      _check_field(path, record, feature, limits.get(name))


def _first(path):
  try:
    first = next(iter(tf.data.TFRecordDataset(path)))
    return tf.train.Example.FromString(first.numpy()).features.feature
  except StopIteration:
    raise ValueError(f"{path} holds no record") from None
  except Exception as error:  # not a TFRecord, not an Example, not readable
    message = getattr(error, "message", str(error))
    message = re.sub(r"\{\{.*?\}\}\s*|\s*\[Op:.*", "", message)
    raise ValueError(
      f"{path} is no file of records: {message}; expected a TFRecord file of "
      "tf.train.Examples, as the programs here write them"
    ) from None


def _check_field(path, record, feature, limit):
  kind = "float_list" if feature.dtype == "float32" else "int64_list"
  values = getattr(record[feature.name], kind).value
  if feature.name not in record or not values:
    held = ", ".join(sorted(record)) or "nothing"
    raise ValueError(
      f"{path}: a record has no field {feature.name}; it holds {held}"
    )
  if len(values) != feature.size:
    raise ValueError(
      f"{path}: {feature.name} has {len(values)} values in a record, "
      f"expected {feature.size}: the file was made with other flags "
      "(--max_seq_length, --max_predictions_per_seq)"
    )
  if limit is not None and not 0 <= min(values) <= max(values) < limit:
    raise ValueError(
      f"{path}: {feature.name} goes from {min(values)} to {max(values)}, the "
      f"model takes 0 to {limit - 1}: the file was made with a vocabulary or "
      "flags that do not belong to this bert_config.json"
    )


def is_masked(path: str) -> bool:
  """True if the records of a file are masked (static masking)."""
  return "masked_lm_positions" in _first(path)


def lengths(mask: tf.Tensor) -> tf.Tensor:
  """Number of positions up to the last token of each record, [B].

  Args:
    mask: [B, T] or [B, C, T] int, 1 for tokens; the longest choice counts.
  """
  positions = tf.range(1, tf.shape(mask, mask.dtype)[-1] + 1)
  return tf.reduce_max(mask * positions, axis=range(1, mask.shape.rank))


def trim_padding(batch: Batch, multiple: int = 8) -> Batch:
  """Cuts off the padding that all rows of a batch have.

  Args:
    batch: with `input_mask` [B, ..., T], 1 for tokens and then 0 for padding.
      Every field with T as its last dimension is cut.
    multiple: the new length is a multiple of it, or T.
  """
  mask = batch["input_mask"]
  longest = tf.reduce_max(lengths(mask))
  length = tf.maximum(-(-longest // multiple), 1) * multiple
  return {
    name: value[..., :length] if _is_along(mask, value) else value
    for name, value in batch.items()
  }


def _is_along(mask, value):
  return value.shape.rank > 1 and value.shape[-1] == mask.shape[-1]
