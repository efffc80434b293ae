"""The formats of exports: one row and one module, serving/NAME.py, each.

The module's `save(folder, served)` writes the files of a ServedModel. If this
project can run the format, `load(path)` returns the engine for one file. To add
a format, write a module and a row. Flags, --help, Predictor and the server
read the row.
"""

import glob
import os
from collections.abc import Collection, Mapping
from ctypes.util import find_library
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec

from storage import files


@dataclass(frozen=True)
class Format:
  """A format of exports.

  Attributes:
    name: value of --export_format.
    purpose: reason to choose the format, for --help.
    files: file name by engine.
    is_local: an engine reads a single file, which must be on a local disk.
    uses_gpu: the engine uses a GPU if there is one.
    is_trainable: other programs can train the export further.
    has_all_dtypes: activations may have another type than float32.
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
FILES = frozenset(row.files[engine] for engine, row in _BY_ENGINE.items())


def engines_of(folder: str, names: Collection[str]) -> list[str]:
  """Engines for an export with these files, best for this machine first."""
  on_gpu, is_remote = has_gpu(), files.is_remote(folder)
  rows = sorted(_ROWS, key=lambda row: row.uses_gpu != on_gpu)
  return [
    engine
    for row in rows
    for engine, file in row.files.items()
    if file in names and not (row.is_local and is_remote)
  ]


def load(folder: str, engine: str):
  """Loads an export with the engine of this name."""
  row = _BY_ENGINE[engine]
  return row.module.load(os.path.join(folder, row.files[engine]))


def of_file(path: str) -> Format | None:
  """Format of a single file; None for folders and other files."""
  extension = os.path.splitext(path)[1]
  local = (row for row in _ROWS if row.is_local and os.path.isfile(path))
  return next((row for row in local if extension == f".{row.name}"), None)


def has_gpu() -> bool:
  """True if TensorFlow can use an NVIDIA GPU of this machine.

  TensorFlow needs cuDNN, from the package nvidia-cudnn or from the system.
  """
  is_hidden = os.environ.get("CUDA_VISIBLE_DEVICES", "0") in ("", "-1")
  if is_hidden or not glob.glob("/dev/nvidia[0-9]*"):
    return False
  has_package = find_spec("nvidia") and find_spec("nvidia.cudnn")
  return bool(has_package or find_library("cudnn"))
