"""Silences TensorFlow; checks that no file hides a package of this project."""

from importlib.util import find_spec
from os.path import dirname, realpath

HERE = dirname(realpath(__file__))
PACKAGES = "cli conversion data modeling runs serving storage tasks training"
# In the wheel (setup.py), no file can hide these: one package contains them.
for name in () if __package__ else PACKAGES.split():
  path = realpath(getattr(find_spec(name), "origin", None) or "")
  if dirname(dirname(path)) != HERE:
    raise ImportError(f"{path} hides {HERE}/{name}: rename it (docs/keras.md)")

from storage import silence_tensorflow  # noqa: E402

silence_tensorflow()
