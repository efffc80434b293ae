"""The files of a classification task as records."""

import os
from dataclasses import dataclass
from functools import partial

from absl import logging

from data import files
from data.tasks import classification, record_file, text_task
from data.tasks.recorded import Recorded
from data.tokenization import FullTokenizer


@dataclass(frozen=True)
class Part(Recorded):
  """A split of a task, converted.

  Attributes:
    split: its name in the task.
    suffix: "" for the first of its kind, "_mismatched" for MNLI's second.
  """

  split: str
  suffix: str


@dataclass(frozen=True)
class Converter:
  """Converts splits of a task to records, each time anew as the original does.

  Attributes:
    task: what to convert.
    data_dir: its folder.
    output_dir: where records go.
    tokenizer: text to tokens.
    seq_length: tokens of a record.
    fixed: whether batches are all to be full and of the same T (XLA).
    processes: how many convert.
    limit: how many examples of a file are used; None for all.
  """

  task: text_task.Task
  data_dir: str
  output_dir: str
  tokenizer: FullTokenizer
  seq_length: int
  fixed: bool = False
  processes: int = 1
  limit: int | None = None

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
    examples = text_task.read(task, self.data_dir, split)[: self.limit]
    rows = examples
    if self.fixed:
      rows = classification.padded(examples, batch_size)
    schema = classification.schema(length, task.labels)
    path = os.path.join(self.output_dir, f"{name}.tf_record")
    build = partial(classification.Builder, self.tokenizer, length, task.labels)
    record_file.write(path, schema, rows, build, self.processes)
    return Part(examples, path, schema, self.fixed, split, suffix)
