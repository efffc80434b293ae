"""BERT in Keras: the model of a checkpoint, and texts to its inputs.

import bert

model, encode = bert.load("uncased_L-12_H-768_A-12")
outputs = model(encode(["A film that", "is good."]))

Importing this module registers all layers with Keras; see docs/keras.md.
"""

import bert_packages  # noqa: F401, first: it checks the others

import os
from collections.abc import Callable, Iterable

import keras
import numpy as np

from data import features
from data.row_encoder import RowEncoder, check_texts
from data.tokenization import open_tokenizer
from modeling import models
from runs.model_files import find_model
from storage import UserError
from training import run_folder


class TextEncoder:
  """Texts, or pairs of texts, to the three inputs of the encoder.

  Call arguments:
    texts: any iterable of texts.
    pairs: as many second texts, or None.

  Returns:
    `input_ids`, `input_mask` and `segment_ids`, [B, T] int32 each. T is the
    longest row's length; of longer texts `max_seq_length` tokens are left.
  """

  def __init__(
    self,
    vocab_file: str | os.PathLike,
    do_lower_case: bool = True,
    max_seq_length: int = 512,
  ):
    self.tokenizer = open_tokenizer(vocab_file, do_lower_case)
    self._encoder = RowEncoder(self.tokenizer, max_seq_length)

  def __call__(
    self, texts: Iterable[str], pairs: Iterable[str] | None = None
  ) -> dict[str, np.ndarray]:
    columns = [check_texts("texts", texts, 1)]
    if pairs is not None:
      columns.append(check_texts("pairs", pairs, 1))
    if len(columns[-1]) != len(columns[0]):
      raise UserError(f"{len(columns[0])} texts, but {len(columns[1])} pairs")
    rows = [self._encoder.encode(*row) for row in zip(*columns, strict=True)]
    length = max((len(row.ids) for row in rows), default=0)
    pad = self.tokenizer.pad
    padded = [features.pad_inputs(r.ids, r.segments, length, pad) for r in rows]
    shape = (len(rows), length)
    return {
      name: np.array([row[name] for row in padded], np.int32).reshape(shape)
      for name in features.TOKENS
    }


def load(
  folder: str | os.PathLike,
  make: Callable[..., keras.Model] = models.encoder,
  max_seq_length: int | None = None,
  do_lower_case: bool | None = None,
  **settings,
) -> tuple[keras.Model, TextEncoder]:
  """Model with the values of a checkpoint, and its TextEncoder.

  `folder` has bert_config.json, vocab.txt and a checkpoint, or is the
  --output_dir of a program. `make` is a function of modeling/models.py,
  `settings` are its arguments, as num_labels=2. Variables that the checkpoint
  lacks, and a head's for other labels, stay as they are; absl's log of level
  info names them. By default texts have the model's length, and the case of its
  training or vocabulary.
  """
  files = find_model(os.fspath(folder))
  length = max_seq_length or files.config.max_position_embeddings
  files.config.check_length(length)
  model = make(files.config, **settings)
  run_folder.initialize(model, files.checkpoint)
  if do_lower_case is None:
    do_lower_case = files.do_lower_case
  return model, TextEncoder(files.vocab_file, do_lower_case, length)
