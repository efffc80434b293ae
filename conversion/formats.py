"""Formats of a BERT on disk, and their files. Needs no TensorFlow."""

import os

from conversion import hugging_face, keras_hub
from conversion.interchange import LABELS

ORIGINAL, HUGGING_FACE = "original", "hugging_face"
# Formats recognized by the names of a folder's files.
READERS = {"KerasHub": keras_hub, HUGGING_FACE: hugging_face}

# Files of a model that the original released.
CHECKPOINT = "bert_model.ckpt"
DATA_SUFFIX = ".data-00000-of-00001"
BERT_CONFIG = "bert_config.json"
VOCABULARY = "vocab.txt"


def of_folder(path: str) -> str | None:
  """The key of READERS for a folder; None for a checkpoint of TensorFlow."""
  return next((key for key in READERS if READERS[key].recognizes(path)), None)


def targets(folder: str, output_format: str) -> list[str]:
  """Paths of the files that the writer of a format may write."""
  names = hugging_face.FILES
  if output_format == ORIGINAL:
    names = (
      *(f"{CHECKPOINT}.index", f"{CHECKPOINT}{DATA_SUFFIX}"),
      *(BERT_CONFIG, VOCABULARY, LABELS),
    )
  return [os.path.join(folder, name) for name in names]
