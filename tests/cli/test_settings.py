"""Settings: dataclasses that declare flags, and checks of files and folders."""

import os
from dataclasses import dataclass

import pytest
from absl import flags

from cli import settings
from cli.settings import Settings, flag
from tests import programs


@dataclass(frozen=True, kw_only=True)
class Base(Settings):
  """A group of flags that two programs share."""

  rate: float = flag(0.5, "A rate.", minimum=0.0, swept=True)
  name: str | None = flag(None, "A name.")


@dataclass(frozen=True, kw_only=True)
class Program(Base):
  """A program with flags of each type."""

  folder: str = flag(None, "A folder.", required=True)
  name: str = flag("Bert", "Its own default.")
  number: int = flag(5, "A number.", maximum=9)
  files: tuple[str, ...] = flag(("a", "b"), "Files.")
  texts: tuple[str, ...] | None = flag(None, "T.", repeated=True, text=True)
  steps: tuple[int, ...] | None = flag(None, "Steps.")
  do_train: bool = flag(False, "Train.", training=False)


def _parse(*arguments):
  values = flags.FlagValues()
  settings.define(Program, values)
  values(["/bin/run_it.py", *arguments])
  return settings.from_flags(Program, values, ["/bin/run_it.py", *arguments])


def test_a_programs_flags_are_listed_first_and_override_flags_of_its_groups():
  known = settings.flags_of(Program)
  first = ["folder", "name", "number", "files", "texts", "steps", "do_train"]
  assert [*known] == [*first, "rate"]
  assert (known["name"].default, known["name"].kind) == ("Bert", str)
  assert settings.flags_of(Base)["name"].default is None
  assert (known["steps"].kind, known["steps"].parts) == (tuple, int)


def test_flags_that_are_not_given_have_their_defaults():
  values = _parse("--folder=x")
  assert values.to_dict() == {
    "folder": "x",
    "name": "Bert",
    "number": 5,
    "files": ("a", "b"),
    "texts": None,
    "steps": None,
    "do_train": False,
    "rate": 0.5,
  }
  assert values.program == "run_it"
  assert values.command == ("/bin/run_it.py", "--folder=x")


@pytest.mark.parametrize(
  ("argument", "name", "expected"),
  [
    ("--files=c,d", "files", ("c", "d")),
    ("--files=", "files", ()),
    ("--texts=c,d", "texts", ("c,d",)),
    ("--steps=1,2", "steps", (1, 2)),
    ("--steps=1", "steps", (1,)),
    ("--do_train", "do_train", True),
    ("--rate=3e-5", "rate", 3e-5),
    ("--number=0", "number", 0),
  ],
)
def test_a_flag_has_the_type_of_its_field(argument, name, expected):
  values = _parse("--folder=x", argument)
  assert (values[name], values.several) == (expected, {})
  assert values.given == {"folder", name}


def test_a_swept_flag_keeps_all_its_values():
  values = _parse("--folder=x", "--rate=0.5,0.25")
  assert (values.rate, values.several) == (0.5, {"rate": (0.5, 0.25)})


def test_a_tilde_is_expanded_in_paths_but_not_in_texts(monkeypatch):
  monkeypatch.setenv("HOME", "/users/ann")
  values = _parse("--folder=~/x, ~/y", "--files=a,~/b", "--texts=~/c")
  assert values.folder == "/users/ann/x, /users/ann/y"
  assert [*values.files, *values.texts] == ["a", "/users/ann/b", "~/c"]


@pytest.mark.parametrize(
  ("argument", "message"),
  [
    ("--number=10", "10 is not integer <= 9"),
    ("--rate=0.5,-1", "-1 is no finite number >= 0"),
    ("--rate=0.5,nan", "nan is no finite"),
    ("--rate=0.5,x", "could not convert"),
  ],
)
def test_values_out_of_range_or_of_a_wrong_type_are_refused(argument, message):
  with pytest.raises(flags.IllegalFlagValueError, match=message):
    _parse("--folder=x", argument)


# --- Files that flags name ---------------------------------------------------


def test_input_files_must_exist_and_output_files_must_be_new(tmp_path):
  path, output = str(tmp_path / "in"), tmp_path / "out"
  (tmp_path / "in").touch()
  files = {"train_file": path, "dev_file": "gone"}
  args = programs.arguments("run_ner", **files)
  for name, message in (
    ("dev_file", "--dev_file: cannot read gone: No such file"),
    ("test_file", "this command needs --test_file"),
  ):
    with pytest.raises((ValueError, OSError), match=message):
      args.check_files("train_file", name)
  with pytest.raises(IsADirectoryError, match=r"cannot read .*: Is a dir"):
    args.replace(dev_file=str(tmp_path)).check_file("dev_file")
  settings.check_output_file(str(output), False, path)
  (tmp_path / "link").symlink_to(output)
  names = [str(output), f"{tmp_path}/link"]
  for name, other in (names, names[::-1]):
    with pytest.raises(ValueError, match="is an input, too"):
      settings.check_output_file(name, True, path, other)
  output.touch()
  with pytest.raises(FileExistsError, match=r"out exists already; remove it"):
    settings.check_output_file(str(output), False, path)
  settings.check_output_file(str(output), True, path)
  with pytest.raises(PermissionError, match=r"output_file=.*in cannot be writ"):
    settings.check_output_file(f"{path}/new", False)
  for name in (str(tmp_path), os.devnull):
    with pytest.raises(OSError, match="is not a regular file: name another"):
      settings.check_output_file(name, True)
