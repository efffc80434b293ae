"""Formats of exports: each has a row here, and a module serving/NAME.py.

The module has `save(folder, served)` and, for engines, `load(path)`. Flags,
--help, Predictor and the server read the rows.
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
  """A format of exports. `name` is a value of --export_format."""

  name: str
  purpose: str
  files: Mapping[str, str] = field(default_factory=dict)  # {engine: file}
  is_local: bool = False  # engines read a single file, from a local disk
  uses_gpu: bool = False
  is_trainable: bool = False  # other programs can train an export
  has_all_dtypes: bool = True  # False: only float32 activations

  @property
  def module(self):
    return import_module(f"serving.{self.name}")


_SAVED_MODEL = {"savedmodel": "saved_model.pb"}
_LITE = {
  "litert": "model_float32.tflite",
  "litert_float16": "model_float16.tflite",
  "litert_int8": "model_int8.tflite",
}
_ROWS = (
  Format("savedmodel", "GPUs and TF Serving", _SAVED_MODEL, uses_gpu=True),
  Format(
    "tflite", "fastest on a CPU", _LITE, is_local=True, has_all_dtypes=False
  ),
  Format("keras", "further training", is_trainable=True),
)
FORMATS = {row.name: row for row in _ROWS}
_BY_ENGINE = {engine: row for row in _ROWS for engine in row.files}
ENGINES = ("auto", *_BY_ENGINE)
FILES = {file for row in _ROWS for file in row.files.values()}
# An NVIDIA GPU has a device, or in WSL 2 the library of its driver.
_GPU_FILES = "/dev/nvidia[0-9]*", "/usr/lib/wsl/lib/libcuda.so*"


def engines_of(folder: str, names: Collection[str]) -> list[str]:
  """Engines that can run an export's files, best for this machine first."""
  on_gpu, is_remote = has_gpu(), files.is_remote(folder)
  rows = [row for row in _ROWS if not (row.is_local and is_remote)]
  rows.sort(key=lambda row: row.uses_gpu != on_gpu)
  return [k for row in rows for k, file in row.files.items() if file in names]


def load(folder: str, engine: str):
  row = _BY_ENGINE[engine]
  return row.module.load(os.path.join(folder, row.files[engine]))


def has_gpu() -> bool:
  """True if this process may use an NVIDIA GPU, and cuDNN is installed."""
  is_hidden = os.environ.get("CUDA_VISIBLE_DEVICES", "0") in ("", "-1")
  if is_hidden or not any(map(glob.glob, _GPU_FILES)):
    return False
  has_package = find_spec("nvidia") and find_spec("nvidia.cudnn")
  return bool(has_package or find_library("cudnn"))
