"""Examples with the file of their records, and the batches that come of it.

Legend: B batch, T tokens.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from data import damage, records, trimming
from data.features import Schema
from data.progress import Progress


@dataclass(frozen=True)
class Recorded:
  """Examples whose records have been written.

  Attributes:
    examples: what was recorded, in order.
    path: the file of their records. There may be more records than examples,
      to fill up the last batch.
    schema: of a record.
    fixed: whether batches are all of one shape, as XLA wants them: neither
      trimmed nor, the last one, short.
  """

  examples: Sequence[Any]
  path: str
  schema: Schema
  fixed: bool

  @property
  def files(self) -> tuple[str]:
    """Where the records are."""
    return (self.path,)

  def damage(self) -> str | None:
    """Which record cannot be read; see damage.first."""
    return damage.first(self.files, self.schema)

  def training(
    self,
    batch_size: int,
    seed: int,
    skip: int = 0,
    context: tf.distribute.InputContext | None = None,
    by_length: bool = False,
  ) -> tf.data.Dataset:
    """Batches without end; see records.training."""
    return self._trimmed(
      records.training(
        [self.path], self.schema, batch_size, seed, skip, context, by_length
      )
    )

  def evaluation(self, batch_size: int) -> tf.data.Dataset:
    """Every record once, as `outputs` reads them."""
    batches = trimming.by_length([self.path], self.schema, batch_size)
    if self.fixed:
      batches = batches.map(lambda batch: _filled(batch, batch_size))
    return self._trimmed(batches)

  def outputs(
    self,
    batch_size: int,
    predict: Callable[[Iterable[Mapping]], Mapping[str, np.ndarray]],
  ) -> dict[str, np.ndarray]:
    """What a model makes of every example, with progress.

    Args:
      batch_size: B.
      predict: from batches to arrays [records, ...] by name, in the order in
        which they come; among them the batches' own `place`.

    Returns:
      The arrays [examples, ...] by name, in the order of the examples.
    """
    progress = Progress("read", len(self.examples), "examples")
    batches = progress.follow(self.evaluation(batch_size))
    found = trimming.as_written(predict(batches))
    # What fills up the last batch comes last.
    return {name: v[: len(self.examples)] for name, v in found.items()}

  def _trimmed(self, batches):
    return batches if self.fixed else trimming.trimmed(batches)


def _filled(batch, size):
  """Adds rows of zeros up to a size; their place is behind all others."""
  missing = size - tf.shape(batch["place"])[0]
  last = tf.fill([missing], batch["place"].dtype.max)
  filled = {
    name: tf.pad(value, [[0, missing]] + [[0, 0]] * (value.shape.rank - 1))
    for name, value in batch.items()
  }
  return filled | {"place": tf.concat([batch["place"], last], 0)}
