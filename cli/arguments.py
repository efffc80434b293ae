"""Flag values of one start of a program, or of a training by run.json."""

import json
import math
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from inspect import signature
from itertools import product
from pathlib import Path
from typing import Any, TypeVar

from absl import flags, logging

from cli import vocabulary
from modeling.config import BertConfig
from storage import UserError, files
from training import processes, run_record

_ROOT = Path(__file__).resolve().parents[1]
# Flags of texts, by names of models' inputs.
INPUTS = """
  text text_a text_b question context tokens sent1 sent2 choices text_pair
""".split()

# Flags that do not change a training, that the run remembers (--seed), or that
# bert_config.json may have set.
NOT_OF_TRAINING = re.compile(
  "output_dir|keep_best|attention|do_(train|eval|predict|export)|export_|"
  "predict_|prediction_columns|test_file|eval_(batch_size|file)|"
  "max_eval_steps|num_(workers|tpu_cores)|save_checkpoints_steps|ensemble|"
  "keep_checkpoint_max|iterations_per_loop|profile_steps|verbose_logging|"
  "stop_at_step|num_train_steps|dry_run|seed|delimiter|encoding"
)
# Flags of fine-tuning of which several values make a sweep.
SWEPT = ("learning_rate", "train_batch_size", "num_train_epochs")
# Flags whose defaults depend on others: the default itself is a choice, too.
_DEPENDENT = ("dupe_factor", "layers")
# Flags of texts; a run without --vocab_file reads none.
_OF_TEXT = ("vocab_file", "do_lower_case")
COMMAND = "command.flags"  # in --output_dir
# Flags that a repeated command gives anew: its folders are others.
_OF_FOLDERS = ("output_dir", "do_export", "export_dir")

T = TypeVar("T")


class Arguments:
  """Values of a program's flags, an attribute each, which cannot be changed.

  `set_flags` are those that the user has set to another value than the default,
  `command` is the command line. To a type checker the value of a flag is Any.
  """

  __slots__ = ("_values", "command", "set_flags")

  def __init__(
    self,
    set_flags: Iterable[str] = (),
    command: Sequence[str] = ("",),
    **values: Any,
  ):
    initialize = super().__setattr__
    initialize("set_flags", frozenset(set_flags))
    initialize("command", tuple(command))
    initialize("_values", values)

  @classmethod
  def from_flags(
    cls, FLAGS: flags.FlagValues, command: Sequence[str] = ("",)
  ) -> "Arguments":
    """Values of all flags of this project; see `_check_value`."""
    project_flags = [*find_project_flags(FLAGS)]
    for flag in project_flags:
      _check_value(flag)
    set_flags = (
      flag.name
      for flag in project_flags
      if flag.present
      and (flag.value != flag.default or flag.name in _DEPENDENT)
    )
    values = {
      flag.name: flag.value if flag.name in INPUTS else _expand_home(flag.value)
      for flag in project_flags
    }
    return cls(set_flags, command, **values)

  @property
  def program(self) -> str:
    """Name of the program, as run_squad."""
    return Path(self.command[0]).stem

  def __getattr__(self, name: str) -> Any:
    try:
      return object.__getattribute__(self, "_values")[name]
    except KeyError:
      raise AttributeError(f"this program has no flag {name}") from None

  def __getitem__(self, name: str) -> Any:
    return getattr(self, name)

  def __setattr__(self, name: str, value: Any) -> None:
    raise AttributeError(f"flags cannot be changed, as {name}: use replace")

  def to_dict(self) -> dict[str, Any]:
    """The values by name, as in run.json."""
    return dict(self._values)

  def replace(self, **changes: Any) -> "Arguments":
    """A copy with other values of some flags."""
    return Arguments(self.set_flags, self.command, **self._values | changes)

  def select(self, kind: type[T]) -> T:
    """Makes a dataclass whose fields are named as flags, of their values."""
    names = signature(kind).parameters
    return kind(**{name: self[name] for name in names})


class Numbers(flags.ArgumentParser):
  """A number of type `kind`, or several, comma-separated, as a tuple."""

  def __init__(self, kind: type, minimum: int):
    self._kind, self._minimum = kind, minimum

  def parse(self, argument):
    if not isinstance(argument, str):
      return argument
    numbers = tuple(self._kind(part) for part in argument.split(","))
    if min(numbers) < self._minimum:
      raise ValueError(f"{min(numbers):g} is less than {self._minimum}")
    return numbers if len(numbers) > 1 else numbers[0]

  def flag_type(self):
    return f"{self._kind.__name__} or list of {self._kind.__name__}s"


def save_command(args: Arguments, seed: int) -> None:
  """Writes the flagfile that repeats this command with its seed, on the chief.

  Flags at their defaults come last: a later default changes nothing.
  """
  if not processes.is_chief():
    return
  lines = [
    f"# python {args.program}.py --flagfile=.../{COMMAND} --output_dir=NEW",
    f"# repeats this run where relative paths mean the same: {os.getcwd()!r}",
  ]
  defaults = ["# Defaults:"]
  for flag in sorted(find_project_flags(flags.FLAGS), key=lambda f: f.name):
    is_given = flag.name in args.set_flags
    if flag.name == "seed":
      lines.append(f"--seed={seed}")
    elif flag.name in _OF_FOLDERS:
      lines += [f"# {_line(flag)}"] * is_given
    elif flag.value is not None:
      (lines if is_given else defaults).append(_line(flag))
  text = "\n".join([*lines, *defaults, ""])
  files.write_text(os.path.join(args.output_dir, COMMAND), text)


def _line(flag):
  """Line of a flagfile; what a line cannot hold becomes JSON, --name:json=."""
  line = f"--{flag.name}={re.sub('[() ]', '', str(flag.value))}"  # Numbers
  if flag.boolean or flag.serializer:
    line = flag.serialize()
  if line.isprintable() and line == line.strip():
    return line
  name, _, value = line.partition("=")
  return f"{name}:json={json.dumps(value)}"


def from_line(argument: str) -> str:
  """The argument --name=value of a `_line`; ValueError if it is no JSON."""
  name, is_json, value = argument.partition(":json=")
  if not is_json or not re.fullmatch(r"--\w+", name):
    return argument
  try:
    return f"{name}={json.loads(value)}"
  except ValueError as error:
    raise ValueError(f"{argument} is no JSON: {error}") from None


def settings_of_sweep(args: Arguments) -> list[dict[str, float]]:
  """Values of the flags of SWEPT, in all combinations; one without a sweep."""
  values = [args[name] for name in SWEPT]
  several = [v if isinstance(v, tuple) else (v,) for v in values]
  combinations = dict.fromkeys(product(*several))  # each once
  return [dict(zip(SWEPT, numbers, strict=True)) for numbers in combinations]


def warn_if_changed(
  args: Arguments, path: str, ignored: re.Pattern = NOT_OF_TRAINING
) -> None:
  """Warns if the training of a checkpoint or folder had other flags."""
  values = args.to_dict()
  changes = [
    f"--{name}={value} (now {values[name]})"
    for name, value in run_record.of_checkpoint(path)["flags"].items()
    if name in values
    and not ignored.match(name)
    and not (name in _OF_TEXT and None in (value, values["vocab_file"]))
    and json.loads(json.dumps(values[name])) != value
  ]
  if changes:
    logging.warning(
      "%s was trained with %s; to train anew, name another --output_dir; here "
      "what is left is done with the new values",
      path,
      ", ".join(changes),
    )


def is_required(flag: flags.Flag) -> bool:
  """True if the program does not start without a value of the flag."""
  return any("must have a value" in rule.message for rule in flag.validators)


def _check_value(flag):
  """Raises ValueError for a required flag that is empty, NaN and infinity."""
  if flag.value == "" and is_required(flag):
    raise UserError(
      f"--{flag.name} is empty: is a variable of the shell unset?"
    )
  values = flag.value if isinstance(flag.value, tuple) else (flag.value,)
  if not all(math.isfinite(v) for v in values if isinstance(v, float)):
    raise UserError(f"--{flag.name}={flag.value}: give a finite number")


def _expand_home(value):
  """Replaces ~ in paths: the shell does not behind a flag's "="."""
  if isinstance(value, list | tuple):
    return type(value)(map(_expand_home, value))
  if not isinstance(value, str) or "~/" not in value:
    return value
  return re.sub("(^|,)~(?=/)", rf"\1{os.path.expanduser('~')}", value)


def _checked_value(name, value, trained):
  """Returns a flag's new value; ValueError if its type is not the old one's."""
  if isinstance(value, os.PathLike):
    value = os.fspath(value)
  flag_type = type(trained)
  if None in (value, trained) or isinstance(value, flag_type):
    return value
  if flag_type is float and isinstance(value, int):
    return float(value)
  raise UserError(f"{name}={value!r} is not of type {flag_type.__name__}")


def from_record(folder: str, entry: Mapping, changes: Mapping) -> Arguments:
  """Flags of an entry of run.json, without those for training data."""
  values: dict[str, Any] = {
    # Flags that older entries lack.
    "attention": None,
    "add_bilstm": False,
    "export_top_k": 0,
    "multi_label": False,
    "long_text": "truncate",
    "ensemble": 1,
    "delimiter": None,
    "encoding": "utf-8",
    **entry["flags"],
  }
  unknown = changes.keys() - values.keys()
  if unknown:
    raise UserError(f"{entry['program']} has no flag {min(unknown)}")
  changes = {
    name: _checked_value(name, value, values[name])
    for name, value in changes.items()
  }
  for name in ("bert_config_file", "vocab_file"):
    if name not in changes:
      changes[name] = _existing_file(folder, entry, name, changes)
  if "do_lower_case" in values:
    case = vocabulary.lower_cases(entry["flags"], changes["vocab_file"])
    changes.setdefault("do_lower_case", case)
  training_data = dict.fromkeys(("init_checkpoint", "data_dir", "train_file"))
  flag_values = values | training_data | changes | {"output_dir": folder}
  return Arguments((), (entry.get("program") or "",), **flag_values)


def _existing_file(folder, entry, name, changes):
  """Path of a run's file; FileNotFoundError if there is none.

  It is the file that a flag of the entry names, else its copy in the folder.
  """
  path = run_record.path_of(entry, name)
  if path and files.exists(path):
    return path
  file = "vocab.txt" if name == "vocab_file" else "bert_config.json"
  other = run_record.sibling_file(folder, file)
  if not (other or path) and name == "vocab_file":
    size = BertConfig.from_json(changes["bert_config_file"]).vocab_size
    other = vocabulary.find(folder, entry, size)
  if other:
    return other
  state = (
    f"with --{name}={path}, which is gone" if path else f"without --{name}"
  )
  raise FileNotFoundError(
    f"{folder} was trained {state}: restore the file, correct its path in "
    f"{os.path.join(folder, run_record.NAME)}, copy {file} into {folder}, or "
    f"name it, as in Predictor({folder!r}, {name}=...) or predictor.py "
    f"--{name}=..."
  )


def find_project_flags(FLAGS: flags.FlagValues) -> Iterator[flags.Flag]:
  """Flags that the program and modules of this project define."""
  for module, module_flags in FLAGS.flags_by_module_dict().items():
    path = Path(getattr(sys.modules.get(module), "__file__", None) or "/")
    # absl names the program's module by its path on the command line.
    is_program = module == "__main__" or module.endswith(".py")
    is_own = path.resolve().is_relative_to(_ROOT)
    if is_program or (is_own and "site-packages" not in path.parts):
      yield from module_flags
