"""Files in flags: inputs exist, outputs are new and writable."""

import os

import pytest

from cli import file_checks
from tests import programs


def test_files_of_flags_are_there_and_outputs_are_new(tmp_path):
  path, output = str(tmp_path / "in"), tmp_path / "out"
  (tmp_path / "in").touch()
  files = {"train_file": path, "dev_file": "gone"}
  args = programs.arguments("run_ner", **files)
  file_checks.check_files(args, "train_file")
  for name, message in (
    ("dev_file", "--dev_file: cannot read gone: No such file"),
    ("test_file", "this command needs --test_file"),
  ):
    with pytest.raises((ValueError, OSError), match=message):
      file_checks.check_files(args, "train_file", name)
  with pytest.raises(IsADirectoryError, match=r"cannot read .*: Is a dir"):
    file_checks.check_file(args.replace(dev_file=str(tmp_path)), "dev_file")
  file_checks.check_output_file(str(output), False, path)
  (tmp_path / "link").symlink_to(output)
  for name in (output, tmp_path / "link", tmp_path / "none" / ".." / "out"):
    with pytest.raises(ValueError, match="is an input, too"):
      file_checks.check_output_file(str(output), False, path, str(name))
    with pytest.raises(ValueError, match="is an input, too"):
      file_checks.check_disjoint([str(output)], path, str(name))
  output.touch()
  with pytest.raises(FileExistsError, match=r"out exists already; remove it"):
    file_checks.check_output_file(str(output), False, path)
  file_checks.check_output_file(str(output), True, path)
  with pytest.raises(FileExistsError, match=r"in, .*out exist already; .*them"):
    file_checks.check_is_new(path, "gone", str(output))
  with pytest.raises(NotADirectoryError, match=r"--output_dir=.*in is no fold"):
    file_checks.check_writable(f"{path}/new", "output_dir")


def test_a_folder_that_takes_no_file_is_named_with_its_flag(tmp_path):
  file_checks.check_writable(str(tmp_path / "new" / "file"), "output_file")
  comm = "/proc/self/comm"  # a writable file
  for path, flag, error in (
    ("/proc/x/y", "output_dir", "/proc/x/y: /proc"),
    (comm, "output_file", f"{comm}:"),
  ):
    with pytest.raises(PermissionError, match=f"--{flag}={error}"):
      file_checks.check_writable(path, flag)


def test_outputs_are_regular_files_and_folders(tmp_path):
  pipe = str(tmp_path / "pipe")
  os.mkfifo(pipe)

  def check_output(path):
    file_checks.check_output_file(path, True)

  for check, value in (
    (check_output, str(tmp_path)),
    (check_output, pipe),
    (file_checks.check_writable_file, str(tmp_path)),
  ):
    with pytest.raises(OSError, match="is no regular file: name another"):
      check(value)
