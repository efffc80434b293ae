"""Flag values of one start of a program."""

import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from absl import flags

_ROOT = Path(__file__).resolve().parents[1]


class Arguments(SimpleNamespace):
  """Immutable flag values, one attribute each; programs read them, not FLAGS.

  Attributes:
    set_flags: names of flags on the command line or in a flagfile.
  """

  __slots__ = ("set_flags",)  # not in vars(), which are the flags

  def __init__(self, set_flags: frozenset[str] = frozenset(), **values):
    super().__init__(**values)
    self.set_flags = set_flags

  @classmethod
  def from_flags(cls, FLAGS: flags.FlagValues) -> "Arguments":
    """Values of all flags of this project."""
    project_flags = [
      flag
      for flag in find_project_flags(FLAGS)
      if not flag.name.startswith("help")
    ]
    set_flags = frozenset(flag.name for flag in project_flags if flag.present)
    return cls(set_flags, **{flag.name: flag.value for flag in project_flags})

  def __contains__(self, name: str) -> bool:
    return hasattr(self, name)

  def __getitem__(self, name: str) -> Any:
    return getattr(self, name)

  def replace(self, **changes) -> "Arguments":
    """Copy with other values."""
    return type(self)(self.set_flags, **vars(self) | changes)


def is_project_file(path: str) -> bool:
  """True for files of this project, False for installed packages."""
  path = Path(path).resolve()
  return path.is_relative_to(_ROOT) and "site-packages" not in path.parts


def find_project_flags(FLAGS: flags.FlagValues) -> Iterator[flags.Flag]:
  """Flags that the program and modules of this project define."""
  for module, module_flags in FLAGS.flags_by_module_dict().items():
    path = getattr(sys.modules.get(module), "__file__", None)
    # absl names the program's module by its path on the command line.
    is_program = module == "__main__" or module.endswith(".py")
    if is_program or (path and is_project_file(path)):
      yield from module_flags
