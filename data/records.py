"""tf.data pipelines that read TFRecord files by their schema.

Batches are dicts of name -> [B, ...], int32 or float32.
"""

import re
from collections.abc import Callable, Mapping, Sequence

import tensorflow as tf

from data import length_bucketing, shuffling
from storage.schema import Schema

Batch = dict[str, tf.Tensor]

_PREFETCHED = 4  # batches


def read_sequential(files: Sequence[str]) -> tf.data.Dataset:
  """Serialized records in the order of the files, once."""
  return tf.data.TFRecordDataset(list(files))


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


def shard_batches(
  records: tf.data.Dataset,
  batch_size: int,
  replicas: int = 1,
  workers: int = 1,
  worker: int = 0,
  first: int = 0,
) -> tf.data.Dataset:
  """Per-replica batches of one worker.

  A global batch has the same records for any number of replicas.

  Args:
    records: serialized, the same on every worker.
    batch_size: of the global batch.
    replicas: number of replicas of all workers.
    workers: number of workers.
    worker: index of this worker.
    first: index of the first global batch.

  Returns:
    Pairs of a number, unique in the run, and [batch_size / replicas] strings.

  Raises:
    ValueError: the batch cannot be divided evenly.
  """
  if batch_size % replicas:
    raise ValueError(
      f"a batch of {batch_size} cannot be divided among {replicas} replicas"
    )
  here = replicas // workers
  pieces = records.batch(batch_size // replicas, drop_remainder=True)
  pieces = pieces.enumerate(first * replicas)
  if workers > 1:
    pieces = pieces.filter(lambda n, _: n % replicas // here == worker)
  return pieces


def parser(schema: Schema) -> Callable[[tf.Tensor], Batch]:
  """Makes a function from serialized records [B] to the schema's fields."""
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
    limits: by name n, where the values of a field must be in [0, n).

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


def train_dataset(
  files: Sequence[str],
  schema: Schema,
  batch_size: int,
  seed: int,
  skip: int = 0,
  context: tf.distribute.InputContext | None = None,
  by_length: bool = False,
) -> tf.data.Dataset:
  """Endless batches for fine-tuning, in an order determined by the seed.

  Args:
    files: TFRecord files.
    schema: of the records.
    batch_size: of all replicas together.
    seed: of the order.
    skip: number of records that were read before.
    context: replicas and workers; None for one of each.
    by_length: True for batches of records of similar length.

  Returns:
    Dicts of the schema's fields, [B / replicas, ...].
  """
  context = context or tf.distribute.InputContext()
  order = shuffling.ShuffledRecords([shuffling.Source(files)], seed)
  if by_length:
    examples = length_bucketing.group_by_length(order, schema, batch_size, skip)
  else:
    examples = order.from_position(skip)
  pieces = shard_batches(
    examples,
    batch_size,
    context.num_replicas_in_sync,
    context.num_input_pipelines,
    context.input_pipeline_id,
  )
  parse = parser(schema)
  return prefetch_map(pieces, lambda _, serialized: parse(serialized))


def eval_dataset(
  files: Sequence[str], schema: Schema, batch_size: int
) -> tf.data.Dataset:
  """Batches of every record once, in order; the last may be smaller."""
  return prefetch_map(read_sequential(files).batch(batch_size), parser(schema))
