"""Start of TensorFlow and Keras without their logs and what is not used."""

import atexit
import ctypes
import gc
import logging
import os
import sys

# absl::SetMinLogLevel(LogSeverityAtLeast) in the library of TensorFlow 2.20;
# tests/cli/test_quiet.py fails if another TensorFlow does not have it.
_SET_MIN_LOG_LEVEL = (
  "_ZN4absl12lts_2025012714SetMinLogLevelENS0_18LogSeverityAtLeastE"
)
_ERROR = 2
# Optional for Keras: data frames, wrappers of estimators, pictures.
_UNUSED = ("cv2", "matplotlib", "pandas", "sklearn")


class _Hidden:
  """Import hook that hides _UNUSED from Keras and TensorFlow."""

  @staticmethod
  def find_spec(name, path=None, target=None):
    del path, target
    if name not in _UNUSED:
      return
    frame = sys._getframe(1)
    while frame and frame.f_globals["__name__"].startswith("importlib."):
      frame = frame.f_back
    importer = frame.f_globals["__name__"] if frame else ""
    if importer.startswith(("keras.", "tensorflow.")):
      raise ModuleNotFoundError(f"{name} is hidden from {importer}", name=name)


def shorten_imports() -> None:
  """Keeps Keras from importing libraries that no program here needs.

  They take more than a third of the time of importing TensorFlow. Others, also
  this project, can import them. Python's garbage collection becomes rarer, as
  it takes a tenth of the time to a first training step, and is left out at the
  end of the process, where it takes a second.
  """
  gc.set_threshold(100_000, 50, 100)
  atexit.register(gc.freeze)
  if _Hidden not in sys.meta_path:
    sys.meta_path.insert(0, _Hidden)


def silence_tensorflow() -> None:
  """Suppresses logs of TensorFlow but warnings; call it before the import."""
  if os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3") == "3":
    logging.getLogger("tensorflow").setLevel(logging.WARNING)


def silence_xla() -> None:
  """Suppresses logs of XLA; call it after the import of TensorFlow.

  They go through absl's log in C++, for which TF_CPP_MIN_LOG_LEVEL has no
  effect and TensorFlow has no Python function.
  """
  if os.environ.get("TF_CPP_MIN_LOG_LEVEL") != "3":
    return
  folder = os.path.dirname(sys.modules["tensorflow"].__file__ or "")
  path = os.path.join(folder, "libtensorflow_framework.so.2")
  if os.path.exists(path):  # not on other systems than Linux
    library = ctypes.CDLL(path)  # loaded already
    getattr(library, _SET_MIN_LOG_LEVEL, lambda level: None)(_ERROR)
