"""A classification task's files as records, and the records as batches.

Legend: B batch, T tokens.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import tensorflow as tf
from absl import logging

from data import files, records, trimming
from data.features import Schema
from data.tasks import classification, conversion, text_task
from data.tokenization import FullTokenizer


@dataclass(frozen=True)
class Part:
  """A split of a task, converted.

  Attributes:
    split: its name in the task.
    suffix: "" for the first of its kind, "_mismatched" for MNLI's second.
    examples: what it holds, in order.
    path: the file of their records.
    schema: of a record.
    fixed: whether batches are all full and of the same T, as XLA wants them.
  """

  split: str
  suffix: str
  examples: Sequence[classification.Example]
  path: str
  schema: Schema
  fixed: bool

  def training(
    self,
    batch_size: int,
    seed: int,
    skip: int = 0,
    context: tf.distribute.InputContext | None = None,
  ) -> tf.data.Dataset:
    """Batches without end; see records.training."""
    return self._trimmed(
      records.training(
        [self.path], self.schema, batch_size, seed, skip, context
      )
    )

  def evaluation(self, batch_size: int) -> tf.data.Dataset:
    """Every example once, in an order that `as_written` undoes."""
    return self._trimmed(
      trimming.by_length([self.path], self.schema, batch_size)
    )

  def as_written(self, found: Mapping[str, np.ndarray]) -> dict:
    """Puts arrays [examples, ...] into the order of the examples."""
    found = trimming.as_written(found)
    # What filled up the last batch comes last.
    return {name: v[: len(self.examples)] for name, v in found.items()}

  def _trimmed(self, batches):
    return batches if self.fixed else trimming.trimmed(batches)


@dataclass(frozen=True)
class Converter:
  """Converts splits of a task to records, each time anew as the original does.

  Attributes:
    task: what to convert.
    data_dir: its folder.
    output_dir: where records go.
    tokenizer: text to tokens.
    seq_length: T.
    fixed: whether batches are all to be full and of the same T (XLA).
    processes: how many convert.
  """

  task: text_task.Task
  data_dir: str
  output_dir: str
  tokenizer: FullTokenizer
  seq_length: int
  fixed: bool = False
  processes: int = 1

  def training(self) -> Part:
    """Converts the split "train" to train.tf_record."""
    return self._convert("train", "", "train", 1)

  def parts(self, kind: str, name: str, batch_size: int) -> list[Part]:
    """Converts the splits of a kind.

    Args:
      kind: "dev" or "test". Of MNLI there are two; a missing second one is
        left out.
      name: of the files of records.
      batch_size: what they are read in.

    Returns:
      One of each split, the task's main one first.
    """
    converted = []
    for split, where in self.task.splits.items():
      if split != kind and not split.startswith(f"{kind}_"):
        continue
      suffix = split.removeprefix(kind)
      path = os.path.join(self.data_dir, where.file)
      if suffix and not files.exists(path):
        logging.info("%s is not there and left out", path)
        continue
      converted.append(self._convert(split, suffix, name + suffix, batch_size))
    # A task without such a split says so when it is read.
    return converted or [self._convert(kind, "", name, batch_size)]

  def _convert(self, split, suffix, name, batch_size):
    task, length = self.task, self.seq_length
    examples = text_task.read(task, self.data_dir, split)
    rows = examples
    if self.fixed:
      rows = classification.padded(examples, batch_size)
    schema = classification.schema(length, task.labels)
    path = os.path.join(self.output_dir, f"{name}.tf_record")
    build = partial(classification.Builder, self.tokenizer, length, task.labels)
    conversion.write(path, schema, rows, build, self.processes)
    return Part(split, suffix, examples, path, schema, self.fixed)
