"""Checks of flags and of the files that they name."""

import os
import tempfile
from collections.abc import Sequence

from cli import arguments
from cli.arguments import Arguments
from modeling.config import BertConfig
from storage import UserError, files
from training import cluster, run_record


def on_tpu(args: Arguments) -> bool:
  """True if flags select a TPU."""
  return args.use_tpu or args.distribution_strategy == "tpu"


def evaluates_while_training(args: Arguments) -> bool:
  """True if a run trains and evaluates during training or at its end."""
  return args.do_train and (
    bool(args.eval_steps) or run_record.keeps_best(vars(args))
  )


def needs_eval_data(args: Arguments) -> bool:
  """True if a run evaluates, while training or afterwards."""
  return args.do_eval or evaluates_while_training(args)


def run(args: Arguments) -> None:
  """Checks the flags that all training programs have; else ValueError."""
  stages = ("do_train", "do_eval", "do_predict", "do_export")
  names = [name for name in stages if name in args]
  if not any(args[name] for name in names):
    *others, last = (f"--{name}" for name in names)
    raise UserError(
      f"At least one of {', '.join(others)} and {last} must be True."
    )
  if getattr(args, "early_stopping_patience", 0) and not args.eval_steps:
    raise UserError(
      "--early_stopping_patience counts evaluations: say with --eval_steps "
      "after how many steps there is one"
    )
  ensemble(args)
  epochs = getattr(args, "num_train_epochs", 1)
  if args.do_train and 0 in (
    epochs if isinstance(epochs, tuple) else (epochs,)
  ):
    raise UserError("--num_train_epochs=0 trains nothing: drop --do_train")
  export(args)
  devices(args)
  if args.group_by_length and (on_tpu(args) or args.jit_compile):
    raise UserError(
      "--group_by_length makes batches of many lengths, and XLA compiles each "
      "of them: it goes neither with --jit_compile nor with a TPU"
    )
  profile_steps(args)


def packing(args: Arguments, config: BertConfig) -> None:
  """Raises ValueError if another setting contradicts --pack_examples."""
  if args.pack_examples and (name := packing_conflict(args, config)):
    raise UserError(f"--pack_examples does not go with {name}: drop one")


def packing_conflict(args: Arguments, config: BertConfig) -> str | None:
  """First setting with which examples cannot share rows; None if all can."""
  others = {
    "--add_bilstm": config.add_bilstm,
    "--document_context": getattr(args, "document_context", False),
    "--feature_based": getattr(args, "feature_based", False),
    "--group_by_length": args.group_by_length,
    "--gradient_accumulation_steps": args.gradient_accumulation_steps > 1,
    "--long_text=windows": getattr(args, "long_text", "") == "windows",
    "--teacher": getattr(args, "teacher", None),
    "--jit_compile": args.jit_compile,
    "a TPU": on_tpu(args),
    f"attention {config.attention!r}": config.attention != "bidirectional",
  }
  return next((name for name, is_set in others.items() if is_set), None)


def ensemble(args: Arguments) -> None:
  """Raises ValueError if there are fewer models than --ensemble says."""
  size = getattr(args, "ensemble", 1)
  if not args.do_train and size > 1:
    run_record.best_trials(args.output_dir, size)
  elif size > 1:
    number = len(arguments.settings_of_sweep(args)) * args.num_seeds
    if number < size:
      raise UserError(
        f"--ensemble={size} takes the best of a sweep, but this command trains "
        f"{number}: give more of --learning_rate or --num_seeds"
      )


def row_length(args: Arguments) -> int:
  """Maximum tokens of a text: of all its windows with --long_text=windows."""
  is_long = args.long_text == "windows"
  return args.max_text_length if is_long else args.max_seq_length


def window_stride(args: Arguments) -> int:
  """Tokens between starts of windows: --window_stride, or half of a window."""
  return args.window_stride or max((args.max_seq_length - 2) // 2, 1)


def windows(args: Arguments) -> None:
  """Raises ValueError if flags of windows contradict each other."""
  if args.long_text != "windows":
    for name in ("max_text_length", "window_stride", "window_pooling"):
      if name in args.set_flags:
        raise UserError(f"--{name} needs --long_text=windows")
    return
  if args.max_text_length < args.max_seq_length:
    raise UserError(
      f"--max_text_length={args.max_text_length} is less than "
      f"--max_seq_length={args.max_seq_length}, the length of a window"
    )
  if window_stride(args) > args.max_seq_length - 2:
    raise UserError(
      f"--window_stride={args.window_stride} leaves tokens out: a window of "
      f"--max_seq_length={args.max_seq_length} has {args.max_seq_length - 2} "
      "of the text"
    )


def profile_steps(args: Arguments) -> tuple[int, int] | tuple[()]:
  """Parses --profile_steps=first,last; none without it; else ValueError."""
  if not args.profile_steps:
    return ()
  try:
    first, last = map(int, args.profile_steps.split(","))
  except ValueError:
    first, last = 0, 0
  if not 0 <= first < last:
    raise UserError(
      f"--profile_steps={args.profile_steps}: give the step before the first "
      "and the last one, as in 100,110"
    )
  return first, last


def export(args: Arguments) -> None:
  """Checks the flags of --do_export; raises ValueError or FileExistsError."""
  if not args.do_export:
    return
  if not args.export_dir:
    raise UserError("--do_export needs --export_dir")
  formats = args.export_format
  known = "savedmodel", "tflite", "keras"
  if not formats or not {*formats} <= {*known}:
    raise UserError(
      f"--export_format={','.join(formats)}: give one or more of "
      f"{', '.join(known)}, with commas between them"
    )
  if "tflite" in formats and args.dtype != "float32":
    raise UserError(
      f"--export_format=tflite does not go with --dtype={args.dtype}: train, "
      "then export in a run of its own without --dtype"
    )
  files.check_is_free(args.export_dir)


def devices(args: Arguments) -> None:
  """Raises ValueError if device flags contradict each other or TF_CONFIG."""
  name = args.distribution_strategy
  if args.use_tpu and name not in (None, "tpu"):
    raise UserError(f"--use_tpu contradicts --distribution_strategy={name}")
  is_joint = name == "multi_worker_mirrored" or on_tpu(args)
  if cluster.has_others() and not is_joint:
    raise UserError(
      "TF_CONFIG names several workers, but each would work alone: give "
      "--distribution_strategy=multi_worker_mirrored, or unset TF_CONFIG"
    )


def files_to_read(args: Arguments) -> list[str]:
  """Names of the flags for files that a run reads: train_file and so on."""
  is_read = {
    "train_file": args.do_train,
    "dev_file": needs_eval_data(args),
    "test_file": args.do_predict,
  }
  return [flag for flag in is_read if is_read[flag]]


def need(args: Arguments, *names: str) -> None:
  """Checks the input files of flags, which must be set."""
  for name in names:
    if not args[name]:
      raise UserError(f"this command needs --{name}")
    file(args, name)


def file(args: Arguments, name: str) -> None:
  """Checks the input file that a flag names, if it is set; see `need`."""
  path = args[name]
  if not path:
    return
  if files.is_folder(path):
    raise IsADirectoryError(f"cannot read {path}: --{name} names a folder")
  if not files.exists(path):
    raise FileNotFoundError(f"cannot read {path}: --{name} names no file")


def writable(path: str, name: str) -> None:
  """Checks that a path, from the flag `name`, can be written; else OSError.

  Files are written beside their path first, so their folder has to be writable.
  """
  if files.is_remote(path):
    return files.check_writable(path)
  parent = os.path.abspath(path)
  if not os.path.isdir(parent):
    parent = os.path.dirname(parent)
  while not os.path.exists(parent):
    parent = os.path.dirname(parent)
  if not os.path.isdir(parent):
    raise NotADirectoryError(f"--{name}={path}: {parent} is no folder")
  try:  # also as root, which may write to folders that take no files
    tempfile.TemporaryFile(dir=parent).close()
  except OSError:
    raise PermissionError(
      f"--{name}={path}: {parent} cannot be written to"
    ) from None


def output_file(args: Arguments, *inputs: str) -> None:
  """Checks --output_file: no input, writable, new unless --overwrite is set."""
  path = args.output_file
  disjoint(inputs, path)
  writable_file(path)
  if not args.overwrite:
    refuse_to_overwrite(path)


def writable_file(path: str) -> None:
  """Raises OSError if --output_file cannot be written, or is a folder."""
  if files.is_folder(path):
    raise IsADirectoryError(f"--output_file={path} is a folder: name a file")
  writable(path, "output_file")


def refuse_to_overwrite(*paths: str) -> None:
  """Raises FileExistsError if any of the paths exists."""
  present = [path for path in paths if files.exists(path)]
  if present:
    verb, them = ("exists", "it") if len(present) == 1 else ("exist", "them")
    raise FileExistsError(
      f"{', '.join(present)} {verb} already; remove {them}, choose another "
      "name, or give --overwrite"
    )


def disjoint(inputs: Sequence[str], *outputs: str) -> None:
  """Raises ValueError if an output is one of the inputs."""
  read = {os.path.realpath(path) for path in inputs}
  for path in outputs:
    if os.path.realpath(path) in read:
      raise UserError(f"{path} is an input, too: choose another output")
