"""Records in random order, epoch after epoch, from any place on.

The order is a function of the files, the seed and the number of the record. An
epoch is all blocks of the files (data/record_index.py) in random order; so many
of them at a time make a window, whose records are put into random order in
memory. To begin in the middle is to begin with a window: nothing before it is
read.

Legend: W records of a window.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from data import record_index
from data.record_index import BLOCK, Index

_WINDOW = 40  # blocks
_ROUND = 1000  # draws after which each source has had its share exactly
_BUFFER = 256 << 10  # bytes


class Source(NamedTuple):
  """Files that are drawn from.

  Attributes:
    files: paths.
    weight: its share of the records, together with the other sources' weights.
  """

  files: Sequence[str]
  weight: float = 1.0


class Order:
  """Records of several sources, each in random order in epochs of its own.

  Of every thousand records each source has its share, in random order.

  Arguments:
    sources: what to mix.
    seed: of the order.
    kept: see record_index.load.

  Attributes:
    seed: the same.
    epoch: records of an epoch; None where several sources have their own.

  Raises:
    ValueError: a weight is not positive, or less than a thousandth of all; a
      file is not whole.
  """

  def __init__(
    self, sources: Sequence[Source], seed: int, kept: str | None = None
  ):
    self.seed = seed
    # All at once, since there is one file to keep them.
    index = record_index.load([p for s in sources for p in s.files], kept)
    ends = np.cumsum([len(source.files) for source in sources])
    self._parts = [
      _part(index, end - len(source.files), end)
      for source, end in zip(sources, ends, strict=True)
    ]
    self._shares = _shares([source.weight for source in sources])
    self.epoch = index.records if len(sources) == 1 else None

  def after(self, skip: int) -> tf.data.Dataset:
    """Serialized records without end, scalar strings.

    Args:
      skip: number of records to leave out at the beginning; they are not read.
    """
    seed, shares = self.seed, self._shares
    if len(self._parts) == 1:
      return _shuffled(self._parts[0], seed, skip)
    pattern = np.repeat(np.arange(len(shares)), shares)

    def one_round(number):
      return tf.random.experimental.stateless_shuffle(pattern, [seed, number])

    begin, within = divmod(skip, _ROUND)
    drawn = np.bincount(one_round(begin)[:within], minlength=len(shares))
    rounds = tf.data.Dataset.range(begin, tf.int64.max).map(one_round)
    return tf.data.Dataset.choose_from_datasets(
      [
        _shuffled(part, seed + i, int(begin * shares[i] + drawn[i]))
        for i, part in enumerate(self._parts)
      ],
      rounds.unbatch().skip(within),
    )


def _part(index: Index, begin: int, end: int) -> Index:
  """The blocks of some of the files."""
  here = (index.file >= begin) & (index.file < end)
  return Index(
    index.paths, index.file[here], index.offset[here], index.count[here]
  )


def _shares(weights: Sequence[float]) -> np.ndarray:
  """How many of _ROUND records each source gives; largest remainders first."""
  weights = np.array(weights, float)
  possible = np.isfinite(weights).all() and (weights > 0).all()
  exact = weights * (_ROUND / weights.sum()) if possible else weights
  if not possible or exact.min() < 1:
    raise ValueError(
      f"weights {weights.tolist()} cannot be mixed: each must be positive, and "
      f"one {_ROUND:,}th of all or more"
    )
  shares = exact.astype(int)
  rest = _ROUND - shares.sum()
  shares[np.argsort(shares - exact, kind="stable")[:rest]] += 1
  return shares


def _shuffled(index: Index, seed: int, skip: int) -> tf.data.Dataset:
  first, skip = divmod(skip, index.records)
  names = tf.constant(index.paths)
  columns = [tf.constant(c) for c in (index.file, index.offset, index.count)]

  def one_epoch(number):
    order = tf.random.experimental.stateless_shuffle(
      tf.range(len(index.count)), [seed, number]
    )
    file, offset, count = (tf.gather(column, order) for column in columns)
    # Window and record to begin with: the first ones, but in the first epoch.
    unread = tf.where(number == first, tf.constant(skip, tf.int64), 0)
    begins = tf.cumsum(count, exclusive=True)[::_WINDOW]
    window = tf.searchsorted(begins, [unread], side="right")[0] - 1
    blocks = tf.data.Dataset.from_tensor_slices((file, offset, count))
    windows = blocks.batch(_WINDOW).enumerate().skip(tf.cast(window, tf.int64))
    epoch_seed = [tf.constant(seed, tf.int64), number]
    records = windows.map(
      lambda n, blocks: _window(
        names, blocks, tf.random.experimental.stateless_fold_in(epoch_seed, n)
      )
    )
    records = records.prefetch(1).unbatch()
    return records.skip(unread - begins[window])

  return tf.data.Dataset.range(first, tf.int64.max).flat_map(one_epoch)


def _window(names, blocks, seed) -> tf.Tensor:
  """Reads the blocks of a window: records in random order, [W] strings."""

  def read(file, offset, count):
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
    read,
    cycle_length=4,
    block_length=BLOCK,
    num_parallel_calls=4,
    deterministic=True,
  )
  held = records.batch(_WINDOW * BLOCK).get_single_element()
  return tf.random.experimental.stateless_shuffle(held, seed)
