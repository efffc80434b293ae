"""Reading TFRecord files as tf.data, by the schema they were written with.

Batches are dicts of name -> [B, ...], int32 or float32.
"""

from collections.abc import Mapping, Sequence

import tensorflow as tf

from data.features import Schema

Batch = dict[str, tf.Tensor]

# Records held back to be drawn in random order, still serialized.
SHUFFLE_BUFFER = 10_000


def in_order(files: Sequence[str], schema: Schema, batch_size: int):
  """All records once, as they stand in the files; the last batch may be short.

  Args:
    files: paths.
    schema: what a record is.
    batch_size: B.

  Returns:
    A tf.data.Dataset of batches.
  """
  records = tf.data.TFRecordDataset(list(files))
  return parse(records.batch(batch_size), schema).prefetch(tf.data.AUTOTUNE)


def shuffled(files: Sequence[str], seed: int, skip: int = 0):
  """Serialized records, epoch after epoch without end, each in its own order.

  The order is a pure function of the files and the seed, so a reader that
  skips what was read before goes on where it stopped. Files are read several
  at a time, each epoch in a new order, and records drawn from a buffer.

  Args:
    files: paths.
    seed: of the order.
    skip: number of records to leave out at the beginning.

  Returns:
    A tf.data.Dataset of scalar strings.
  """
  epoch, skip = _whole_epochs(files, skip)
  names = tf.constant(list(files))

  def one_epoch(number):
    order = tf.random.experimental.stateless_shuffle(names, [seed, number])
    records = tf.data.Dataset.from_tensor_slices(order).interleave(
      tf.data.TFRecordDataset,
      cycle_length=min(4, len(files)),
      num_parallel_calls=min(4, len(files)),
      deterministic=True,
    )
    return records.shuffle(
      SHUFFLE_BUFFER, seed + number, reshuffle_each_iteration=False
    )

  epochs = tf.data.Dataset.range(epoch, tf.int64.max)
  return epochs.flat_map(one_epoch).skip(skip)


def _whole_epochs(files, skip):
  """(epochs, records) that make up a number of records."""
  if not skip:
    return 0, 0
  return divmod(skip, sum(count(path) for path in files))


def parse(batches: tf.data.Dataset, schema: Schema) -> tf.data.Dataset:
  """Batches of serialized records -> batches of the schema's fields."""
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

  return batches.map(parse_batch, num_parallel_calls=tf.data.AUTOTUNE)


def count(path: str) -> int:
  """Number of records in a file, from the lengths alone."""
  total = 0
  with tf.io.gfile.GFile(path, "rb") as file:
    size = file.size()
    position = 0
    while position < size:
      file.seek(position)
      length = int.from_bytes(file.read(8), "little")
      position += length + 16  # length, its checksum, data, its checksum
      total += 1
  return total


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
    raise ValueError(f"{path} is no file of records: {message}") from None


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


