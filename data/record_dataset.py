"""Records of examples, and the outputs of a model for them in their order."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
import tensorflow as tf

from data.features import TOKENS
from data.packing import Packing, lengths, plan
from data.records import (
  ShuffledRecords,
  Source,
  TrainingRecords,
  parser,
  prefetch_map,
  trim_padding,
)
from storage.tfrecord import Schema

# Batches whose records are sorted by length together in an evaluation.
_SORTED_TOGETHER = 100


@dataclass(frozen=True)
class RecordDataset(TrainingRecords):
  """Rows, in the order of their records, which have been written."""

  # Fields with a value for each token.
  token_fields: ClassVar[tuple[str, ...]] = TOKENS

  rows: Sequence[Any]  # examples, or windows of them: one a record
  path: str  # file of the records
  schema: Schema
  # All batches have one shape, for XLA: none is trimmed, the last is padded.
  static_shapes: bool
  # Numbers of texts by their tokens before truncation, for `with_packing`.
  lengths: Mapping[int, int] = field(default_factory=dict, kw_only=True)
  packing: Packing | None = field(default=None, kw_only=True)

  @property
  def files(self) -> list[str]:
    return [self.path]

  def with_packing(self, batch_size: int, packs: bool | None) -> Self:
    """Decides how batches are packed, by packing.plan."""
    *choices, length = self.schema["input_ids"].shape
    token_labels = "label_ids" in self.token_fields
    size = batch_size * math.prod(choices)
    packing = plan(self.lengths, length, size, packs, token_labels)
    return replace(self, packing=packing)

  def train_batches(self, batch_size, seed, by_length=False, **options):
    order = ShuffledRecords([Source(self.files)], seed)
    numbered = order.batches(
      self.schema, batch_size, by_length=by_length, **options
    )
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
    """Outputs for all `eval_batches`, [examples, ...], as the rows are."""
    order = np.argsort(outputs["position"])
    # Rows that pad the last batch come last.
    order = order[: len(self.rows)]
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
