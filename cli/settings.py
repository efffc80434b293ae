"""Settings of a program: a frozen dataclass with one line for each flag.

  @dataclass(frozen=True, kw_only=True)
  class Training(Settings):
    learning_rate: float = flag(5e-5, "Peak learning rate.", minimum=0.0)

This line is all that a flag needs. The command line, --help, the warning about
changed flags, dry runs, sweeps and defaults for older run.json files follow.
"""

import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from types import UnionType
from typing import (
  Any,
  Self,
  TypeVar,
  Union,
  get_args,
  get_origin,
  get_type_hints,
)

from absl import flags

from storage import UserError

# Headings of --help, in order.
COMMON = "Most commands"
ORIGINAL = "Others of the original"
BEYOND = "Beyond the original"
DEVICES = "Devices, processes and precision"
GROUPS = (COMMON, ORIGINAL, BEYOND, DEVICES)
_AS_GIVEN = object()

S = TypeVar("S", bound="Settings")


@dataclass(frozen=True)
class Flag:
  """All facts about a flag.

  `kind` is bool, int, float, str, or tuple for several values of type `parts`.
  A `required` flag has no default.
  """

  name: str
  kind: type
  parts: type
  default: Any
  help: str
  required: bool
  minimum: float | None
  maximum: float | None
  choices: tuple[str, ...] | None
  group: str
  text: bool
  repeated: bool
  swept: bool
  dependent: bool
  stage: int
  training: bool
  dry_run: Any

  @property
  def has_dry_run_value(self) -> bool:
    return self.dry_run is not _AS_GIVEN


def flag(
  default: Any,
  help: str,
  *,
  required: bool = False,
  minimum: float | None = None,
  maximum: float | None = None,
  choices: Sequence[str] | None = None,
  group: str = BEYOND,
  text: bool = False,
  repeated: bool = False,
  swept: bool = False,
  dependent: bool = False,
  stage: int = 0,
  training: bool = True,
  dry_run: Any = _AS_GIVEN,
) -> Any:
  """Declares a field of Settings as a flag, whose annotation gives the type.

  Args:
    default: value without the flag; None for a required flag.
    help: one or two sentences for --help.
    required: the program does not start without the flag.
    minimum: smallest value of a number.
    maximum: largest value of a number.
    choices: allowed values of a text.
    group: heading of --help.
    text: the value is a user's text, in which ~ is no folder.
    repeated: users repeat the flag for several texts, instead of commas.
    swept: several values, with commas between, make a sweep.
    dependent: the default depends on other flags, so that a value equal to the
      default is a choice, too.
    stage: position in the order of the work, for flags that ask for work.
    training: another value changes the training.
    dry_run: value in a dry run; by default the user's value.
  """
  facts = {
    "help": help,
    "required": required,
    "minimum": minimum,
    "maximum": maximum,
    "choices": tuple(choices) if choices is not None else None,
    "group": group,
    "text": text,
    "repeated": repeated,
    "swept": swept,
    "dependent": dependent,
    "stage": stage,
    "training": training,
    "dry_run": dry_run,
  }
  if required:
    return field(metadata=facts)
  return field(default=default, metadata=facts)


# Flags in the other groups of --help.
common = partial(flag, group=COMMON)
original = partial(flag, group=ORIGINAL)
device = partial(flag, group=DEVICES)


@dataclass(frozen=True, kw_only=True)
class Settings:
  """Values of a program's flags in one run.

  `given` are names of flags that the user has set to another value than the
  default, `command` is the command line. `several` maps swept flags to more
  than one value; the field of such a flag has the first value.
  """

  given: frozenset[str] = frozenset()
  command: tuple[str, ...] = ("",)
  several: Mapping[str, tuple] = field(default_factory=dict)

  @property
  def program(self) -> str:
    """Name of the program, such as run_squad."""
    return Path(self.command[0]).stem

  def to_dict(self) -> dict[str, Any]:
    """Values of all flags by name, as in run.json."""
    return {name: getattr(self, name) for name in flags_of(type(self))}

  def __getitem__(self, name: str) -> Any:
    """Value of a flag by name."""
    return getattr(self, name)

  def needed(self, name: str) -> str:
    """Text of a flag that this command needs; ValueError if empty."""
    if not (value := getattr(self, name)):
      raise UserError(f"this command needs --{name}")
    return value

  def replace(self, **changes: Any) -> Self:
    """A copy with other values of some flags."""
    return replace(self, **changes)


def flags_of(kind: type[Settings]) -> dict[str, Flag]:
  """Flags of a settings class by name; flags of base classes come last."""
  types = get_type_hints(kind)
  declared = {f.name: f for f in fields(kind) if "help" in f.metadata}
  names = dict.fromkeys(
    name
    for base in kind.__mro__
    for name in vars(base).get("__annotations__", ())
    if name in declared
  )
  return {name: _flag(declared[name], types[name]) for name in names}


def _flag(declared, annotation) -> Flag:
  if get_origin(annotation) in (UnionType, Union):
    [annotation] = {*get_args(annotation)} - {type(None)}
  parts = next(iter(get_args(annotation)), annotation)
  default = None if declared.metadata["required"] else declared.default
  kind = get_origin(annotation) or annotation
  return Flag(declared.name, kind, parts, default, **declared.metadata)


# --- Command line ----------------------------------------------------------


class Numbers(flags.ArgumentParser):
  """Parses a number of type `kind`, or several with commas to a tuple."""

  def __init__(self, kind: type, minimum: float):
    self._kind, self._minimum = kind, minimum

  def parse(self, argument):
    if not isinstance(argument, str):
      return argument
    numbers = tuple(self._kind(part) for part in argument.split(","))
    if min(numbers) < self._minimum:
      raise ValueError(f"{min(numbers):g} is less than {self._minimum:g}")
    return numbers if len(numbers) > 1 else numbers[0]

  def flag_type(self):
    return f"{self._kind.__name__} or list of {self._kind.__name__}s"


def define(kind: type[Settings], values: flags.FlagValues) -> None:
  """Defines the flags of a program in absl's `values`."""
  for known in flags_of(kind).values():
    _define(known, {"flag_values": values, "required": known.required})


def _define(known, options):
  named = (known.name, known.default, known.help)
  if known.swept or (known.kind is tuple and known.parts is not str):
    parser = Numbers(known.parts, known.minimum or 0)
    return flags.DEFINE(parser, *named, **options)
  if known.kind is tuple:
    several = flags.DEFINE_multi_string if known.repeated else flags.DEFINE_list
    default = known.default if known.default is None else [*known.default]
    return several(known.name, default, known.help, **options)
  if known.choices is not None:
    name, default, text = named
    return flags.DEFINE_enum(name, default, known.choices, text, **options)
  if known.kind in (int, float):
    options |= {"lower_bound": known.minimum, "upper_bound": known.maximum}
  makers = {
    bool: flags.DEFINE_bool,
    int: flags.DEFINE_integer,
    float: flags.DEFINE_float,
    str: flags.DEFINE_string,
  }
  return makers[known.kind](*named, **options)


def from_flags(
  kind: type[S], parsed: flags.FlagValues, command: Sequence[str] = ("",)
) -> S:
  """Makes the settings of a program from flags that absl has parsed.

  Raises ValueError for an empty required flag, NaN and infinity.
  """
  values: dict[str, Any] = {}
  several = {}
  for name, known in flags_of(kind).items():
    value = parsed[name].value
    if known.kind is tuple and value is not None:
      value = tuple(value) if isinstance(value, list | tuple) else (value,)
    _check_value(known, value)
    if known.swept and isinstance(value, tuple):
      several[name] = value
      value = value[0]
    values[name] = value if known.text else _expand_home(value)
  given = frozenset(
    name
    for name, known in flags_of(kind).items()
    if parsed[name].present
    and (known.dependent or parsed[name].value != parsed[name].default)
  )
  return kind(given=given, command=tuple(command), several=several, **values)


def _check_value(known, value):
  if value == "" and known.required:
    raise UserError(
      f"--{known.name} is empty: is a variable of the shell unset?"
    )
  values = value if isinstance(value, tuple) else (value,)
  if not all(math.isfinite(v) for v in values if isinstance(v, float)):
    raise UserError(f"--{known.name}={value}: give a finite number")


def _expand_home(value):
  """Replaces ~ in paths, which a shell leaves alone behind a flag's "="."""
  if isinstance(value, tuple):
    return tuple(map(_expand_home, value))
  if not isinstance(value, str) or "~/" not in value:
    return value
  return re.sub("(^|,)~(?=/)", rf"\1{os.path.expanduser('~')}", value)
