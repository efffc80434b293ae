"""Locks of output folders; users' mistakes are one line, defects tracebacks."""

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import absl
import pytest
from absl import flags

from cli import arguments, program, training_program
from cli.arguments import Arguments
from tests import programs
from tests.training import toy


def _obey_interrupts():
  """A command that was started in the background would ignore them."""
  signal.signal(signal.SIGINT, signal.SIG_DFL)


def _run(body, **environment):
  script = f"""
from cli import program
def main(_):
  {body}
program.run(main)"""
  env = {"PATH": "/usr/bin"} | environment
  return programs.python(["-c", script], env=env)


def test_our_own_errors_are_one_line_without_a_traceback_unless_requested():
  body = "from storage import files; files.expand('none*')"
  done = _run(body)
  message = "ERROR: no file matches none*"
  programs.check_error(done.returncode, done.stderr, message)
  assert "Traceback" in _run(body, BERT_TRACEBACK="1").stderr


@pytest.mark.parametrize(
  "body",
  [
    "int('x')",
    "raise ValueError('of an internal check')",
    "from data import features; features.pad([1, 2], 1)",
    "import os; os.write(-1, b'')",  # an OSError of no path
  ],
)
def test_defects_keep_their_traceback(body):
  done = _run(body)
  assert done.returncode == 1
  assert "Traceback" in done.stderr


def test_an_error_of_a_path_is_of_the_user():
  with pytest.raises(NotADirectoryError) as caught:
    os.makedirs("/dev/null/folder")
  assert program.is_user_error(caught.value)


@pytest.mark.parametrize(
  ("argument", "message"),
  [
    ("--folder=", "--folder is empty: is a variable of the shell unset?"),
    ("--rate=nan", "--rate=nan: give a finite number"),
    ("--rate=-inf", "--rate=-inf: give a finite number"),
    ("--rates=1,nan", "--rates=(1.0, nan): give a finite number"),
    ("--layers=", None),
    ("--folder=x", None),
  ],
)
def test_values_that_no_flag_has(argument, message):
  values = flags.FlagValues()
  flags.DEFINE_string("folder", None, "", flag_values=values, required=True)
  flags.DEFINE_string("layers", None, "", flag_values=values)
  flags.DEFINE_float("rate", 1.0, "", flag_values=values)
  numbers = arguments.Numbers(float, 0)
  flags.DEFINE(numbers, "rates", 1.0, "", flag_values=values)
  values(["program", "--folder=x", argument])
  if message is None:
    assert Arguments.from_flags(values).rate == 1.0
    return
  with pytest.raises(ValueError) as caught:
    Arguments.from_flags(values)
  assert str(caught.value) == message


@pytest.fixture(name="own_flags")
def _own_flags(monkeypatch):
  """One flag of each type, in place of those of the programs."""
  values = flags.FlagValues()
  flags.DEFINE_string("text", None, "A text.", values, required=True)
  flags.DEFINE_integer("number", 5, "A number.", flag_values=values)
  flags.DEFINE_float("rate", 0.5, "A rate.", flag_values=values)
  flags.DEFINE_bool("do_train", False, "Train. " * 12, flag_values=values)
  flags.DEFINE_enum("dtype", "a", ["a", "b"], "A type.", flag_values=values)
  monkeypatch.setattr(flags, "FLAGS", values)
  return values


@pytest.mark.parametrize(
  ("argument", "message"),
  [
    ("--number=x", "flag --number=x: expected an integer"),
    ("--rate=x", "flag --rate=x: expected a number"),
    ("--do_train=x", "flag --do_train=x: expected true or false"),
    ("--rate=1", "missing: --text"),
  ],
)
def test_a_wrong_flag_has_a_remedy(own_flags, capsys, argument, message):
  with pytest.raises(SystemExit, match="1"):
    program._parse(["program", argument])
  line = f"ERROR: {message} (--help lists all flags)\n"
  assert capsys.readouterr().err == line


HELP = """Does it.

Most commands:
  --text  (required)
      A text.
  --[no]do_train  (default false)
      Train. Train. Train. Train. Train. Train. Train. Train. Train. Train.
      Train. Train.

Others:
  --number  (default 5)
      A number.
  --rate  (default 0.5)
      A rate.

Devices, processes and precision:
  --dtype  (default a)
      a, b: A type.

--flagfile=FILE reads flags from a file, one per line.
--version prints versions of this project and its packages."""


@pytest.mark.parametrize("argument", ["--help", "-help", "--helpshort", "-h"])
def test_help_has_types_and_defaults(own_flags, monkeypatch, capsys, argument):
  monkeypatch.setattr(program.signal, "signal", lambda *_: None)
  monkeypatch.setattr(sys.modules["__main__"], "__doc__", "Does it.\n")
  with pytest.raises(SystemExit, match="0"):
    program._parse(["program", argument])
  assert capsys.readouterr().out == f"{HELP}\n"


def test_a_path_may_begin_at_home(monkeypatch):
  monkeypatch.setenv("HOME", "/ann")
  values = flags.FlagValues()
  flags.DEFINE_string("folder", None, "", flag_values=values)
  flags.DEFINE_multi_string("model", None, "", flag_values=values)
  flags.DEFINE_string("text", None, "", flag_values=values)
  given = ["--folder=~/a,b~/c,~/d*", "--model=~/e", "--model=f", "--text=~/g"]
  values(["program", *given])
  args = Arguments.from_flags(values)
  assert args.folder == "/ann/a,b~/c,/ann/d*"
  assert args.model == ["/ann/e", "f"]
  assert args.text == "~/g"


def test_flags_of_packages_in_the_checkout_are_left_out(monkeypatch):
  own = {flag.name for flag in arguments.find_project_flags(flags.FLAGS)}
  root = Path(absl.__file__).resolve().parents[3]
  monkeypatch.setattr(arguments, "_ROOT", root)
  names = {flag.name for flag in arguments.find_project_flags(flags.FLAGS)}
  assert "verbosity" in flags.FLAGS
  assert "verbosity" not in own | names


@pytest.mark.parametrize(
  ("argument", "remedy"), [("a.txt", "quote"), ("True", "a flag takes it with")]
)
def test_a_word_that_is_no_flag_is_named(argument, remedy):
  script = "from cli import program; program.run(print)"
  done = programs.python(["-c", script, argument])
  message = f"argument {argument!r}: {remedy}"
  programs.check_error(done.returncode, done.stderr, message)


def test_log_lines_have_the_time_and_the_text():
  done = _run("from absl import logging; logging.info('three %d', 3)")
  assert done.stderr.strip()[8:] == " three 3"
  assert done.returncode == 0


HOLD = """
import sys, time
from cli import training_program

training_program.lock_folder(sys.argv[1])
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
        training_program.lock_folder(str(tmp_path))
    assert unfinished.exists()
    first.kill()  # as by kill -9, which also unlocks
  training_program.lock_folder(str(tmp_path))
  assert not unfinished.exists()
  lock = (tmp_path / training_program.LOCK_FILE).read_text()
  assert lock == f"{os.getpid()}\n"


PROGRAM = """
import os
from absl import flags
from cli import training_program

flags.DEFINE_string("output_dir", None, "")
flags.DEFINE_bool("dry_run", False, "")
flags.DEFINE_bool("do_train", True, "")

def main(args):
  with open(f"{args.output_dir}/{training_program.LOCK_FILE}") as file:
    print([os.getpid(), int(file.read())])

training_program.run(main, lambda args: None)
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
  assert not (folder / training_program.LOCK_FILE).exists()


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


def test_a_folder_that_takes_no_file_is_named_with_its_flag(tmp_path):
  program.check_writable(str(tmp_path / "new" / "file"), "output_file")
  comm = "/proc/self/comm"  # a file that is writable
  for path, flag, error in (
    ("/proc/x/y", "output_dir", "/proc/x/y: /proc"),
    (comm, "output_file", f"{comm}:"),
  ):
    with pytest.raises(PermissionError, match=f"--{flag}={error}"):
      program.check_writable(path, flag)


def test_without_locks_there_is_a_warning(tmp_path, monkeypatch, caplog):
  def refuse(*_):
    raise OSError(errno.ENOLCK, "No locks available")

  monkeypatch.chdir(tmp_path)
  training_program.lock_folder("gs://bucket/folder")  # is not locked
  assert not any(tmp_path.iterdir())
  monkeypatch.setattr(training_program.fcntl, "flock", refuse)
  training_program.lock_folder(str(tmp_path))
  assert f"{tmp_path} cannot be locked (No locks available)" in caplog.text


def test_outputs_are_regular_files_and_folders(tmp_path):
  args = Arguments(output_file=str(tmp_path), overwrite=True)
  pipe = str(tmp_path / "pipe")
  os.mkfifo(pipe)
  for check, value in (
    (program.check_output_file, args),
    (program.check_output_file, args.replace(output_file=pipe)),
    (program.check_writable_file, str(tmp_path)),
  ):
    with pytest.raises(OSError, match="is no regular file: name another"):
      check(value)
  (tmp_path / "afile").touch()
  with pytest.raises(NotADirectoryError, match="afile is a file: name a fold"):
    training_program.lock_folder(str(tmp_path / "afile"))


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
  training_program.lock_folder(str(tmp_path))
  assert (tmp_path / incomplete[2]).exists()  # another worker may be writing it
  monkeypatch.delenv("TF_CONFIG")
  training_program._remove_incomplete(str(tmp_path))
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
