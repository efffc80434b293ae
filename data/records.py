"""Batches of records: endless and shuffled to train, in one pass to evaluate.

Each epoch shuffles the blocks of the files (storage/record_scan.py). A chunk
has 40 shuffled blocks, with R records in all, which are shuffled in memory. The
order depends only on files and seed, so a resumed run can start at any chunk.
"""

import abc
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np
import tensorflow as tf

from data import batching
from data.batching import Batch, Packing, lengths
from data.features import TOKENS
from storage import UserError, record_scan, setting
from storage.record_scan import BLOCK, Index
from storage.tfrecord import Schema

GROUPED = 100  # number of batches whose records are sorted by length together
_LIMIT = 2**32  # greater than all lengths and all random sort keys
_CHUNK = 40  # blocks in a chunk
_ROUND = 1000  # records in a round, in which the sources' fractions are exact


def prefetch_map(
  dataset: tf.data.Dataset, function: Callable
) -> tf.data.Dataset:
  """Maps a dataset on all cores and prefetches four elements."""
  # With few cores, the autotuner keeps one core busy for half a minute.
  options = tf.data.Options()
  options.autotune.enabled = False
  mapped = dataset.map(function, num_parallel_calls=tf.data.AUTOTUNE)
  return mapped.prefetch(4).with_options(options)


def parser(schema: Schema) -> Callable[[tf.Tensor], Batch]:
  """Makes a function: serialized records [B] -> fields, int32 or float32."""
  features = schema.items()
  fields = {k: tf.io.FixedLenFeature(f.shape, f.dtype) for k, f in features}
  # int64 in the file becomes int32, as in the original.
  types = {tf.int64: tf.int32, tf.float32: tf.float32}
  return lambda serialized: {
    name: tf.cast(value, types[value.dtype])
    for name, value in tf.io.parse_example(serialized, fields).items()
  }


class Source(NamedTuple):
  """TFRecord files and their sampling weight, relative to other sources."""

  files: Sequence[str]
  weight: float = 1.0


class TrainingRecords(abc.ABC):
  """Base class of data sets: records of files as batches to train on."""

  schema: Schema
  multiple: int  # batches are trimmed to multiples of this length; 0: never
  packing: Packing | None = None
  index_file: str | None = None  # the `cache` of record_scan.load_index

  @property
  @abc.abstractmethod
  def sources(self) -> Sequence[Source]:
    """Files of the records, with weights."""

  @abc.abstractmethod
  def parse_batches(
    self, numbered: tf.data.Dataset, seed: int, multiple: int = 0
  ) -> tf.data.Dataset:
    """Parses (batch number, [B] records); trims padding if `multiple` > 0."""

  @property
  def files(self) -> list[str]:
    return [path for source in self.sources for path in source.files]

  def first_corrupt(self) -> str | None:
    """Describes the first corrupt record; see record_scan.first_corrupt."""
    return record_scan.first_corrupt(self.files, self.schema)

  def train_batches(
    self,
    batch_size: int,
    seed: int,
    by_length: bool = False,
    few_shapes: bool = False,
    **options,
  ) -> tf.data.Dataset:
    """Endless batches; the seed sets the order.

    Without packing, batches are {field: [B / replicas, ...]}. With packing, see
    Packing.pack, also for `few_shapes`. For the `options`, see
    ShuffledRecords.batches.
    """
    order = ShuffledRecords(self.sources, seed, self.index_file)
    numbered = order.batches(
      self.schema, batch_size, by_length=by_length, **options
    )
    if not self.packing:
      return self.parse_batches(numbered, seed, self.multiple)
    pack = partial(self.packing.pack, few_shapes=few_shapes)
    return prefetch_map(self.parse_batches(numbered, seed), pack)


class ShuffledRecords:
  """Records of several sources, each shuffled and repeated at its own pace.

  In every thousand records, a source has the fraction that its weight gives.
  Raises ValueError for a smaller fraction, an empty source, a truncated file.
  """

  def __init__(
    self, sources: Sequence[Source], seed: int, cache: str | None = None
  ):
    self._seed = seed
    # One call for all sources, because the sources share a cache.
    index = record_scan.load_index([p for s in sources for p in s.files], cache)
    numbers = np.repeat(range(len(sources)), [len(s.files) for s in sources])
    source = numbers[index.file]  # source of each block
    columns = index.file, index.offset, index.count
    self._indexes = []
    for i, group in enumerate(sources):
      own = Index(index.paths, *[column[source == i] for column in columns])
      if not own.records:
        raise UserError(f"{group.files[0]} holds no record: leave it out")
      self._indexes.append(own)
    weights = [source.weight for source in sources]
    exact = np.array(weights) * (_ROUND / (sum(map(abs, weights)) or 1))
    if not (exact >= 1).all():
      raise UserError(
        f"{setting('sampling_weights', weights)} cannot be mixed: each must be "
        f"positive, and at least one {_ROUND:,}th of their sum"
      )
    # Records of each source in a round: largest remainder method.
    self._counts = exact.astype(int)
    order = np.argsort(self._counts - exact, kind="stable")
    self._counts[order[: _ROUND - self._counts.sum()]] += 1
    # Each source repeats at its own pace, so a mix has no epoch.
    self._epoch = index.records if len(sources) == 1 else tf.int64.max

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
    datasets = [
      _shuffled(index, seed + i, int(begin * counts[i] + drawn[i]))
      for i, index in enumerate(self._indexes)
    ]
    choices = rounds.unbatch().skip(within)
    return tf.data.Dataset.choose_from_datasets(datasets, choices)

  def batches(
    self,
    schema: Schema,
    batch_size: int,
    skip: int = 0,
    context: tf.distribute.InputContext | None = None,
    by_length: bool = False,
  ) -> tf.data.Dataset:
    """Endless pairs: a number, and the serialized records of a replica's batch.

    Numbers count the batches of all replicas. A global batch has `batch_size`
    records, and each replica gets an equal part. Skips `skip` records. A
    `context` of None means one replica. With `by_length`, the records of a
    batch have similar lengths.
    """
    context = context or tf.distribute.InputContext()
    replicas = context.num_replicas_in_sync
    if by_length:
      examples = self._by_length(schema, batch_size, skip)
    else:
      examples = self.from_position(skip)
    batches = examples.batch(batch_size // replicas, drop_remainder=True)
    batches = batches.enumerate(skip // batch_size * replicas)
    here = replicas // context.num_input_pipelines
    if here < replicas:
      worker = context.input_pipeline_id
      batches = batches.filter(lambda n, _: n % replicas // here == worker)
    return batches

  def _by_length(self, schema, batch_size, skip):
    """Sorts the records of 100 batches by length, and shuffles the batches."""
    size = GROUPED * batch_size
    first, inside = divmod(skip, size)
    parse = parser(Schema(schema["input_mask"]))

    def reorder(number, serialized):
      begin = number * size + batch_size * tf.range(GROUPED, dtype=tf.int64)
      first_epoch = begin // self._epoch
      last_epoch = (begin + batch_size - 1) // self._epoch
      # Batches are shuffled within a group. Group 2e has batches in epoch e.
      # Group 2e + 1 has the batch that spans epochs e and e + 1: not sorted.
      group = 2 * first_epoch + tf.cast(first_epoch != last_epoch, tf.int64)
      row_group = tf.repeat(group, batch_size)
      length = tf.cast(lengths(parse(serialized)["input_mask"]), tf.int64)
      order = _order(row_group, tf.where(row_group % 2 == 0, length, 0))
      batches = tf.reshape(tf.gather(serialized, order), [GROUPED, batch_size])
      seed = [self._seed, number]
      drawn = tf.random.stateless_uniform([GROUPED], seed, 0, _LIMIT, tf.int64)
      return tf.reshape(tf.gather(batches, _order(group, drawn)), [-1])

    chunks = self.from_position(first * size).batch(size, drop_remainder=True)
    chunks = chunks.enumerate(first).map(reorder, tf.data.AUTOTUNE)
    return chunks.unbatch().skip(inside)


def _order(group, key):
  """Indices sorted by group, then by key. Keys are less than _LIMIT."""
  return tf.argsort(group * _LIMIT + key, stable=True)


def _shuffled(index: Index, seed: int, skip: int) -> tf.data.Dataset:
  first, skip = divmod(skip, index.records)
  names = tf.constant(index.paths)
  columns = [tf.constant(c) for c in (index.file, index.offset, index.count)]
  numbers = tf.range(len(index.count))

  def read_epoch(number):
    order = tf.random.experimental.stateless_shuffle(numbers, [seed, number])
    file, offset, count = (tf.gather(column, order) for column in columns)
    # Only the first epoch skips records.
    unread = tf.where(number == first, tf.constant(skip, tf.int64), 0)
    begins = tf.cumsum(count, exclusive=True)[::_CHUNK]
    chunk = tf.searchsorted(begins, [unread], side="right")[0] - 1
    blocks = tf.data.Dataset.from_tensor_slices((file, offset, count))
    chunks = blocks.batch(_CHUNK).enumerate().skip(tf.cast(chunk, tf.int64))
    epoch_seed = [tf.constant(seed, tf.int64), number]
    records = chunks.map(partial(_shuffled_chunk, names, epoch_seed))
    return records.prefetch(1).unbatch().skip(unread - begins[chunk])

  return tf.data.Dataset.range(first, tf.int64.max).flat_map(read_epoch)


def _shuffled_chunk(names, epoch_seed, number, blocks) -> tf.Tensor:
  """Reads the records of a chunk and shuffles them, [R] strings."""

  def read_block(file, offset, count):
    dataset = tf.raw_ops.TFRecordDatasetV2(
      filenames=names[file][None],
      compression_type="",
      buffer_size=256 << 10,  # bytes
      byte_offsets=offset[None],
    )
    spec = tf.TensorSpec([], tf.string)
    return tf.data.experimental.from_variant(dataset, spec).take(count)

  records = tf.data.Dataset.from_tensor_slices(blocks).interleave(
    read_block, 4, BLOCK, num_parallel_calls=4, deterministic=True
  )
  chunk = records.batch(_CHUNK * BLOCK).get_single_element()
  seed = tf.random.experimental.stateless_fold_in(epoch_seed, number)
  return tf.random.experimental.stateless_shuffle(chunk, seed)


@dataclass(frozen=True)
class RecordDataset(TrainingRecords):
  """A file of records with the rows from which the records were made."""

  rows: Sequence[Any]  # the example, or the window, of each record
  path: str  # file of the records
  schema: Schema
  multiple: int  # 0: no trimming, and the last batch is padded to full size
  examples: Sequence[Any] = ()  # if an example may have several records
  # Number of texts by length in tokens before truncation, for `with_packing`.
  lengths: Mapping[int, int] = field(default_factory=dict, kw_only=True)
  packing: Packing | None = field(default=None, kw_only=True)
  # Fields with a value for each token.
  token_fields: Sequence[str] = field(default=TOKENS, kw_only=True)

  @property
  def sources(self) -> list[Source]:
    return [Source([self.path])]

  def with_packing(self, batch_size: int, packs: bool | None) -> Self:
    """Returns a copy with the packing that batching.plan chooses."""
    *choices, length = self.schema["input_ids"].shape
    size = batch_size * math.prod(choices)
    token_labels = "label_ids" in self.token_fields
    packing = batching.plan(self.lengths, length, size, packs, token_labels)
    return replace(self, packing=packing)

  def parse_batches(self, numbered, seed, multiple=0):
    parse = parser(self.schema)
    batches = prefetch_map(numbered, lambda _, serialized: parse(serialized))
    return self._trimmed(batches) if multiple else batches

  def eval_batches(self, batch_size: int) -> tf.data.Dataset:
    """Yields every record once, with records of similar length together.

    A batch has the schema's fields, [B, ...], and `position` [B], the index of
    each record in the file. If `multiple` is 0, zeros fill up the last batch.
    """
    parse = parser(self.schema)

    def sort_rows(positions, serialized):
      batch = parse(serialized) | {"position": positions}
      order = tf.argsort(lengths(batch["input_mask"]), stable=True)
      return {name: tf.gather(value, order) for name, value in batch.items()}

    chunks = tf.data.TFRecordDataset(self.path).enumerate()
    chunks = chunks.batch(GROUPED * batch_size)
    batches = prefetch_map(chunks, sort_rows).rebatch(batch_size)
    if self.multiple:
      return self._trimmed(batches)
    return batches.map(lambda batch: batching.pad_rows(batch, batch_size))

  def in_order(self, outputs: Mapping[str, np.ndarray]) -> dict:
    """Puts outputs [N, ...] of `eval_batches` into the order of `rows`."""
    # The padding rows have the greatest positions.
    order = np.argsort(outputs["position"])[: len(self.rows)]
    return {name: values[order] for name, values in outputs.items()}

  def _trimmed(self, batches):
    options = {"names": self.token_fields, "multiple": self.multiple}
    return prefetch_map(batches, partial(batching.trim_padding, **options))
