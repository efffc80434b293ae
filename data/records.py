"""Records by their schema: batches are dicts of name -> [B, ...]."""

import abc
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tensorflow as tf

from data.features import TOKENS
from data.packing import Batch, Packing
from data.shuffling import ShuffledRecords, Source, lengths
from storage import record_scan
from storage.tfrecord import Schema

_PREFETCHED = 4  # batches
_MULTIPLE = 8  # tokens; trimmed rows have a multiple of it
# Batches whose records are sorted by length together in an evaluation.
_SORTED_TOGETHER = 100


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


def trim_padding(batch: Batch, names: Iterable[str] = TOKENS) -> Batch:
  """Cuts off the padding that all rows of a batch have.

  `input_mask` is [B, ..., T], 1 for tokens and then 0; the fields `names`, of
  the same shape, are cut to a multiple of 8, or T.
  """
  mask = batch["input_mask"]
  longest = tf.reduce_max(lengths(mask))
  length = tf.maximum(-(-longest // _MULTIPLE), 1) * _MULTIPLE
  return batch | {name: batch[name][..., :length] for name in names}


class TrainingRecords(abc.ABC):
  """Records of files, with sampling weights, as batches to train on."""

  schema: Schema
  packing: Packing | None = None

  @property
  @abc.abstractmethod
  def sources(self) -> Sequence[Source]:
    """Files with their sampling weights."""

  @property
  def files(self) -> list[str]:
    return [path for source in self.sources for path in source.files]

  def first_corrupt(self) -> str | None:
    """Describes the first corrupt record; see record_scan.first_corrupt."""
    return record_scan.first_corrupt(self.files, self.schema)

  @abc.abstractmethod
  def train_batches(
    self, batch_size: int, seed: int, by_length: bool = False, **options
  ) -> tf.data.Dataset:
    """Endless batches, {field: [B / replicas, ...]}, in an order by the seed.

    `by_length` and `options` are those of ShuffledRecords.batches.
    """


@dataclass(frozen=True)
class RecordDataset(TrainingRecords):
  """Examples, in the order of their records, which have been written."""

  token_fields = TOKENS  # those with a value for each token

  examples: Sequence[Any]
  path: str  # file of the records
  schema: Schema
  # All batches have one shape, for XLA: none is trimmed, the last is padded.
  static_shapes: bool
  packing: Packing | None = field(default=None, kw_only=True)

  @property
  def sources(self) -> list[Source]:
    return [Source([self.path])]

  def train_batches(self, batch_size, seed, by_length=False, **options):
    order = ShuffledRecords(self.sources, seed)
    options["by_length"] = by_length
    numbered = order.batches(self.schema, batch_size, **options)
    parse = parser(self.schema)
    batches = prefetch_map(numbered, lambda _, serialized: parse(serialized))
    if self.packing:
      return prefetch_map(batches, self.packing.pack)
    return self._trimmed(batches)

  def eval_batches(self, batch_size: int) -> tf.data.Dataset:
    """Every record once, those of similar length together.

    Dicts of the schema's fields, [B, ...] or fewer in the last batch, and
    `position` [B], the index of the record in the file.
    """
    parse = parser(self.schema)

    def sort_rows(positions, serialized):
      batch = parse(serialized) | {"position": positions}
      order = tf.argsort(lengths(batch["input_mask"]), stable=True)
      return {name: tf.gather(value, order) for name, value in batch.items()}

    chunks = tf.data.TFRecordDataset(self.path).enumerate()
    chunks = chunks.batch(_SORTED_TOGETHER * batch_size)
    batches = prefetch_map(chunks, sort_rows).rebatch(batch_size)
    if self.static_shapes:
      batches = batches.map(lambda batch: _pad_batch(batch, batch_size))
    return self._trimmed(batches)

  def in_order(self, outputs: Mapping[str, np.ndarray]) -> dict:
    """Outputs for all `eval_batches`, [examples, ...], as the examples are."""
    order = np.argsort(outputs["position"])
    # Rows that pad the last batch come last.
    order = order[: len(self.examples)]
    return {name: values[order] for name, values in outputs.items()}

  def _trimmed(self, batches):
    if self.static_shapes:
      return batches
    return prefetch_map(batches, lambda b: trim_padding(b, self.token_fields))


def _pad_batch(batch, size):
  """Adds rows of zeros up to a batch size; their position is the greatest."""
  missing = size - tf.shape(batch["position"])[0]
  last = tf.fill([missing], batch["position"].dtype.max)
  filled = {
    name: tf.pad(value, [[0, missing]] + [[0, 0]] * (value.shape.rank - 1))
    for name, value in batch.items()
  }
  return filled | {"position": tf.concat([batch["position"], last], 0)}
