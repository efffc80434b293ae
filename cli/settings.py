"""Settings of a program: a frozen dataclass with one line for each flag.

  @dataclass(frozen=True, kw_only=True)
  class Training(Settings):
    learning_rate: float = flag(5e-5, "Peak learning rate.", minimum=0.0)

A flag needs no other line. The command line, --help, the warning about changed
flags, dry runs and sweeps read it. A flag missing in run.json has its default.
"""

import math
import os
import re
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from types import UnionType
from typing import Any, Self, TypeVar

from absl import flags, logging

from storage import UserError, files

# Headings of --help, in order.
COMMON = "Most commands"
ORIGINAL = "Others of the original"
BEYOND = "Beyond the original"
DEVICES = "Devices, processes and precision"
GROUPS = (COMMON, ORIGINAL, BEYOND, DEVICES)
AS_GIVEN = object()

S = TypeVar("S", bound="Settings")


@dataclass(frozen=True)
class Flag:
  """Facts about a flag. `flags_of` sets `name`, `kind` and `parts`."""

  default: Any  # None for a required flag
  help: str
  name: str = ""
  kind: type = str  # bool, int, float, str, or tuple for several values
  parts: type = str  # type of a tuple's values
  required: bool = False
  minimum: float | None = None
  maximum: float | None = None
  choices: Sequence[str] | None = None
  group: str = BEYOND  # heading of --help
  text: bool = False  # a user's text, in which ~ is not a folder
  repeated: bool = False  # the user repeats the flag for each text
  swept: bool = False  # several values, with commas between, make a sweep
  # Its default depends on others, so `given` has the flag even at its default.
  dependent: bool = False
  stage: int = 0  # of flags such as --do_eval: position in the order of work
  # True: another value changes the training, unless the flag has a `stage`.
  training: bool = True
  dry_run: Any = AS_GIVEN  # value in a dry run


def flag(default: Any, help: str, **facts: Any) -> Any:
  """Declares a field of Settings as a flag; `facts` are fields of `Flag`."""
  is_of_training = facts.pop("training", not facts.get("stage"))
  metadata = {"flag": Flag(default, help, training=is_of_training, **facts)}
  options = {} if facts.get("required") else {"default": default}
  return field(metadata=metadata, **options)


# Flags in the other groups of --help.
common = partial(flag, group=COMMON)
required = partial(common, None, required=True)
original = partial(flag, group=ORIGINAL)
device = partial(flag, group=DEVICES)


@dataclass(frozen=True, kw_only=True)
class Settings:
  """Values of a program's flags in one run.

  `given` names the flags that differ from the default, and each `dependent`
  flag (see Flag) that the user set. `several` has all values of a flag in a
  sweep; the flag's field has the first value.
  """

  given: frozenset[str] = frozenset()
  command: tuple[str, ...] = ("",)
  several: Mapping[str, tuple] = field(default_factory=dict)

  @property
  def program(self) -> str:
    return Path(self.command[0]).stem

  @property
  def flags(self) -> dict[str, Flag]:
    return flags_of(type(self))

  def to_dict(self) -> dict[str, Any]:
    """Values of all flags by name, for run.json."""
    return {name: getattr(self, name) for name in self.flags}

  def __getitem__(self, name: str) -> Any:
    return getattr(self, name)

  def needed(self, name: str) -> str:
    """Text of a flag that this command needs; ValueError if empty."""
    if not (value := getattr(self, name)):
      raise UserError(f"this command needs --{name}")
    return value

  def check_files(self, *names: str) -> None:
    """Raises ValueError for an empty flag, OSError for an unreadable file."""
    for name in names:
      self.needed(name)
      self.check_file(name)

  def check_file(self, name: str) -> None:
    if path := getattr(self, name):
      try:
        files.open_for_reading(path).close()
      except OSError as error:
        raise type(error)(f"--{name}: {error}") from None

  def replace(self, **changes: Any) -> Self:
    return replace(self, **changes)


def flags_of(kind: type[Settings]) -> dict[str, Flag]:
  """Flags of a settings class by name; flags of base classes come last."""
  types = typing.get_type_hints(kind)
  declared = {f.name: f.metadata.get("flag") for f in fields(kind)}
  result: dict[str, Flag] = {}
  for base in kind.__mro__:
    for name in vars(base).get("__annotations__", ()):
      known, annotation = declared.get(name), types[name]
      if known and name not in result:
        if typing.get_origin(annotation) in (UnionType, typing.Union):
          [annotation] = {*typing.get_args(annotation)} - {type(None)}
        of_flag = typing.get_origin(annotation) or annotation
        parts = next(iter(typing.get_args(annotation)), annotation)
        result[name] = replace(known, name=name, kind=of_flag, parts=parts)
  return result


# --- Command line ----------------------------------------------------------


class Numbers(flags.ArgumentParser):
  """Parses a number of type `kind`, or "1,2,3" to a tuple of numbers."""

  def __init__(self, kind: type, minimum: float):
    self._kind, self._minimum = kind, minimum

  def parse(self, argument):
    if not isinstance(argument, str):
      return argument
    numbers = tuple(map(self._kind, argument.split(",")))
    if wrong := [n for n in numbers if not self._minimum <= n < math.inf]:
      raise ValueError(f"{wrong[0]:g} is no finite number >= {self._minimum:g}")
    return numbers if len(numbers) > 1 else numbers[0]

  def flag_type(self):
    return f"{self._kind.__name__} or list of {self._kind.__name__}s"


def define(kind: type[Settings], values: flags.FlagValues) -> None:
  makers = {bool: flags.DEFINE_bool, int: flags.DEFINE_integer}
  makers |= {float: flags.DEFINE_float, str: flags.DEFINE_string}
  for name, known in flags_of(kind).items():
    options = {"flag_values": values, "required": known.required}
    default, text = known.default, known.help
    if known.swept or (known.kind is tuple and known.parts is not str):
      parser = Numbers(known.parts, known.minimum or 0)
      flags.DEFINE(parser, name, default, text, **options)
    elif known.kind is tuple:
      make = flags.DEFINE_multi_string if known.repeated else flags.DEFINE_list
      make(name, default if default is None else [*default], text, **options)
    elif known.choices is not None:
      flags.DEFINE_enum(name, default, known.choices, text, **options)
    else:
      if known.kind in (int, float):
        options |= {"lower_bound": known.minimum, "upper_bound": known.maximum}
      makers[known.kind](name, default, text, **options)


def from_flags(
  kind: type[S], parsed: flags.FlagValues, command: Sequence[str] = ("",)
) -> S:
  """Makes settings of parsed flags; ValueError for an empty required flag."""
  values: dict[str, Any] = {}
  given, several = set(), {}
  for name, known in flags_of(kind).items():
    value = parsed[name].value
    is_default = value == parsed[name].default
    if parsed[name].present and (known.dependent or not is_default):
      given.add(name)
    if value == "" and known.required:
      raise UserError(f"--{name} is empty: is a variable of the shell unset?")
    if value == "" and known.default is None and not known.text:
      logging.warning("--%s is empty, so it has no effect", name)
    is_list = isinstance(value, list | tuple)
    parts = [*value] if is_list else [value]
    for i, part in enumerate(parts):
      if isinstance(part, str) and not known.text:
        home = os.path.expanduser("~")
        parts[i] = home.join(re.split("(?<![^, ])~(?=/)", part))
    if known.swept and is_list:
      several[name] = tuple(parts)
    is_tuple = known.kind is tuple and value is not None
    values[name] = tuple(parts) if is_tuple else parts[0]
  return kind(
    given=frozenset(given), command=tuple(command), several=several, **values
  )


# --- command.flags: the flagfile in --output_dir that repeats the run --------

COMMAND_FILE = "command.flags"
# Flags that the user gives anew, because another run needs other folders.
_OF_FOLDERS = ("output_dir", "do_export", "export_dir")


def repeating(settings: Settings, seed: int) -> str:
  """Content of the flagfile that repeats this command with `seed`.

  Includes default values, so that a change of defaults has no effect.
  """
  program = f"python {settings.program}.py"
  lines = [
    f"# {program} --flagfile=.../{COMMAND_FILE} --output_dir=NEW",
    f"# repeats this run; relative paths begin in {os.getcwd()!r}",
  ]
  defaults = ["# Defaults:"]
  # Settings made without a command line, as in tests, have no flags.
  for name in sorted({*settings.flags} & {*flags.FLAGS}):
    parsed = flags.FLAGS[name]
    is_given = name in settings.given
    if name == "seed":
      lines.append(f"--seed={seed}")
    elif name in _OF_FOLDERS:
      lines += [f"# {line_of(parsed)}"] * is_given
    elif parsed.value is not None:
      (lines if is_given else defaults).append(line_of(parsed))
  return "\n".join([*lines, *defaults, ""])


def line_of(parsed: flags.Flag) -> str:
  r"""Line of a flagfile. Absl strips lines: a tab is \t, and a blank space."""
  if parsed.boolean or parsed.serializer:
    text = parsed.serialize().replace("\t", r"\t")
    return re.sub("= $", "=space", text)
  return f"--{parsed.name}={re.sub('[() ]', '', str(parsed.value))}"  # (1, 2)


# --- Checks of files that flags name -----------------------------------------


def check_output_file(path: str, overwrite: bool, *inputs: str) -> None:
  """Checks --output_file: writable, not in `inputs`, new unless `overwrite`."""
  if os.path.realpath(path) in {os.path.realpath(name) for name in inputs}:
    raise UserError(f"{path} is an input, too: choose another output")
  is_file = not os.path.exists(path) or os.path.isfile(path)
  if files.is_folder(path) or not is_file:
    raise OSError(f"--output_file={path} is not a regular file: name another")
  files.check_writable(path, "output_file")
  if not overwrite:
    check_is_new(path)


def check_is_new(*paths: str) -> None:
  for path in paths:
    if files.exists(path):
      raise FileExistsError(
        f"{path} exists already; remove it, or give --overwrite"
      )
