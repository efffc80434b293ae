"""BERT in Keras: loads a model from a checkpoint, and encodes texts.

import bert

model, encode = bert.load("uncased_L-12_H-768_A-12")
outputs = model(encode(["A film that", "is good."]))

Importing this module registers all layers with Keras; see docs/keras.md.
"""

import bert_packages  # noqa: F401, first: checks that no file hides a package

import os
from collections.abc import Callable, Iterable

import keras
import numpy as np

from data import features
from data.features import RowEncoder, check_texts
from data.tokenization import open_tokenizer
from modeling import models
from runs.trained_model import find_model
from storage import UserError
from training import checkpoint


class TextEncoder:
  """Turns texts, or pairs of texts, into the three inputs of the encoder.

  A call takes any iterable of texts and, as `pairs`, a second text for each.
  Returns `input_ids`, `input_mask` and `segment_ids`, [B, T] int32 each. T is
  the length of the longest text or pair, cut off at `max_seq_length` tokens.
  """

  def __init__(
    self,
    vocab_file: str | os.PathLike,
    do_lower_case: bool = True,
    max_seq_length: int = 512,
  ):
    if max_seq_length < 3:
      raise UserError(f"max_seq_length {max_seq_length} is less than 3")
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
    length = max((len(row.ids) for row in rows), default=2)  # Keras needs > 0
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
  """Loads a model from a checkpoint; returns the model and a TextEncoder.

  `folder` has bert_config.json, vocab.txt and a checkpoint, or is a program's
  --output_dir. hf://ORGANIZATION/NAME[@REVISION] is downloaded and converted
  once (docs/models.md). `make` is a function in modeling/models.py, and
  `settings` are its arguments, such as num_labels=2. A pooler or head that the
  checkpoint lacks keeps initial values, and so does a head if the numbers of
  labels differ. absl's log names these variables (level INFO). Other missing
  variables raise ValueError. Moving averages are not read. The default of
  `max_seq_length` is the model's maximum, and `do_lower_case` is as in the
  training. If the training is unknown, the case of the vocabulary decides.
  """
  path = os.path.expanduser(folder)
  if path.startswith("hf://"):
    from conversion import download  # noqa: PLC0415, folders need none

    path, lower_case = download.converted(path)
    do_lower_case = lower_case if do_lower_case is None else do_lower_case
  files = find_model(path)
  if max_seq_length is None:
    max_seq_length = files.config.max_position_embeddings
  files.config.check_length(max_seq_length)
  model = make(files.config, **settings)
  checkpoint.initialize(model, files.checkpoint)
  if do_lower_case is None:
    do_lower_case = files.do_lower_case
  return model, TextEncoder(files.vocab_file, do_lower_case, max_seq_length)
