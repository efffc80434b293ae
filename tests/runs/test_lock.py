"""Locks of output folders, and what killed runs leave there."""

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
    unfinished.touch()  # the first is writing it
    for _ in range(2):
      with pytest.raises(ValueError, match=f"another run, process {first.pid}"):
        lock.lock_folder(str(tmp_path))
    assert unfinished.exists()
    first.kill()  # as by kill -9, which also unlocks
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
  """Runs a program with that output_dir; it prints its id and the lock's."""
  path = folder.with_name("program.py")
  path.write_text(script)
  environment["PYTHONPATH"] = str(programs.ROOT)
  return programs.python([path, f"--output_dir={folder}"], env=environment)


def test_a_program_locks_its_output_dir(tmp_path):
  own, locked = json.loads(_lock(tmp_path / "output").stdout)
  assert own == locked


def test_of_several_workers_the_chief_locks(tmp_path, monkeypatch):
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
  done = _lock(folder, PROGRAM.replace(".LOCK_FILE", ".run"))
  assert "No such file or directory" in done.stderr
  assert folder.exists() == (before is not None)
  assert [path.name for path in folder.glob("*")] == (before or [])


def test_without_locks_there_is_a_warning(tmp_path, monkeypatch, caplog):
  def refuse(*_):
    raise OSError(errno.ENOLCK, "No locks available")

  monkeypatch.chdir(tmp_path)
  lock.lock_folder("gs://bucket/folder")  # is not locked
  assert not any(tmp_path.iterdir())
  monkeypatch.setattr(lock.fcntl, "flock", refuse)
  lock.lock_folder(str(tmp_path))
  assert f"{tmp_path} cannot be locked (No locks available)" in caplog.text


def test_incomplete_files_of_a_killed_run_are_removed(tmp_path, monkeypatch):
  (tmp_path / "best").mkdir()
  (tmp_path / "export.unfinished").mkdir()  # serving/export.py removes it
  with subprocess.Popen(["true"]) as ended:
    pass
  incomplete = [
    "unfinished-model.ckpt-5.data-00000-of-00001.tempstate12",
    f"metrics.jsonl.partial-{os.getpid()}-0a1b2c3d",  # as in a container
    f"train.tf_record.partial-{ended.pid}-0a1b2c3d",
    "best/unfinished-model.ckpt-5.index",
  ]
  complete = ["model.ckpt-5.index", "unfinished.txt", "export.unfinished"]
  complete.append(f"a.json.partial-{os.getppid()}-0a1b2c3d")
  for name in incomplete + complete:
    (tmp_path / name).touch()
  toy.set_worker(monkeypatch, 0)
  lock.lock_folder(str(tmp_path))
  assert (tmp_path / incomplete[2]).exists()  # another worker may be writing it
  monkeypatch.delenv("TF_CONFIG")
  lock._remove_incomplete(str(tmp_path))
  assert not [name for name in incomplete if (tmp_path / name).exists()]
  assert all((tmp_path / name).exists() for name in complete)


INTERRUPTED = """
import cli.interrupts
import os, signal, sys

def interrupt():
  os.kill(os.getpid(), signal.SIGINT)

def main(args):
  if sys.argv[0] == "importing":
    try:
      interrupt()
    except KeyboardInterrupt:
      raise ImportError("of a module in C")
  try:
    interrupt()
  finally:
    if sys.argv[0] == "twice":
      interrupt()
    print("cleaned up", flush=True)

if sys.argv[0] == "early":
  interrupt()
from cli import program
program.run(main)
"""


@pytest.mark.parametrize("moment", ["early", "in main", "importing", "twice"])
def test_an_interrupt_at_any_moment_is_one_line(moment):
  script = f"import sys; sys.argv = [{moment!r}]\n{INTERRUPTED}"
  done = programs.python(["-c", script], preexec_fn=_obey_interrupts)
  assert (done.returncode, done.stderr) == (130, "ERROR: interrupted\n")
  assert ("cleaned up" in done.stdout) == (moment == "in main")


IN_BACKGROUND = """
import signal, sys
before = signal.getsignal(signal.SIGINT)
sys.modules.update(dict.fromkeys(sys.argv[1:]))
import cli.interrupts
with cli.interrupts.clean_up():
  assert signal.getsignal(signal.SIGINT) is before
assert signal.getsignal(signal.SIGINT) is before
"""


@pytest.mark.parametrize(
  ("handler", "modules"),
  [(signal.SIG_IGN, []), (signal.SIG_DFL, ["__mp_main__"])],
)
def test_in_the_background_interrupts_are_left_alone(handler, modules):
  """Of a command that a shell has started so, or of a worker process."""
  done = programs.python(
    ["-c", IN_BACKGROUND, *modules],
    preexec_fn=lambda: signal.signal(signal.SIGINT, handler),
  )
  assert (done.returncode, done.stderr) == (0, "")


TERMINATED = """
import os, signal
import split_sentences  # defines the flags
from cli import program
from storage import files

def main(args):
  with files.open_for_writing(args.output_file):
    os.kill(os.getpid(), signal.SIGTERM)

program.run(main, writes_files=True)
"""


def test_a_program_that_is_terminated_leaves_no_file(tmp_path):
  flags = ["--input_file=unread", f"--output_file={tmp_path}/out"]
  done = programs.python(["-c", TERMINATED, *flags])
  assert (done.returncode, done.stderr) == (143, "")
  assert not list(tmp_path.iterdir())


IMPORTING = """
import os, runpy, signal, sys

class Finder:
  def find_spec(self, name, *_):
    if name == sys.argv[1]:
      os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Finder())
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.mark.parametrize(
  ("name", "module"),
  [
    ("run_squad", "absl"),
    ("run_squad", "cli.program"),
    ("run_squad", "tasks.squad"),
    ("predictor", "cli.ask"),
  ],
)
def test_a_program_is_interrupted_while_it_imports(name, module):
  argv = [f"{name}.py", module]
  done = programs.python(
    ["-c", f"import sys; sys.argv = {argv}\n{IMPORTING}"],
    preexec_fn=_obey_interrupts,
  )
  assert (done.returncode, done.stderr) == (130, "ERROR: interrupted\n")


def test_a_file_is_no_output_folder(tmp_path):
  (tmp_path / "afile").touch()
  with pytest.raises(NotADirectoryError, match="afile is a file: name a fold"):
    lock.lock_folder(str(tmp_path / "afile"))
