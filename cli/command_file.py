"""command.flags: the flagfile of a run's folder that repeats its command."""

import json
import os
import re

from absl import flags

from cli.settings import Settings, flags_of

NAME = "command.flags"  # in --output_dir
# Flags that the user gives anew, because another run needs other folders.
_OF_FOLDERS = ("output_dir", "do_export", "export_dir")


def text(settings: Settings, seed: int) -> str:
  """Content of the flagfile that repeats this command with `seed`.

  Lists defaults at the end, so that the command survives a change of defaults.
  """
  lines = [
    f"# python {settings.program}.py --flagfile=.../{NAME} --output_dir=NEW",
    f"# repeats this run where relative paths mean the same: {os.getcwd()!r}",
  ]
  defaults = ["# Defaults:"]
  # Settings made without a command line, as in tests, have no flags.
  for name in sorted({*flags_of(type(settings))} & {*flags.FLAGS}):
    flag = flags.FLAGS[name]
    is_given = name in settings.given
    if name == "seed":
      lines.append(f"--seed={seed}")
    elif name in _OF_FOLDERS:
      lines += [f"# {line_of(flag)}"] * is_given
    elif flag.value is not None:
      (lines if is_given else defaults).append(line_of(flag))
  return "\n".join([*lines, *defaults, ""])


def line_of(flag: flags.Flag) -> str:
  """Line of a flagfile, with --name:json= for texts that a line cannot hold."""
  line = f"--{flag.name}={re.sub('[() ]', '', str(flag.value))}"  # (1, 2)
  if flag.boolean or flag.serializer:
    line = flag.serialize()
  if line.isprintable() and line == line.strip():
    return line
  name, _, value = line.partition("=")
  return f"{name}:json={json.dumps(value)}"


def from_line(argument: str) -> str:
  """The argument --name=value of a `line_of`; ValueError for invalid JSON."""
  name, is_json, value = argument.partition(":json=")
  if not is_json or not re.fullmatch(r"--\w+", name):
    return argument
  try:
    return f"{name}={json.loads(value)}"
  except ValueError as error:
    raise ValueError(f"{argument} is no JSON: {error}") from None
