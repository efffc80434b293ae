"""The formats of exports, a row each.

The module of a format is serving/NAME.py. Its `save(folder, served)` writes the
files of a ServedModel. If an engine here runs them, its `load(path)` makes the
engine of one file. Another format is such a module and a row: flags, --help,
Predictor and the server follow from the row.
"""

import glob
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from importlib import import_module

from storage import files


@dataclass(frozen=True)
class Format:
  """A format of exports.

  Attributes:
    name: its value in --export_format.
    purpose: the reason to choose it, for --help.
    files: file of an export by the name of the engine that runs it.
    is_local: its files are read alone, from a disk of this machine.
    uses_gpu: its engine uses a GPU if there is one.
    is_trainable: other programs train it further.
    has_all_dtypes: it may have activations of another type than float32.
  """

  name: str
  purpose: str
  files: Mapping[str, str] = field(default_factory=dict)
  is_local: bool = False
  uses_gpu: bool = False
  is_trainable: bool = False
  has_all_dtypes: bool = True

  @property
  def module(self):
    return import_module(f"serving.{self.name}")


_ROWS = (
  Format(
    "savedmodel",
    "GPUs and TF Serving",
    {"savedmodel": "saved_model.pb"},
    uses_gpu=True,
  ),
  Format(
    "tflite",
    "fastest on a CPU",
    {
      "litert": "model_float32.tflite",
      "litert_float16": "model_float16.tflite",
      "litert_int8": "model_int8.tflite",
    },
    is_local=True,
    has_all_dtypes=False,
  ),
  Format("keras", "further training", is_trainable=True),
)
FORMATS = {row.name: row for row in _ROWS}
_BY_ENGINE = {engine: row for row in _ROWS for engine in row.files}
ENGINES = ("auto", *_BY_ENGINE)
# Names of files that an engine opens.
FILES = frozenset(row.files[engine] for engine, row in _BY_ENGINE.items())


def engines_of(folder: str, names: Collection[str]) -> list[str]:
  """Engines for an export of these files, the best for this machine first."""
  on_gpu, is_remote = has_gpu(), files.is_remote(folder)
  rows = sorted(_ROWS, key=lambda row: row.uses_gpu != on_gpu)
  return [
    engine
    for row in rows
    for engine, file in row.files.items()
    if file in names and not (row.is_local and is_remote)
  ]


def load(folder: str, engine: str):
  """The Engine of this name for an export."""
  row = _BY_ENGINE[engine]
  return row.module.load(os.path.join(folder, row.files[engine]))


def of_file(path: str) -> Format | None:
  """The format of a single file; None for a folder and other files."""
  extension = os.path.splitext(path)[1]
  local = (row for row in _ROWS if row.is_local and os.path.isfile(path))
  return next((row for row in local if extension == f".{row.name}"), None)


def has_gpu() -> bool:
  """True if this machine shows an NVIDIA GPU to this process."""
  is_hidden = os.environ.get("CUDA_VISIBLE_DEVICES", "0") in ("", "-1")
  return not is_hidden and bool(glob.glob("/dev/nvidia[0-9]*"))
