"""Batches of examples whose records are in a file."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from data import records
from data.shuffling import Source, TrainingRecords
from storage.progress import Progress
from storage.tfrecord import Schema

# Batches whose records are sorted by length together.
_SORTED_TOGETHER = 100


@dataclass(frozen=True)
class RecordDataset(TrainingRecords):
  """Examples whose records have been written.

  Attributes:
    examples: in the order of their records.
    path: the file of their records. There may be more records than examples,
      to fill up the last batch.
    schema: of the records.
    static_shapes: True if all batches are to have one shape, for XLA: none is
      trimmed, and the last one is padded.
  """

  examples: Sequence[Any]
  path: str
  schema: Schema
  static_shapes: bool

  @property
  def files(self) -> tuple[str]:
    """The files of the records."""
    return (self.path,)

  @property
  def sources(self) -> list[Source]:
    """The files as a source of records."""
    return [Source(self.files)]

  def read(self, batches, seed, by_length):
    """See TrainingRecords."""
    del seed, by_length  # batches are trimmed anyway
    parse = records.parser(self.schema)
    return self._trimmed(
      records.prefetch_map(batches, lambda _, serialized: parse(serialized))
    )

  def evaluation(self, batch_size: int) -> tf.data.Dataset:
    """Every record once, those of similar length together.

    Returns:
      Dicts of the schema's fields, [B, ...] or fewer in the last batch, and
      `position` [B], the index of the record in the file.
    """
    parse = records.parser(self.schema)

    def sort_rows(positions, serialized):
      batch = parse(serialized) | {"position": positions}
      lengths = records.lengths(batch["input_mask"])
      order = tf.argsort(lengths, stable=True)
      return {name: tf.gather(value, order) for name, value in batch.items()}

    chunks = tf.data.TFRecordDataset(self.path).enumerate()
    chunks = chunks.batch(_SORTED_TOGETHER * batch_size)
    batches = records.prefetch_map(chunks, sort_rows).rebatch(batch_size)
    if self.static_shapes:
      batches = batches.map(lambda batch: _pad_batch(batch, batch_size))
    return self._trimmed(batches)

  def outputs(
    self,
    batch_size: int,
    predict: Callable[[Iterable[Mapping]], Mapping[str, np.ndarray]],
  ) -> dict[str, np.ndarray]:
    """Outputs of a model, [examples, ...] by name, in order; logs progress.

    Args:
      batch_size: B.
      predict: function from batches to arrays [records, ...] by name, in the
        order of the batches; passes their `position` on.
    """
    progress = Progress("read", len(self.examples), "examples")
    outputs = predict(progress.follow(self.evaluation(batch_size)))
    order = np.argsort(outputs["position"])
    # Rows that pad the last batch come last.
    order = order[: len(self.examples)]
    return {name: values[order] for name, values in outputs.items()}

  def _trimmed(self, batches):
    if self.static_shapes:
      return batches
    return records.prefetch_map(batches, records.trim_padding)


def _pad_batch(batch, size):
  """Adds rows of zeros up to a batch size; their position is the greatest."""
  missing = size - tf.shape(batch["position"])[0]
  last = tf.fill([missing], batch["position"].dtype.max)
  filled = {
    name: tf.pad(value, [[0, missing]] + [[0, 0]] * (value.shape.rank - 1))
    for name, value in batch.items()
  }
  return filled | {"position": tf.concat([batch["position"], last], 0)}
