"""Start and end of a program: --help, signals, errors."""

import importlib.metadata
import os
import platform
import re
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from absl import app, flags, logging

from cli import settings
from cli.settings import S, Settings
from storage import UserError, silence_tensorflow, write_settings_as_flags

VERSION = "0.1.0"  # of this project
_PACKAGES = ("tensorflow", "keras", "numpy", "tf-models-official")
_NOT_IN_SERVE = "tensorflow", "keras", "safetensors", "huggingface_hub"
_DISK_FULL = re.compile("No space left|Disk quota exceeded")


def run(kind: type[S], *steps: Callable, writes_files: bool = False) -> None:
  """Parses the flags of `kind`, then calls each of `steps` with the settings.

  The first step checks flags and paths; only the last one imports TensorFlow.
  With `writes_files`, SIGTERM removes incomplete files. A user's mistake or a
  full disk gives one line and status 1. Any other error gives a traceback, and
  so does every error if the environment variable BERT_TRACEBACK is set.
  """
  from cli import start_up  # noqa: PLC0415 (the import sets a handler)

  def guarded(argv):
    logging.use_absl_handler()
    try:
      with start_up.clean_up():
        if argv[1:]:
          raise UserError(
            f"unexpected argument {argv[1]!r}: write --do_train=true with an "
            "equals sign, and quote patterns, as in --input_file='*.txt'"
          )
        values = settings.from_flags(kind, flags.FLAGS, sys.argv)
        if writes_files:
          signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        for step in steps:
          step(values)
    except Exception as error:
      message = message_of(error)
      if os.environ.get("BERT_TRACEBACK") or message is None:
        raise
      logging.error("%s", message)
      return 1

  settings.define(kind, flags.FLAGS)
  write_settings_as_flags()
  logging.set_verbosity(logging.INFO)
  logging.get_absl_handler().python_handler.setFormatter(_Formatter())
  silence_tensorflow()
  start_up.start_sooner()
  app.run(guarded, flags_parser=partial(_parse, kind))


def end_with_reader() -> None:
  """Lets the process end silently when a reader, such as `head`, stops."""
  signal.signal(signal.SIGPIPE, signal.SIG_DFL)


def _parse(kind: type[Settings], argv: list[str]) -> list[str]:
  """Parses flags, or ends the program; returns arguments that are no flags."""
  if {"--help", "-h"} & {*argv}:
    end_with_reader()
    print(help_text(sys.modules["__main__"].__doc__ or "", kind))
    sys.exit(0)
  if "--version" in argv:
    facts = versions() | {"commit": commit()}
    print("\n".join(f"{name} {fact}" for name, fact in facts.items()))
    sys.exit(0)
  try:
    return flags.FLAGS(argv)
  except flags.Error as error:
    missing = re.findall(r"Flag --(\w+) must have a value", str(error))
    message = " ".join(str(error).removeprefix("ERROR:: ").split())
    if missing:
      message = f"missing: {', '.join(f'--{name}' for name in missing)}"
    print(f"ERROR: {message} (--help lists all flags)", file=sys.stderr)
    sys.exit(1)


def versions() -> dict[str, str]:
  """Versions of this project, Python and the packages that affect results."""
  result = {"bert": VERSION, "python": platform.python_version()}
  for name in _PACKAGES:
    with suppress(importlib.metadata.PackageNotFoundError):
      result[name] = importlib.metadata.version(name)
  return result


def commit() -> str | None:
  """Git commit of this code, or None. A "+" at the end marks changed files."""
  file = Path(__file__)
  git = ["git", "-C", file.parent]
  describe = ["describe", "--always", "--abbrev=40", "--exclude=*", "--dirty=+"]
  run = partial(subprocess.check_output, text=True, stderr=subprocess.DEVNULL)
  try:
    # Another project's repository may contain an installed copy.
    is_tracked = run([*git, "ls-files", file.name])
    return run([*git, *describe]).strip() if is_tracked else None
  except (OSError, subprocess.CalledProcessError):
    return None


def help_text(description: str, kind: type[Settings]) -> str:
  """Makes the text of --help: `description`, then all flags in groups."""
  known = settings.flags_of(kind).values()
  lines = [description.strip()]
  for group in settings.GROUPS:
    members = [flag for flag in known if flag.group == group]
    if group != settings.COMMON:
      members.sort(key=lambda flag: flag.name)
    lines += ["", f"{group}:"] if members else []
    for flag in members:
      default = flag.default
      if isinstance(default, tuple):
        default = ",".join(default)
      if isinstance(default, bool):
        default = str(default).lower()
      head = f"  --[no]{flag.name}" if flag.kind is bool else f"  --{flag.name}"
      if flag.required:
        head += "  (required)"
      elif default not in (None, ""):
        head += f"  (default {default})"
      choices = f"{', '.join(flag.choices)}: " if flag.choices else ""
      text = textwrap.fill(choices + flag.help, 72)
      lines += [head, textwrap.indent(text, " " * 6)]
  lines += ["", "--flagfile=FILE reads flags from a file, one per line."]
  lines += ["--version prints versions of this project and its packages."]
  return "\n".join(lines)


class _Formatter(logging.PythonFormatter):
  def format(self, record):
    time = self.formatTime(record, "%H:%M:%S")
    level = "" if record.levelname == "INFO" else f"{record.levelname}: "
    text = f"{time} {level}{record.getMessage()}"
    if record.exc_info:
      text += f"\n{self.formatException(record.exc_info)}"
    return text


def message_of(error: BaseException) -> str | None:
  """Message about a mistake of the user or a full disk; None for a defect.

  A mistake is a UserError, or an OSError with a path or without errno.
  """
  message = str(error)
  if _DISK_FULL.search(message):
    return (
      f"{message.splitlines()[0]}: free some space, or choose another folder, "
      "and run the same command again"
    )
  is_mistake = isinstance(error, UserError)
  if isinstance(error, ModuleNotFoundError) and error.name in _NOT_IN_SERVE:
    return f"this needs {error.name}: pip install -r requirements.txt"
  if isinstance(error, OSError):
    is_mistake = error.filename is not None or error.errno is None
  return message if is_mistake else None
