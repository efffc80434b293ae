"""Records of files as endless batches in random order, from any position.

A batch is a dict of name -> [B, ...]. The order is a function of the files, the
seed and the number of the record. In an epoch the blocks of the files
(storage/record_scan.py) are shuffled; 40 blocks at a time are a chunk, whose R
records are shuffled in memory. Reading from a position begins with its chunk.
"""

import abc
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from data.features import TOKENS
from data.packing import Batch, Packing, lengths
from storage import UserError, record_scan
from storage.record_scan import BLOCK, Index
from storage.tfrecord import Schema

_CHUNK = 40  # blocks
_ROUND = 1000  # records in which the fractions of the sources are exact
_BUFFER = 256 << 10  # bytes
_GROUPED = 100  # batches whose records are sorted by length together
_LIMIT = 2**32  # greater than all lengths and all random sort keys
_PREFETCHED = 4  # batches
_MULTIPLE = 8  # tokens; trimmed rows have a multiple of it


class Source(NamedTuple):
  """TFRecord files and their sampling weight, relative to other sources."""

  files: Sequence[str]
  weight: float = 1.0


class TrainingRecords(abc.ABC):
  """Records of files as batches to train on."""

  schema: Schema
  packing: Packing | None = None

  @property
  @abc.abstractmethod
  def files(self) -> list[str]:
    """Paths of the files."""

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


class ShuffledRecords:
  """Records of several sources, each shuffled in epochs of its own.

  In every thousand records the fractions are those of the weights. Raises
  ValueError if a weight is not positive, or less than a thousandth of all, or a
  file is truncated.
  """

  def __init__(
    self, sources: Sequence[Source], seed: int, cache: str | None = None
  ):
    self._seed = seed
    # In one call, since there is one cache.
    index = record_scan.load_index([p for s in sources for p in s.files], cache)
    ends = np.cumsum([len(source.files) for source in sources])
    self._indexes = [
      _slice_files(index, end - len(source.files), end)
      for source, end in zip(sources, ends, strict=True)
    ]
    self._counts = _round_counts([source.weight for source in sources])
    self._epoch = index.records if len(sources) == 1 else None

  def from_position(self, skip: int) -> tf.data.Dataset:
    """Endless serialized records, scalar strings, after the first `skip`."""
    seed, counts = self._seed, self._counts
    if len(self._indexes) == 1:
      return _shuffled(self._indexes[0], seed, skip)
    pattern = np.repeat(np.arange(len(counts)), counts)

    def shuffle_round(number):
      return tf.random.experimental.stateless_shuffle(pattern, [seed, number])

    begin, within = divmod(skip, _ROUND)
    drawn = np.bincount(shuffle_round(begin)[:within], minlength=len(counts))
    rounds = tf.data.Dataset.range(begin, tf.int64.max).map(shuffle_round)
    return tf.data.Dataset.choose_from_datasets(
      [
        _shuffled(index, seed + i, int(begin * counts[i] + drawn[i]))
        for i, index in enumerate(self._indexes)
      ],
      rounds.unbatch().skip(within),
    )

  def batches(
    self,
    schema: Schema,
    batch_size: int,
    skip: int = 0,
    context: tf.distribute.InputContext | None = None,
    by_length: bool = False,
  ) -> tf.data.Dataset:
    """Endless pairs of the batch's number and its [B / replicas] records.

    A global batch of `batch_size`, a multiple of the replicas (else
    ValueError), has the same records for any number of them. `skip` records
    were read before, `context` has replicas and workers, None for one of each,
    and `by_length` makes batches of records of similar length.
    """
    context = context or tf.distribute.InputContext()
    replicas = context.num_replicas_in_sync
    if batch_size % replicas:
      raise UserError(
        f"a batch of {batch_size} cannot be divided among {replicas} replicas"
      )
    if by_length:
      examples = self._group_by_length(schema, batch_size, skip)
    else:
      examples = self.from_position(skip)
    batches = examples.batch(batch_size // replicas, drop_remainder=True)
    batches = batches.enumerate(skip // batch_size * replicas)
    here = replicas // context.num_input_pipelines
    if here < replicas:
      worker = context.input_pipeline_id
      batches = batches.filter(lambda n, _: n % replicas // here == worker)
    return batches

  def _group_by_length(self, schema, batch_size, skip):
    """Reorders records so that those of a batch have similar lengths.

    The records of 100 batches are sorted by length, and the batches are
    shuffled, within an epoch. A reader that skips records, in batches of the
    same size, resumes the same order.
    """
    size = _GROUPED * batch_size
    first, inside = divmod(skip, size)
    mask = schema["input_mask"]
    mask = {mask.name: tf.io.FixedLenFeature(mask.shape, mask.dtype)}

    def reorder(number, serialized):
      parsed = tf.io.parse_example(serialized, mask)
      begin = number * size + batch_size * tf.range(_GROUPED, dtype=tf.int64)
      group = _groups(begin, batch_size, self._epoch)  # [batches]
      row_group = tf.repeat(group, batch_size)
      length = tf.cast(lengths(parsed["input_mask"]), tf.int64)
      order = _order(row_group, tf.where(row_group % 2 == 0, length, 0))
      batches = tf.reshape(tf.gather(serialized, order), [_GROUPED, batch_size])
      drawn = tf.random.stateless_uniform(
        [_GROUPED],
        tf.stack([tf.constant(self._seed, tf.int64), number]),
        maxval=_LIMIT,
        dtype=tf.int64,
      )
      return tf.reshape(tf.gather(batches, _order(group, drawn)), [-1])

    chunks = self.from_position(first * size).batch(size, drop_remainder=True)
    chunks = chunks.enumerate(first).map(reorder, tf.data.AUTOTUNE)
    return chunks.unbatch().skip(inside)


def _groups(begin, batch_size, epoch):
  """Group of each batch: even within an epoch, odd for batches of two."""
  if epoch is None:
    return tf.zeros_like(begin)
  first, last = begin // epoch, (begin + batch_size - 1) // epoch
  return 2 * first + tf.cast(first != last, first.dtype)


def _order(group, key):
  """Indices sorted by group, then by a key less than _LIMIT."""
  return tf.argsort(group * _LIMIT + key, stable=True)


def _slice_files(index: Index, begin: int, end: int) -> Index:
  """The blocks of files[begin:end]."""
  here = (index.file >= begin) & (index.file < end)
  return Index(
    index.paths, index.file[here], index.offset[here], index.count[here]
  )


def _round_counts(weights: Sequence[float]) -> np.ndarray:
  """Records of each source in a round, by the largest remainder method."""
  weights = np.array(weights, float)
  possible = np.isfinite(weights).all() and (weights > 0).all()
  exact = weights * (_ROUND / weights.sum()) if possible else weights
  if not possible or exact.min() < 1:
    raise UserError(
      f"weights {weights.tolist()} cannot be mixed: each must be positive, and "
      f"one {_ROUND:,}th of all or more"
    )
  counts = exact.astype(int)
  rest = _ROUND - counts.sum()
  counts[np.argsort(counts - exact, kind="stable")[:rest]] += 1
  return counts


def _shuffled(index: Index, seed: int, skip: int) -> tf.data.Dataset:
  first, skip = divmod(skip, index.records)
  names = tf.constant(index.paths)
  columns = [tf.constant(c) for c in (index.file, index.offset, index.count)]

  def read_epoch(number):
    order = tf.random.experimental.stateless_shuffle(
      tf.range(len(index.count)), [seed, number]
    )
    file, offset, count = (tf.gather(column, order) for column in columns)
    # Only the first epoch begins after skipped records.
    unread = tf.where(number == first, tf.constant(skip, tf.int64), 0)
    begins = tf.cumsum(count, exclusive=True)[::_CHUNK]
    chunk = tf.searchsorted(begins, [unread], side="right")[0] - 1
    blocks = tf.data.Dataset.from_tensor_slices((file, offset, count))
    chunks = blocks.batch(_CHUNK).enumerate().skip(tf.cast(chunk, tf.int64))
    epoch_seed = [tf.constant(seed, tf.int64), number]
    records = chunks.map(
      lambda n, blocks: _shuffled_chunk(
        names, blocks, tf.random.experimental.stateless_fold_in(epoch_seed, n)
      )
    )
    records = records.prefetch(1).unbatch()
    return records.skip(unread - begins[chunk])

  return tf.data.Dataset.range(first, tf.int64.max).flat_map(read_epoch)


def _shuffled_chunk(names, blocks, seed) -> tf.Tensor:
  """Reads the records of a chunk and shuffles them, [R] strings."""

  def read_block(file, offset, count):
    dataset = tf.raw_ops.TFRecordDatasetV2(
      filenames=names[file][None],
      compression_type="",
      buffer_size=_BUFFER,
      byte_offsets=offset[None],
    )
    records = tf.data.experimental.from_variant(
      dataset, tf.TensorSpec([], tf.string)
    )
    return records.take(count)

  records = tf.data.Dataset.from_tensor_slices(blocks).interleave(
    read_block,
    cycle_length=4,
    block_length=BLOCK,
    num_parallel_calls=4,
    deterministic=True,
  )
  chunk = records.batch(_CHUNK * BLOCK).get_single_element()
  return tf.random.experimental.stateless_shuffle(chunk, seed)
