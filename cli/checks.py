"""Checks of flags and of the files that they name."""

import os
import tempfile
from collections.abc import Sequence

from cli import flags as shared_flags
from cli.arguments import Arguments
from modeling.config import SIDES
from storage import UserError, files

MASKED = ("mlm_nsp", "mlm")  # objectives of models that fill masks


def check_windows(args: Arguments) -> None:
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
  if shared_flags.window_stride(args) > args.max_seq_length - 2:
    raise UserError(
      f"--window_stride={args.window_stride} leaves tokens out: a window of "
      f"--max_seq_length={args.max_seq_length} has {args.max_seq_length - 2} "
      "of the text"
    )


def check_export(args: Arguments) -> None:
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
  check_writable(args.export_dir, "export_dir")
  files.check_is_free(args.export_dir)


def check_files(args: Arguments, *names: str) -> None:
  """Checks the input files of flags, which must be set."""
  for name in names:
    if not args[name]:
      raise UserError(f"this command needs --{name}")
    check_file(args, name)


def check_file(args: Arguments, name: str) -> None:
  """Checks the input file that a flag names, if it is set."""
  path = args[name]
  if not path:
    return
  if files.is_folder(path):
    raise IsADirectoryError(f"cannot read {path}: --{name} names a folder")
  if not files.exists(path):
    raise FileNotFoundError(f"cannot read {path}: --{name} names no file")


def check_writable(path: str, name: str) -> None:
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


def check_output_file(args: Arguments, *inputs: str) -> None:
  """Checks --output_file: no input, writable, new unless --overwrite is set."""
  path = args.output_file
  check_disjoint(inputs, path)
  check_writable_file(path)
  if not args.overwrite:
    check_is_new(path)


def check_writable_file(path: str) -> None:
  """Raises OSError if --output_file cannot be written, or is a folder."""
  if files.is_folder(path):
    raise IsADirectoryError(f"--output_file={path} is a folder: name a file")
  check_writable(path, "output_file")


def check_is_new(*paths: str) -> None:
  """Raises FileExistsError if any of the paths exists."""
  present = [path for path in paths if files.exists(path)]
  if present:
    verb, them = ("exists", "it") if len(present) == 1 else ("exist", "them")
    raise FileExistsError(
      f"{', '.join(present)} {verb} already; remove {them}, choose another "
      "name, or give --overwrite"
    )


def check_disjoint(inputs: Sequence[str], *outputs: str) -> None:
  """Raises ValueError if an output is one of the inputs."""
  read = {os.path.realpath(path) for path in inputs}
  for path in outputs:
    if os.path.realpath(path) in read:
      raise UserError(f"{path} is an input, too: choose another output")


def check_objective(objective: str | None) -> None:
  """Raises ValueError if models of an objective cannot fill masks."""
  if objective in SIDES:
    raise UserError(
      f"a model of --objective={objective} cannot fill masks: take one "
      f"that was trained with {' or '.join(MASKED)}"
    )
