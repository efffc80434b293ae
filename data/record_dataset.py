"""Batches of examples whose records are in a file."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from data import dynamic_padding, records
from storage import corruption
from storage.progress import Progress
from storage.schema import Schema


@dataclass(frozen=True)
class RecordDataset:
  """Examples whose records have been written.

  Attributes:
    examples: the examples, in order.
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

  def first_corrupt(self) -> str | None:
    """Describes the first corrupt record; see corruption.first_corrupt."""
    return corruption.first_corrupt(self.files, self.schema)

  def training(
    self,
    batch_size: int,
    seed: int,
    skip: int = 0,
    context: tf.distribute.InputContext | None = None,
    by_length: bool = False,
  ) -> tf.data.Dataset:
    """Endless batches; see records.train_dataset."""
    return self._trimmed(
      records.train_dataset(
        [self.path], self.schema, batch_size, seed, skip, context, by_length
      )
    )

  def evaluation(self, batch_size: int) -> tf.data.Dataset:
    """Batches of every record once; see dynamic_padding.sorted_by_length."""
    batches = dynamic_padding.sorted_by_length(
      [self.path], self.schema, batch_size
    )
    if self.static_shapes:
      batches = batches.map(lambda batch: _pad_to_longest(batch, batch_size))
    return self._trimmed(batches)

  def outputs(
    self,
    batch_size: int,
    predict: Callable[[Iterable[Mapping]], Mapping[str, np.ndarray]],
  ) -> dict[str, np.ndarray]:
    """Outputs of a model for every example; logs progress.

    Args:
      batch_size: B.
      predict: function from batches to arrays [records, ...] by name, in the
        order of the batches; passes their `position` on.

    Returns:
      Arrays [examples, ...] by name, in the order of the examples.
    """
    progress = Progress("read", len(self.examples), "examples")
    batches = progress.follow(self.evaluation(batch_size))
    outputs = dynamic_padding.restore_order(predict(batches))
    # Rows that pad the last batch come last.
    return {name: v[: len(self.examples)] for name, v in outputs.items()}

  def _trimmed(self, batches):
    return (
      batches if self.static_shapes else dynamic_padding.trim_batches(batches)
    )


def _pad_to_longest(batch, size):
  """Adds rows of zeros up to a batch size; their position is the greatest."""
  missing = size - tf.shape(batch["position"])[0]
  last = tf.fill([missing], batch["position"].dtype.max)
  filled = {
    name: tf.pad(value, [[0, missing]] + [[0, 0]] * (value.shape.rank - 1))
    for name, value in batch.items()
  }
  return filled | {"position": tf.concat([batch["position"], last], 0)}
