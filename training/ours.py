"""What is this project's, of files and of flags."""

import sys
from collections.abc import Iterator
from pathlib import Path

from absl import flags

_HERE = Path(__file__).resolve().parents[1]


def is_file(path: str) -> bool:
  """Whether a file is part of this project, and not of what is installed."""
  place = Path(path).resolve()
  return place.is_relative_to(_HERE) and "site-packages" not in place.parts


def find_flags(FLAGS: flags.FlagValues) -> Iterator[flags.Flag]:
  """The flags that the program defines, or a module of ours for it."""
  for module, found in FLAGS.flags_by_module_dict().items():
    path = getattr(sys.modules.get(module), "__file__", None)
    # absl calls the program's own module as the command line does.
    is_program = module == "__main__" or module.endswith(".py")
    if is_program or (path and is_file(path)):
      yield from found
