"""Checks first, for bert.py and predictor.py, that they get our packages."""

from importlib.util import find_spec
from os.path import dirname, realpath

FOLDER = dirname(realpath(__file__))
for (
  name
) in "cli conversion data modeling serving storage tasks training".split():
  spec = find_spec(name)
  path = realpath((spec and spec.origin) or "")
  if dirname(dirname(path)) != FOLDER:
    raise ImportError(
      f"{path} hides the package {name} of {FOLDER}: rename it; docs/keras.md"
    )

from cli import program  # noqa: E402

program.silence_tensorflow()
