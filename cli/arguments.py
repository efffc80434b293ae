"""Flag values of one start of a program: parsing, --help, --dry_run."""

import json
import math
import os
import re
import sys
import textwrap
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any, TypeVar

from absl import flags, logging

from storage import UserError, files
from training import cluster, run_record

_ROOT = Path(__file__).resolve().parents[1]
DRY_RUN_STEPS = 2
_STAGES = ("eval", "predict", "export")  # but for training
_DRY_RUN_EXAMPLES = 64  # of each file, in fine-tuning

# Flags that do not change a training, that the run remembers (--seed), or that
# bert_config.json may have set.
NOT_OF_TRAINING = re.compile(
  "output_dir|keep_best|attention|do_(train|eval|predict|export)|export_|"
  "predict_|prediction_columns|test_file|eval_(batch_size|file)|"
  "max_eval_steps|num_(workers|tpu_cores)|save_checkpoints_steps|ensemble|"
  "keep_checkpoint_max|iterations_per_loop|profile_steps|verbose_logging|"
  "stop_at_step|dry_run|seed"
)
# Flags of fine-tuning of which several values make a sweep.
SWEPT = ("learning_rate", "train_batch_size", "num_train_epochs")
# Flags of most commands, in the order of --help.
_FIRST = (
  *("task_name", "data_dir", "train_file", "dev_file", "predict_file"),
  *("test_file", "text", "input", "input_file", "output", "output_file"),
  *("bert_config_file", "vocab_file", "vocab_size", "init_checkpoint"),
  *("output_dir", "do_lower_case", "do_train", "do_eval", "do_predict"),
  *("do_export", "export_dir", "max_seq_length", "train_batch_size"),
  *("learning_rate", "num_train_epochs", "num_train_steps"),
  *("num_warmup_steps", "version_2_with_negative", "input_format", "layers"),
  *("overwrite", "model", "host", "port"),
)
_ORIGINAL = (
  *("batch_size", "doc_stride", "do_whole_word_mask", "dupe_factor"),
  *("eval_batch_size", "iterations_per_loop", "masked_lm_prob"),
  *("max_answer_length", "max_eval_steps", "max_predictions_per_seq"),
  *("max_query_length", "n_best_size", "null_score_diff_threshold"),
  *("predict_batch_size", "random_seed", "save_checkpoints_steps"),
  *("short_seq_prob", "use_one_hot_embeddings", "verbose_logging"),
  "warmup_proportion",
)
_DEVICES = (
  *("distribution_strategy", "dtype", "gcp_project", "jit_compile", "master"),
  *("num_cpu_devices", "num_tpu_cores", "num_workers", "pipeline_options"),
  *("profile_steps", "runner", "tpu_name", "tpu_zone", "use_tpu"),
)
_HELP = ("help", "helpshort")
_PARSE_ERRORS = {
  r"\('Non-boolean argument.*": "true or false",
  r"invalid literal for int\(\).*": "an integer",
  r"could not convert string to float.*": "a number",
}


T = TypeVar("T")


class Arguments(SimpleNamespace):
  """Immutable flag values, an attribute each; the user has set `set_flags`."""

  __slots__ = ("set_flags",)  # not in vars(), which are the flags

  def __init__(self, set_flags: frozenset[str] = frozenset(), **values):
    super().__init__(**values)
    self.set_flags = set_flags

  @classmethod
  def from_flags(cls, FLAGS: flags.FlagValues) -> "Arguments":
    """Values of all flags of this project; see `_check_value`."""
    project_flags = [
      flag
      for flag in find_project_flags(FLAGS)
      if not flag.name.startswith("help")
    ]
    for flag in project_flags:
      _check_value(flag)
    set_flags = frozenset(flag.name for flag in project_flags if flag.present)
    values = {flag.name: _expand_home(flag.value) for flag in project_flags}
    return cls(set_flags, **values)

  def __contains__(self, name: str) -> bool:
    return hasattr(self, name)

  def __getitem__(self, name: str) -> Any:
    return getattr(self, name)

  def replace(self, **changes) -> "Arguments":
    return type(self)(self.set_flags, **vars(self) | changes)

  def select(self, kind: type[T]) -> T:
    """Makes a dataclass whose fields are named as flags, of their values."""
    return kind(**{field.name: self[field.name] for field in fields(kind)})


def settings_of_sweep(args: Arguments) -> list[dict[str, float]]:
  """Values of the flags of SWEPT, in all combinations; one without a sweep."""
  values = [args[name] for name in SWEPT]
  several = [v if isinstance(v, tuple) else (v,) for v in values]
  combinations = dict.fromkeys(product(*several))  # each once
  return [dict(zip(SWEPT, numbers, strict=True)) for numbers in combinations]


def changed_flags(
  args: Arguments, entry: Mapping, ignored: re.Pattern = NOT_OF_TRAINING
) -> str:
  """Flags that differ from an entry of run.json, as a phrase; else empty."""
  changes = [
    f"--{name}={value} (now {args[name]})"
    for name, value in entry["flags"].items()
    if name in args
    and not ignored.match(name)
    and json.loads(json.dumps(args[name])) != value
  ]
  return ", ".join(changes)


def _is_required(flag):
  return any("must have a value" in rule.message for rule in flag.validators)


def _check_value(flag):
  """Raises ValueError for a required flag that is empty, NaN and infinity."""
  if flag.value == "" and _is_required(flag):
    raise UserError(
      f"--{flag.name} is empty: is a variable of the shell unset?"
    )
  values = flag.value if isinstance(flag.value, tuple) else (flag.value,)
  if not all(math.isfinite(v) for v in values if isinstance(v, float)):
    raise UserError(f"--{flag.name}={flag.value}: give a finite number")


def _expand_home(value):
  """Replaces ~ in paths: the shell does not behind a flag's "="."""
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
  # Flags that older entries lack.
  values = {"attention": None, "add_bilstm": False, "export_top_k": 0}
  values |= {"multi_label": False, "long_text": "truncate", "ensemble": 1}
  values |= entry["flags"]
  unknown = changes.keys() - values.keys()
  if unknown:
    raise UserError(f"{entry['program']} has no flag {min(unknown)}")
  changes = {
    name: _checked_value(name, value, values[name])
    for name, value in changes.items()
  }
  for name in ("bert_config_file", "vocab_file"):
    if name not in changes:
      changes[name] = _existing_file(folder, entry, name)
  training_data = dict.fromkeys(("init_checkpoint", "data_dir", "train_file"))
  flag_values = values | training_data | changes
  return Arguments(**flag_values | {"output_dir": folder})


def _existing_file(folder, entry, name):
  """Path that a flag of an entry names; FileNotFoundError if there is none."""
  path = run_record.path_of(entry, name)
  if path and files.exists(path):
    return path
  state = f"with --{name}={path}, which is not there"
  raise FileNotFoundError(
    f"{folder} was trained {state if path else f'without --{name}'}: restore "
    f"the file, correct its path in {os.path.join(folder, run_record.NAME)}, "
    f"or name it, as in Predictor({folder!r}, {name}=...) or predictor.py "
    f"--{name}=..."
  )


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


def parse(argv: list[str]) -> list[str]:
  """Parses flags, or ends the program; returns its name and other arguments."""
  for name in _HELP:
    flags.DEFINE_flag(_Help(name))
  try:
    return flags.FLAGS(argv)
  except flags.Error as error:
    missing = re.findall(r"Flag --(\w+) must have a value", str(error))
    message = " ".join(str(error).removeprefix("ERROR:: ").split())
    for of_python, expected in _PARSE_ERRORS.items():
      message = re.sub(of_python, f"expected {expected}", message)
    if missing:
      message = f"missing: {', '.join(f'--{name}' for name in missing)}"
    print(f"ERROR: {message} (--help lists all flags)", file=sys.stderr)
    sys.exit(1)


class _Help(flags.BooleanFlag):
  def __init__(self, name):
    super().__init__(name, False, "Show this help.", allow_override=True)

  def parse(self, argument):
    if not self._parse(argument):
      return
    try:
      print(text(sys.modules["__main__"].__doc__ or "", flags.FLAGS))
      sys.stdout.flush()
    except BrokenPipeError:  # as of `--help | head`
      # Python flushes again at exit.
      os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(0)


def text(description: str, FLAGS: flags.FlagValues) -> str:
  """Description of a program and its flags, in groups."""
  names = {flag.name for flag in find_project_flags(FLAGS)} - {*_HELP}
  first = [name for name in _FIRST if name in names]
  original = sorted(names & {*_ORIGINAL})
  additional = sorted(names - {*_FIRST, *_ORIGINAL, *_DEVICES})
  groups = {
    "Most commands": first,
    "Others of the original": original,
    "Beyond the original" if original else "Others": additional,
    "Devices, processes and precision": sorted(names & {*_DEVICES}),
  }
  lines = [description.strip()]
  for heading, members in groups.items():
    if members:
      lines += ["", f"{heading}:"]
      lines += [_describe(FLAGS[name]) for name in members]
  lines += ["", "--flagfile=FILE reads flags from a file, one per line."]
  return "\n".join(lines)


def _describe(flag) -> str:
  """Lines of a flag: its name and default, then its help."""
  head = f"  --[no]{flag.name}" if flag.boolean else f"  --{flag.name}"
  if _is_required(flag):
    head += "  (required)"
  elif default := (flag.default_as_str or "").strip("'"):
    head += f"  (default {default})"
  help_text = re.sub(r"^<[^>]*>: ", "", flag.help)  # list of enum values
  if values := getattr(flag.parser, "enum_values", None):
    help_text = f"{', '.join(values)}: {help_text}"
  return head + "\n" + textwrap.indent(textwrap.fill(help_text, 72), " " * 6)


@contextmanager
def shorten_dry_run(args: Arguments) -> Iterator[Arguments]:
  """Context with the arguments to run with, changed if --dry_run is set.

  A dry run has the stages of the command, but no outputs. If the command has no
  stage, or trains, it trains two steps; else it takes the model in
  --output_dir. Models and batches have their full size, so that it also tests
  memory. Log lines name the command's folders instead of the temporary one.
  """
  if not getattr(args, "dry_run", False):
    yield args
    return
  stages = (getattr(args, f"do_{name}", 0) for name in _STAGES)
  trains = args.do_train or not any(stages)
  trained = run_record.best_or_latest(args.output_dir)
  start = None if trains else run_record.latest_checkpoint(trained)
  logging.info("dry run: the files that it names go to a temporary folder")
  with _dry_run_folder(args.output_dir) as folder:
    names = {os.path.join(folder, "export"): args.export_dir}
    _rename_in_log(names | {folder: args.output_dir})
    changes = {
      "output_dir": folder,
      "init_checkpoint": start or args.init_checkpoint,
      "do_train": trains,
      "export_dir": os.path.join(folder, "export"),
      "num_train_steps": DRY_RUN_STEPS,
      "num_warmup_steps": 1,
      "stop_at_step": 0,
      "max_eval_steps": DRY_RUN_STEPS,
      "eval_steps": 0,
      "early_stopping_patience": 0,
      "num_seeds": 1,
      "ensemble": 1,
      "profile_steps": None,
    }
    for name in SWEPT:
      if isinstance(getattr(args, name, None), tuple):
        changes[name] = args[name][0]
    yield args.replace(**{n: v for n, v in changes.items() if n in args})
  logging.info("dry run: all stages work, nothing was saved")


def _rename_in_log(names: Mapping[str, str | None]) -> None:
  """Replaces paths in log lines, also of errors, to the end of the process."""

  def rename(record):
    text = record.getMessage()
    for path, name in names.items():
      text = text.replace(path, name or path)
    record.msg, record.args = text, ()
    return True

  logging.get_absl_handler().python_handler.addFilter(rename)


@contextmanager
def _dry_run_folder(output_dir):
  """Context with a folder for a time; workers share one in --output_dir."""
  if not cluster.has_others():
    with TemporaryDirectory() as folder:
      yield folder
    return
  folder = os.path.join(output_dir, "dry_run")
  try:
    yield folder
  finally:
    if cluster.is_chief():
      files.remove_folder(folder)


def max_examples(args: Arguments) -> int | None:
  """Number of examples to read from a file in a dry run; else None, for all."""
  return _DRY_RUN_EXAMPLES if args.dry_run else None
