"""Reading TFRecord files as tf.data, by the schema they were written with.

Batches are dicts of name -> [B, ...], int32 or float32.
"""

import re
from collections.abc import Callable, Mapping, Sequence

import tensorflow as tf

from data import length_groups, shuffling
from data.features import Schema

Batch = dict[str, tf.Tensor]

_AHEAD = 4  # batches that are ready before they are asked for


def in_order(files: Sequence[str]) -> tf.data.Dataset:
  """Serialized records as they stand in the files, once."""
  return tf.data.TFRecordDataset(list(files))


def ahead(dataset: tf.data.Dataset, function: Callable) -> tf.data.Dataset:
  """Maps a dataset on all cores, a few elements ahead of who reads them.

  Without tf.data's autotuner: on few cores it took one from the training for
  half a minute, and whoever let go of the iterator had to wait for its end.

  Args:
    dataset: what is read.
    function: from an element of it to one of the result.
  """
  options = tf.data.Options()
  options.autotune.enabled = False
  mapped = dataset.map(function, num_parallel_calls=tf.data.AUTOTUNE)
  return mapped.prefetch(_AHEAD).with_options(options)


def for_worker(
  records: tf.data.Dataset,
  batch_size: int,
  replicas: int = 1,
  workers: int = 1,
  worker: int = 0,
  first: int = 0,
) -> tf.data.Dataset:
  """A worker's part of the global batches, in pieces of one replica's size.

  A global batch holds the same records however many replicas share it.

  Args:
    records: serialized, the same on every worker.
    batch_size: of the global batch.
    replicas: number of them, over all workers.
    workers: number of them.
    worker: which of them this is.
    first: number of the first global batch.

  Returns:
    Pairs of a number, which no other piece of the run has, and a piece,
    [batch_size / replicas] strings.

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
  """A function from a batch of serialized records to the schema's fields."""
  fields = {
    name: tf.io.FixedLenFeature(feature.shape, feature.dtype)
    for name, feature in schema.items()
  }

  def parse_batch(serialized) -> Batch:
    batch = tf.io.parse_example(serialized, fields)
    # As the original: what is stored as int64 is used as int32.
    return {
      name: tf.cast(value, tf.int32) if value.dtype == tf.int64 else value
      for name, value in batch.items()
    }

  return parse_batch


def check(
  files: Sequence[str], schema: Schema, limits: Mapping[str, int]
) -> None:
  """Looks at the first record of each file before any work is begun.

  Args:
    files: paths.
    schema: what they should hold.
    limits: {name: n}; values of that field must be in [0, n).

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
      "tf.train.Examples, as our programs write them"
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
  """Whether a file holds pairs masked once and for all (static masking)."""
  return "masked_lm_positions" in _first(path)


def training(
  files: Sequence[str],
  schema: Schema,
  batch_size: int,
  seed: int,
  skip: int = 0,
  context: tf.distribute.InputContext | None = None,
  by_length: bool = False,
) -> tf.data.Dataset:
  """Batches for fine-tuning without end, in an order fixed by the seed.

  Args:
    files: paths.
    schema: what a record is.
    batch_size: of all replicas together.
    seed: of the order.
    skip: number of records that were read before.
    context: which worker this is; None for the only one.
    by_length: whether records of a batch are of similar length.

  Returns:
    Dicts of the schema's fields, [B / replicas, ...].
  """
  context = context or tf.distribute.InputContext()
  order = shuffling.Order([shuffling.Source(files)], seed)
  if by_length:
    examples = length_groups.grouped(order, schema, batch_size, skip)
  else:
    examples = order.after(skip)
  pieces = for_worker(
    examples,
    batch_size,
    context.num_replicas_in_sync,
    context.num_input_pipelines,
    context.input_pipeline_id,
  )
  parse = parser(schema)
  return ahead(pieces, lambda _, serialized: parse(serialized))


def evaluation(
  files: Sequence[str], schema: Schema, batch_size: int
) -> tf.data.Dataset:
  """Every record once, in order; the last batch may be short."""
  return ahead(in_order(files).batch(batch_size), parser(schema))
