"""Output folder locks, and the leftovers of killed runs."""

import errno
import json
import os
import subprocess
import sys

import pytest

from runs import lock
from tests import programs
from tests.training import toy

HOLD = """
import sys, time
from runs import lock

lock.lock_folder(sys.argv[1])
print("held", flush=True)
time.sleep(60)
"""


def test_a_second_run_is_refused_until_the_first_ends(tmp_path):
  command = [sys.executable, "-c", HOLD, str(tmp_path)]
  with subprocess.Popen(
    command, stdout=subprocess.PIPE, text=True, cwd=programs.ROOT
  ) as first:
    assert first.stdout.readline() == "held\n"
    unfinished = tmp_path / "unfinished-model.ckpt-5.index"
    unfinished.touch()  # the first run is writing
    for _ in range(2):
      with pytest.raises(ValueError, match=f"another run, process {first.pid}"):
        lock.lock_folder(str(tmp_path))
    assert unfinished.exists()
    first.kill()  # kill -9 also unlocks
  lock.lock_folder(str(tmp_path))
  assert not unfinished.exists()
  text = (tmp_path / lock.LOCK_FILE).read_text()
  assert text == f"{os.getpid()}\n"


PROGRAM = """
import os
from dataclasses import dataclass
from cli.settings import Settings, flag
from runs import lock, training_program

@dataclass(frozen=True, kw_only=True)
class Program(Settings):
  output_dir: str = flag(None, "", required=True)
  dry_run: bool = flag(False, "")
  do_train: bool = flag(True, "", training=False)
  stages = ("do_train",)

def main(args):
  with open(f"{args.output_dir}/{lock.LOCK_FILE}") as file:
    print([os.getpid(), int(file.read())])

training_program.run(Program, lambda args: None, main)
"""


def _lock(folder, script=PROGRAM, **environment):
  """Runs a program on the folder; prints the process ids of both."""
  path = folder.with_name("program.py")
  path.write_text(script)
  environment["PYTHONPATH"] = str(programs.ROOT)
  return programs.python([path, f"--output_dir={folder}"], env=environment)


def test_a_program_locks_its_output_dir(tmp_path):
  own, locked = json.loads(_lock(tmp_path / "output").stdout)
  assert own == locked


def test_the_chief_of_several_workers_locks(tmp_path, monkeypatch):
  toy.set_worker(monkeypatch, 1)
  folder = tmp_path / "output"
  folder.mkdir()
  done = _lock(folder, TF_CONFIG=os.environ["TF_CONFIG"])
  assert "No such file or directory" in done.stderr
  assert not (folder / lock.LOCK_FILE).exists()


@pytest.mark.parametrize("before", [None, [], ["a"]])
def test_a_run_that_is_refused_leaves_what_was_there(tmp_path, before):
  folder = tmp_path / "output"
  if before is not None:
    folder.mkdir()
  for name in before or ():
    (folder / name).touch()
  done = _lock(folder, PROGRAM.replace("{lock.LOCK_FILE}", "gone"))
  assert "No such file or directory" in done.stderr
  assert folder.exists() == (before is not None)
  assert [path.name for path in folder.glob("*")] == (before or [])


def test_a_file_system_without_locks_causes_a_warning(
  tmp_path, monkeypatch, caplog
):
  def refuse(*_):
    raise OSError(errno.ENOLCK, "No locks available")

  monkeypatch.chdir(tmp_path)
  lock.lock_folder("gs://bucket/folder")  # has no lock
  assert not any(tmp_path.iterdir())
  monkeypatch.setattr(lock.fcntl, "flock", refuse)
  lock.lock_folder(str(tmp_path))
  assert f"{tmp_path} cannot be locked (No locks available)" in caplog.text


def test_incomplete_files_of_a_killed_run_are_removed(tmp_path, monkeypatch):
  (tmp_path / "best").mkdir()
  (tmp_path / "export.unfinished").mkdir()  # serving/export.py removes this
  with subprocess.Popen(["true"]) as ended:
    pass
  incomplete = [
    "unfinished-model.ckpt-5.data-00000-of-00001.tempstate12",
    f"metrics.jsonl.partial-{os.getpid()}-0a1b2c3d",  # a container reuses ids
    f"train.tf_record.partial-{ended.pid}-0a1b2c3d",
    "best/unfinished-model.ckpt-5.index",
  ]
  complete = ["model.ckpt-5.index", "unfinished.txt", "export.unfinished"]
  complete.append(f"a.json.partial-{os.getppid()}-0a1b2c3d")
  for name in incomplete + complete:
    (tmp_path / name).touch()
  toy.set_worker(monkeypatch, 0)
  lock.lock_folder(str(tmp_path))
  assert (tmp_path / incomplete[2]).exists()  # another worker may be writing
  monkeypatch.delenv("TF_CONFIG")
  lock._remove_incomplete(str(tmp_path))
  assert not [name for name in incomplete if (tmp_path / name).exists()]
  assert all((tmp_path / name).exists() for name in complete)


def test_a_file_is_no_output_folder(tmp_path):
  (tmp_path / "afile").touch()
  with pytest.raises(NotADirectoryError, match="afile is a file: name a fold"):
    lock.lock_folder(str(tmp_path / "afile"))
