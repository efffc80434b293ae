"""Errors, --help and logs of programs, and the functions of start_up.py."""

import ctypes
import json
import logging
import os
import sys
from dataclasses import dataclass

import pytest
import tensorflow as tf
from absl import flags

from cli import program, settings, start_up
from cli.settings import Settings, common, device, flag
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


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_letters_that_the_output_cannot_encode_become_json_escapes(encoding):
  script = r"""
from cli import program, settings
main = lambda _: print('["\xf8 \uae0d \U0001f600"]')
program.run(settings.Settings, lambda _: None, main)"""
  env = {"PATH": "/usr/bin", "PYTHONIOENCODING": encoding}
  done = programs.python(["-c", script], env=env, encoding=encoding)
  assert json.loads(done.stdout) == ["\xf8 \uae0d \U0001f600"]
  assert ("\xf8" in done.stdout) == (encoding != "ascii")


@pytest.mark.parametrize(
  "body",
  [
    "int('x')",
    "raise ValueError('of an internal check')",
    "from data import features; features.pad([1, 2], 1)",
    "import os; os.write(-1, b'')",  # an OSError without a path
  ],
)
def test_a_bug_prints_a_traceback(body):
  done = _run(body)
  assert done.returncode == 1
  assert "Traceback" in done.stderr


def test_an_oserror_with_a_path_counts_as_a_mistake_of_the_user():
  with pytest.raises(NotADirectoryError) as caught:
    os.makedirs("/dev/null/folder")
  assert program.is_user_error(caught.value)


@dataclass(frozen=True, kw_only=True)
class Program(Settings):
  """Settings of a program with one flag of each type."""

  text: str = common(None, "A text.", required=True)
  do_train: bool = common(False, "Train. " * 12)
  number: int = flag(5, "A number.")
  rate: float = flag(0.5, "A rate.")
  rates: float = flag(1.0, "Rates.", swept=True)
  layers: str | None = flag(None, "Layers.")
  dtype: str = device("a", "A type.", choices=("a", "b"))


@pytest.mark.parametrize(
  ("argument", "message"),
  [
    ("--text=", "--text is empty: is a variable of the shell unset?"),
    ("--rate=nan", "--rate=nan: give a finite number"),
    ("--rate=-inf", "--rate=-inf: give a finite number"),
    ("--rates=1,nan", "--rates=(1.0, nan): give a finite number"),
    ("--layers=", None),  # an optional text may be empty
    ("--text=x", None),
  ],
)
def test_an_empty_required_text_and_nonfinite_numbers_are_refused(
  argument, message
):
  values = flags.FlagValues()
  settings.define(Program, values)
  values(["program", "--text=x", argument])
  if message is None:
    assert settings.from_flags(Program, values).rate == 0.5
    return
  with pytest.raises(ValueError) as caught:
    settings.from_flags(Program, values)
  assert str(caught.value) == message


@pytest.fixture(name="program_flags")
def _program_flags(monkeypatch):
  """Replaces absl's FLAGS by the flags of Program."""
  values = flags.FlagValues()
  settings.define(Program, values)
  monkeypatch.setattr(flags, "FLAGS", values)


@pytest.mark.parametrize(
  ("argument", "message"),
  [
    ("--number=x", "flag --number=x: expected an integer"),
    ("--rate=x", "flag --rate=x: expected a number"),
    ("--do_train=x", "flag --do_train=x: expected true or false"),
    ("--rate=1", "missing: --text"),
    ("--bert_confg=x", "Unknown command line flag 'bert_confg'"),
    ("--numbr=1", "Unknown command line flag 'numbr'. Did you mean: number ?"),
    # Web pages may show a hyphen as an en dash.
    ("–text=x", "missing: --text; '–text=x' begins with another dash than '-'"),
  ],
)
def test_an_error_says_what_a_flag_takes_or_which_flag_is_missing(
  program_flags, capsys, argument, message
):
  with pytest.raises(SystemExit, match="1"):
    program._parse(Program, ["program", argument])
  line = f"ERROR: {message} (--help lists all flags)\n"
  assert capsys.readouterr().err == line


def test_a_flag_that_a_command_repeats_is_reported(
  program_flags, tmp_path, caplog
):
  (tmp_path / "x.flags").write_text("--number=3\n")
  given = ["--text=a", f"--flagfile={tmp_path}/x.flags", "--number=4"]
  program._parse(Program, ["program", *given])
  assert not caplog.text
  program._parse(Program, ["program", *given, "--text", "b"])
  assert "--text is there 2 times, and only the last one counts" in caplog.text
  assert len(caplog.messages) == 1


def test_a_flagfile_may_begin_with_a_byte_order_mark(program_flags, tmp_path):
  path = tmp_path / "x.flags"
  path.write_text("\ufeff--text=a\r\n--number=3\r\n", encoding="utf-8")
  assert program._parse(Program, ["program", f"--flagfile={path}"]) == [
    "program"
  ]
  assert (flags.FLAGS.text, flags.FLAGS.number) == ("a", 3)


HELP = """Does it.

Most commands:
  --text  (required)
      A text.
  --[no]do_train  (default false)
      Train. Train. Train. Train. Train. Train. Train. Train. Train. Train.
      Train. Train.

Others:
  --layers
      Layers.
  --number  (default 5)
      A number.
  --rate  (default 0.5)
      A rate.
  --rates  (default 1.0)
      Rates.

Devices, processes and precision:
  --dtype  (default a)
      a, b: A type.

--flagfile=FILE reads flags from a file, one per line.
--version prints versions of this project and its packages."""


@pytest.mark.parametrize("argument", ["--help", "-help", "--helpshort", "-h"])
def test_help_groups_flags_and_shows_defaults(
  program_flags, monkeypatch, capsys, argument
):
  monkeypatch.setattr(program.signal, "signal", lambda *_: None)
  monkeypatch.setattr(sys.modules["__main__"], "__doc__", "Does it.\n")
  with pytest.raises(SystemExit, match="0"):
    program._parse(Program, ["program", argument])
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
  assert done.returncode == 0


# --- start_up.py silences TensorFlow and hides libraries that nobody needs ---


def test_tensorflow_is_silent_unless_the_user_sets_a_log_level(monkeypatch):
  monkeypatch.delenv("TF_CPP_MIN_LOG_LEVEL")
  start_up.silence_tensorflow()
  assert os.environ["TF_CPP_MIN_LOG_LEVEL"] == "3"
  assert tf.get_logger().getEffectiveLevel() == logging.WARNING
  monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "0")
  start_up.silence_tensorflow()
  assert os.environ["TF_CPP_MIN_LOG_LEVEL"] == "0"


def test_tensorflow_has_the_function_that_silences_xla():
  loaded = ctypes.CDLL(None)
  names = start_up._SET_MIN_LOG_LEVEL
  assert [name for name in names if hasattr(loaded, name)]


def test_unused_libraries_are_hidden_from_keras_and_tensorflow(monkeypatch):
  monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
  monkeypatch.setattr(start_up, "_UNUSED", ("colorsys",))
  monkeypatch.delitem(sys.modules, "colorsys", raising=False)
  start_up.start_sooner()
  for importer in ("keras.src.any", "tensorflow.python.any"):
    message = f"colorsys is hidden from {importer}"
    with pytest.raises(ImportError, match=message):
      exec("import colorsys", {"__name__": importer})
    exec("import colorsys", {"__name__": "kerasana"})  # no module of Keras
    assert sys.modules.pop("colorsys")
