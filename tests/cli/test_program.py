"""Errors, --help and logs of programs, and libraries that programs hide."""

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from absl import flags

from cli import program, settings, start_up
from cli.settings import Settings, common, device, flag
from storage import UserError
from tests import programs


def _run(body, *arguments, **environment):
  script = f"""
from cli import program, settings
def main(_):
  {body}
program.run(settings.Settings, lambda _: None, main)"""
  env = {"PATH": "/usr/bin"} | environment
  return programs.python(["-c", script, *arguments], env=env)


def test_a_users_mistake_gives_one_line_and_a_traceback_only_on_request():
  body = "from storage import files; files.expand('none*')"
  done = _run(body)
  message = "ERROR: no file matches none*"
  programs.check_error(done.returncode, done.stderr, message)
  assert "Traceback" in _run(body, BERT_TRACEBACK="1").stderr
  assert "Traceback" in _run("raise ValueError('a defect')").stderr


@pytest.mark.parametrize(
  ("error", "is_mistake"),
  [
    (UserError("x"), True),
    (NotADirectoryError(20, "Not a directory", "/dev/null/x"), True),
    (OSError("remote: x"), True),
    (OSError(9, "Bad file descriptor"), False),
    (ValueError("of an internal check"), False),
    (ModuleNotFoundError("No module named 'modelling'"), False),
  ],
)
def test_errors_with_a_path_or_for_the_user_have_a_message(error, is_mistake):
  assert program.message_of(error) == (str(error) if is_mistake else None)


def test_a_package_missing_from_the_small_installation_is_named():
  error = ModuleNotFoundError("No module named ...", name="safetensors")
  expected = "this needs safetensors: pip install -r requirements.txt"
  assert program.message_of(error) == expected


@dataclass(frozen=True, kw_only=True)
class Program(Settings):
  """Settings of a program with one flag of each type."""

  text: str = common(None, "A text.", required=True)
  do_train: bool = common(False, "Train. " * 12)
  number: int = flag(5, "A number.")
  start: str | None = flag(None, "A folder.")
  files: tuple[str, ...] | None = flag(("a", "b"), "Files.")
  dtype: str = device("a", "A type.", choices=("a", "b"))


def test_a_required_text_is_not_empty_and_empty_flags_are_warned_of(caplog):
  values = flags.FlagValues()
  settings.define(Program, values)
  values(["program", "--text=", "--start="])
  with pytest.raises(ValueError, match="--text is empty: is a variable of the"):
    settings.from_flags(Program, values)
  values["text"].value = "a"
  settings.from_flags(Program, values)
  assert caplog.messages == ["--start is empty, so it has no effect"]


@pytest.fixture(name="program_flags")
def _program_flags(monkeypatch):
  """Replaces absl's FLAGS by the flags of Program."""
  values = flags.FlagValues()
  settings.define(Program, values)
  monkeypatch.setattr(flags, "FLAGS", values)


@pytest.mark.parametrize(
  ("argument", "message"),
  [
    (
      "--number=x",
      "flag --number=x: invalid literal for int() with base 10: 'x'",
    ),
    ("--number=1", "missing: --text"),
    ("--numbr=1", "Unknown command line flag 'numbr'. Did you mean: number ?"),
  ],
)
def test_an_error_names_the_wrong_or_missing_flag(
  program_flags, capsys, argument, message
):
  with pytest.raises(SystemExit, match="1"):
    program._parse(Program, ["program", argument])
  line = f"ERROR: {message} (--help lists all flags)\n"
  assert capsys.readouterr().err == line


HELP = """Does it.

Most commands:
  --text  (required)
      A text.
  --[no]do_train  (default false)
      Train. Train. Train. Train. Train. Train. Train. Train. Train. Train.
      Train. Train.

Beyond the original:
  --files  (default a,b)
      Files.
  --number  (default 5)
      A number.
  --start
      A folder.

Devices, processes and precision:
  --dtype  (default a)
      a, b: A type.

--flagfile=FILE reads flags from a file, one per line.
--version prints versions of this project and its packages."""


def test_help_groups_flags_and_has_defaults(program_flags, monkeypatch, capsys):
  monkeypatch.setattr(program.signal, "signal", lambda *_: None)
  monkeypatch.setattr(sys.modules["__main__"], "__doc__", "Does it.\n")
  with pytest.raises(SystemExit, match="0"):
    program._parse(Program, ["program", "--help"])
  assert capsys.readouterr().out == f"{HELP}\n"


def test_an_argument_without_a_flag_is_reported():
  done = _run("pass", "True")
  message = "argument 'True': write --do_train=true with an equals sign, and q"
  programs.check_error(done.returncode, done.stderr, message)


def test_log_lines_have_a_time_and_logged_exceptions_have_a_traceback():
  body = """
  from absl import logging
  logging.info("three %d", 3)
  try:
    1 / 0
  except ZeroDivisionError:
    logging.exception("POST /v1")"""
  done = _run(body.strip())
  first, second, traceback, *_, last = done.stderr.splitlines()
  # Each line begins with HH:MM:SS.
  assert (first[8:], second[8:]) == (" three 3", " ERROR: POST /v1")
  assert traceback == "Traceback (most recent call last):"
  assert last == "ZeroDivisionError: division by zero"


def test_unused_libraries_are_hidden_from_keras_and_tensorflow(monkeypatch):
  monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
  monkeypatch.setattr(start_up, "_UNUSED", ("colorsys",))
  monkeypatch.delitem(sys.modules, "colorsys", raising=False)
  start_up.start_sooner()
  for importer in ("keras.src.any", "tensorflow.python.any"):
    with pytest.raises(
      ImportError, match=f"colorsys is hidden from {importer}"
    ):
      exec("import colorsys", {"__name__": importer})
    exec("import colorsys", {"__name__": "kerasana"})  # no module of Keras
    assert sys.modules.pop("colorsys")


def test_a_program_knows_the_commit_of_the_checkout():
  command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"]
  done = subprocess.run(command, capture_output=True, text=True, check=False)
  assert (program.commit() or "").removesuffix("+") == done.stdout.strip()
