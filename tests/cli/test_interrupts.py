"""If you interrupt a program by Ctrl-C at any moment, it prints one line."""

import signal

import pytest

from tests import programs


def _obey_interrupts():
  """Makes a child obey Ctrl-C, even if the tests run in the background."""
  signal.signal(signal.SIGINT, signal.SIG_DFL)


INTERRUPTED = """
import cli.start_up
import os, signal, sys

def interrupt():
  os.kill(os.getpid(), signal.SIGINT)

def main(args):
  try:
    interrupt()
  finally:
    if sys.argv[0] == "twice":
      interrupt()
    print("cleaned up", flush=True)

from cli import program, settings
program.run(settings.Settings, lambda _: None, main)
"""


@pytest.mark.parametrize("moment", ["once", "twice"])
def test_an_interrupt_prints_one_line(moment):
  script = f"import sys; sys.argv = [{moment!r}]\n{INTERRUPTED}"
  done = programs.python(["-c", script], preexec_fn=_obey_interrupts)
  assert (done.returncode, done.stderr) == (130, "ERROR: interrupted\n")
  # The second interrupt stops the `finally`.
  assert ("cleaned up" in done.stdout) == (moment == "once")


IN_BACKGROUND = """
import signal, sys
before = signal.getsignal(signal.SIGINT)
sys.modules.update(dict.fromkeys(sys.argv[1:]))
import cli.start_up
with cli.start_up.clean_up():
  assert signal.getsignal(signal.SIGINT) is before
assert signal.getsignal(signal.SIGINT) is before
"""


@pytest.mark.parametrize(
  ("handler", "modules"),
  [
    (signal.SIG_IGN, []),  # a shell starts background processes like this
    (signal.SIG_DFL, ["__mp_main__"]),  # workers of multiprocessing import it
  ],
)
def test_background_and_worker_processes_keep_their_handler(handler, modules):
  done = programs.python(
    ["-c", IN_BACKGROUND, *modules],
    preexec_fn=lambda: signal.signal(signal.SIGINT, handler),
  )
  assert (done.returncode, done.stderr) == (0, "")


TERMINATED = """
import os, signal
from split_sentences import SplitSettings
from cli import program
from storage import files

def main(args):
  with files.open_for_writing(args.output_file):
    os.kill(os.getpid(), signal.SIGTERM)

program.run(SplitSettings, lambda _: None, main, writes_files=True)
"""


def test_a_terminated_program_leaves_no_file(tmp_path):
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
  ("name", "module"), [("run_squad", "absl"), ("predictor", "tasks.open")]
)
def test_an_interrupt_during_an_import_prints_one_line(name, module):
  argv = [f"{name}.py", module]
  done = programs.python(
    ["-c", f"import sys; sys.argv = {argv}\n{IMPORTING}"],
    preexec_fn=_obey_interrupts,
  )
  assert (done.returncode, done.stderr) == (130, "ERROR: interrupted\n")
