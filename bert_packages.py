"""Imports what silences TensorFlow, if no file hides a package of ours."""

from importlib.util import find_spec
from os.path import dirname, realpath

HERE = dirname(realpath(__file__))
for (
  name
) in "cli conversion data modeling serving storage tasks training".split():
  path = realpath(getattr(find_spec(name), "origin", None) or "")
  if dirname(dirname(path)) != HERE:
    raise ImportError(f"{path} hides {HERE}/{name}: rename it (docs/keras.md)")

from cli import program  # noqa: E402

program.silence_tensorflow()
