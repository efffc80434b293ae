"""Silences TensorFlow, after a check that no file hides our packages."""

from importlib.util import find_spec
from os.path import dirname, realpath

HERE = dirname(realpath(__file__))
PACKAGES = "cli conversion data modeling runs serving storage tasks training"
# In the wheel (setup.py), one package contains ours, so no file can hide any.
for name in () if __package__ else PACKAGES.split():
  path = realpath(getattr(find_spec(name), "origin", None) or "")
  if dirname(dirname(path)) != HERE:
    raise ImportError(f"{path} hides {HERE}/{name}: rename it (docs/keras.md)")

from cli import start_up  # noqa: E402

start_up.silence_tensorflow()
