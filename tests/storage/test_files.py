import errno
import os
from functools import partial
from pathlib import Path

import pytest
import tensorflow as tf

from cli import program
from storage import UserError, files, textfiles


def _touch(folder, *names):
  for name in names:
    (folder / name).write_text("x")


def test_files_are_sorted_within_each_pattern(tmp_path):
  _touch(tmp_path, "b.txt", "a.txt", "z.md", "a.txt.partial-0a1b2c3d")
  result = files.expand(f" {tmp_path}/z.md , {tmp_path}/*.txt*,")
  assert result == [f"{tmp_path}/{name}" for name in ("z.md", "a.txt", "b.txt")]
  # A file that matches several patterns is listed several times.
  a, b = f"{tmp_path}/a.txt", f"{tmp_path}/b.txt"
  assert files.expand(f",{b},{a}, {tmp_path}/[ab].txt,{b} ,") == [b, a, a, b, b]


def test_the_name_of_a_file_may_contain_the_characters_of_patterns(tmp_path):
  _touch(tmp_path, "a[1].txt")
  assert files.expand(f"{tmp_path}/a[1].txt") == [f"{tmp_path}/a[1].txt"]


def test_writing_to_a_link_changes_the_file_behind_the_link(tmp_path):
  _touch(tmp_path, "z.md")
  (tmp_path / "link").symlink_to("z.md")
  files.write_text(f"{tmp_path}/link", "new")
  assert (tmp_path / "link").is_symlink()
  assert (tmp_path / "z.md").read_text() == "new"


def test_hidden_files_match_only_patterns_that_begin_with_a_dot(tmp_path):
  (tmp_path / "new").mkdir()
  _touch(tmp_path, "a", ".a.blocks", "new/b", "new/.b.blocks")
  assert files.glob_files(f"{tmp_path}/a*") == [f"{tmp_path}/a"]
  assert files.glob_files(f"{tmp_path}/.*s") == [f"{tmp_path}/.a.blocks"]
  assert files.glob_files(f"{tmp_path}/*/*") == [f"{tmp_path}/new/b"]


def test_two_stars_stand_for_any_folders(tmp_path):
  (tmp_path / "b/c").mkdir(parents=True)
  _touch(tmp_path, "a", "b/a", "b/c/a")
  expected = [str(tmp_path / name) for name in ("a", "b/a", "b/c/a")]
  for pattern in ("**", "**/*", "**/a"):  # no folder is listed
    assert files.glob_files(f"{tmp_path}/{pattern}") == expected
  with pytest.raises(UserError, match=r"gs://a/\*\*/b: write a \* for each"):
    files.glob_files("gs://a/**/b")


def test_an_error_names_all_patterns_without_a_match(tmp_path):
  _touch(tmp_path, "a.txt")
  with pytest.raises(FileNotFoundError, match=r"no\*\.txt, .*nor\.txt;"):
    files.expand(f"{tmp_path}/a.txt,{tmp_path}/no*.txt,{tmp_path}/nor.txt")
  with pytest.raises(FileNotFoundError, match="no file matches"):
    files.expand(" , ")


def test_a_file_appears_only_when_it_is_complete(tmp_path, monkeypatch):
  path = tmp_path / "new" / "file"
  rename, seen = files.rename, []

  def see(source, name):
    seen.append(Path(source).read_bytes())  # closed before the rename
    rename(source, name)

  monkeypatch.setattr(files, "rename", see)
  with files.open_for_writing(str(path)) as file:
    file.write(b"abc")
    assert not path.exists()
  assert seen == [path.read_bytes()] == [b"abc"]
  assert os.listdir(path.parent) == ["file"]


def test_a_failed_write_keeps_the_old_file_and_leaves_no_new_one(tmp_path):
  path = tmp_path / "file"
  path.write_bytes(b"old")
  with pytest.raises(KeyError), files.open_for_writing(str(path)) as file:
    file.write(b"new")
    raise KeyError
  assert path.read_bytes() == b"old"
  assert os.listdir(tmp_path) == ["file"]


def test_an_error_names_the_path_that_caused_it(tmp_path):
  path = str(tmp_path / "out")
  with (
    pytest.raises(IsADirectoryError, match=f"^cannot read {tmp_path}: Is a"),
    files.open_for_writing(path),
  ):
    files.open_for_reading(str(tmp_path))
  with pytest.raises(OSError) as raised, files.open_for_writing(path):
    raise OSError(errno.ENOSPC, "No space left on device")
  assert raised.value.filename == path
  with pytest.raises(OSError, match="No space left on device: '/dev/full'"):
    files.append_text("/dev/full", "a")


def test_paths_with_a_scheme_go_through_gfile():
  folder = "ram://test_files"
  path, other = f"{folder}/a.txt", f"{folder}/a[1].txt"
  files.write_text(path, "a\r\nb\n")
  assert files.exists(path)
  assert files.size(path) == 5
  assert files.expand(f"{folder}/*.txt") == [path]
  assert list(textfiles.lines(path)) == ["a", "b"]
  assert list(textfiles.lines(path, 3)) == ["b"]  # from byte 3 on
  files.write_text(other, "c\n")
  assert files.expand(other) == [other]
  files.remove(other)
  files.check_writable(f"{folder}/out", "output_file")
  assert files.list_folder(folder) == ["a.txt"]
  files.append_text(path, "c\n")
  files.make_folder(f"{folder}/b")
  files.copy(path, f"{folder}/b/a.txt")
  assert files.read_text(f"{folder}/b/a.txt") == "a\r\nb\nc\n"


def test_a_missing_remote_file_raises_the_error_of_a_local_file():
  path = "ram://test_files/no.txt"  # TensorFlow's error has an empty message
  with pytest.raises(FileNotFoundError, match=f"^{path}: NotFoundError$"):
    files.size(path)
  with pytest.raises(FileNotFoundError, match=f"^{path}: Not"):
    list(textfiles.lines(path))


def test_a_scheme_that_tensorflow_does_not_know_is_reported():
  with pytest.raises(OSError, match=r"'hf' not impl.*; convert_checkp"):
    files.size("hf://acme/bert")
  expected = "s3://bucket/a.*: .* scheme 's3' not implemented"
  check = partial(files.check_writable, flag="output_file")
  for call in (files.exists, check, files.open_for_reading):
    with pytest.raises(OSError, match=expected):
      call("s3://bucket/a")


def test_an_error_names_the_setting_of_a_read_only_folder(tmp_path):
  files.check_writable(str(tmp_path / "new" / "file"), "output_file")
  comm = "/proc/self/comm"  # a writable file in a read-only folder
  for path, name, error in (
    ("/proc/x/y", "output_dir", "/proc/x/y: /proc"),
    (comm, "output_file", f"{comm}:"),
  ):
    with pytest.raises(PermissionError, match=f"{name}={error}"):
      files.check_writable(path, name)


def test_check_is_free_accepts_only_a_missing_or_empty_folder(tmp_path):
  (tmp_path / "empty").mkdir()
  (tmp_path / "file").touch()
  files.check_is_free(str(tmp_path / "none"))
  files.check_is_free(str(tmp_path / "empty"))
  for path in (tmp_path, tmp_path / "file"):  # an empty file is not free
    message = f"{path} is there already: name another export_dir, or"
    with pytest.raises(FileExistsError, match=message):
      files.check_is_free(str(path))


def _fail(*_, **__):
  raise tf.errors.UnavailableError(None, None, "503 backend error\n[trace]")


@pytest.mark.parametrize(
  ("owner", "name", "call"),
  [
    (tf.io.gfile, "rename", lambda path: files.rename(path, "ram://b")),
    (tf.io.gfile.GFile, "write", lambda path: files.append_text(path, "a")),
    (tf.io.gfile.GFile, "close", lambda path: files.write_text(path, "a")),
  ],
)
def test_an_error_of_a_remote_store_is_one_line_with_the_path(
  monkeypatch, owner, name, call
):
  path = "ram://test_errors/a.txt"
  monkeypatch.setattr(owner, name, _fail)
  with pytest.raises(OSError, match=f"{path}.*: 503 backend error$") as raised:
    call(path)
  assert program.message_of(raised.value)


def test_a_fingerprint_depends_on_the_size_start_and_end_of_a_file(tmp_path):
  def fingerprint(size, changed=None):
    content = bytearray(size)
    if changed is not None:
      content[changed] = 1
    (tmp_path / "a").write_bytes(content)
    return files.fingerprint(str(tmp_path / "a"))

  assert fingerprint(10).startswith("10 bytes")
  for size in (10, 2**20, 2**20 + 3, 5_000_000):
    results = [fingerprint(size, index) for index in (None, 0, -1)]
    assert len(set(results)) == 3
  assert fingerprint(5_000_000, 2_500_000) == results[0]
  assert fingerprint(5_000_000, -(2**20)) != results[0]
