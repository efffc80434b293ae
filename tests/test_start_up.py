"""Start of programs: --help and mistakes without TensorFlow, in a second."""

import json
import os
import signal
import subprocess
import sys
from collections import defaultdict

import pytest

from cli import program as command
from tests import cpu_time, programs
from tests.programs import ROOT

MODULES = {"bert", "bert_packages", "predictor"}
PROGRAMS = sorted({path.stem for path in ROOT.glob("*.py")} - MODULES)
# Seconds of processor time, more on a busy machine. Importing TensorFlow alone
# takes four and more.
LIMIT = 1.5
# Runs a program as Python would, then prints its flags, and whether TensorFlow
# was imported.
START = """
import json, runpy, sys
try:
  runpy.run_path(sys.argv[0], run_name="__main__")
finally:
  from absl import flags
  from cli import arguments
  names = ("lower_bound", "upper_bound", "enum_values")
  project_flags = [*arguments.find_project_flags(flags.FLAGS)]
  values = [
    (f.name, f.flag_type(), f.default, arguments.is_required(f))
    + tuple(getattr(f.parser, name, None) for name in names)
    for f in project_flags
  ]
  for f in project_flags:
    if f.default is not None:
      name, _, value = arguments._line(f).partition("=")
      value = name == f"--{f.name}" if f.boolean else f.parser.parse(value)
      assert value == f.default, f"--{f.name} does not take its default"
  print(json.dumps(values))
  print("tensorflow" in sys.modules or "keras" in sys.modules)
"""
GOLDEN = ROOT / "tests/parity/golden"
# Flags of the original with another type or default here.
NOT_REQUIRED = ("string", "null")  # nor have exports, previews
SWEPT = {
  "learning_rate": ("float or list of floats", "5e-05"),
  "num_train_epochs": ("float or list of floats", "3.0"),
  "train_batch_size": ("int or list of ints", "32"),
}
OTHERS = {
  "create_pretraining_data.py --output_file": NOT_REQUIRED,
  "extract_features.py --input_file": NOT_REQUIRED,
  "extract_features.py --output_file": NOT_REQUIRED,
  "run_classifier.py --data_dir": NOT_REQUIRED,
  "run_pretraining.py --input_file": NOT_REQUIRED,
  **{f"run_classifier.py --{name}": SWEPT[name] for name in SWEPT},
  **{f"run_squad.py --{name}": SWEPT[name] for name in SWEPT},
  # None is the threshold of the last prediction, else the original's 0.
  "run_squad.py --null_score_diff_threshold": ("float", "null"),
}


def _start(program, *arguments):
  """Output, messages and status of a program."""
  argv = [str(ROOT / f"{program}.py"), *arguments]
  before = sum(os.times()[2:4])
  done = programs.python(["-c", f"import sys; sys.argv = {argv!r}\n{START}"])
  seconds = sum(os.times()[2:4]) - before
  assert done.stdout.endswith("False\n"), done.stdout
  assert "Traceback" not in done.stderr
  limit = LIMIT if seconds < LIMIT else LIMIT * cpu_time.slowness()
  assert seconds < limit, f"{program} took {seconds:.2f} s"
  return done


def _describe(name, kind, default, is_required, lower, upper, values):
  """Name, type, default and range of a flag, as in flags.tsv."""
  limits = "|".join(values or ())
  if lower is not None or upper is not None:
    limits = "..".join("" if x is None else f"{x:g}" for x in (lower, upper))
  default = "required" if is_required else json.dumps(default)
  return name, kind, default, limits


def _flags(done):
  """Descriptions of the flags of a program that was started."""
  return {_describe(*f) for f in json.loads(done.stdout.splitlines()[-2])}


def _table(program):
  """Rows of flags.tsv that a program has."""
  rows = programs.table(programs.FLAGS)
  return {tuple(row[:4]) for row in rows if program in row[4].split()}


@pytest.mark.parametrize("program", PROGRAMS)
def test_help_and_flags(program):
  done = _start(program, "--help")
  assert done.returncode == 0
  assert _flags(done) == _table(program), (
    "correct the table: python -m tests.test_start_up > tests/flags.tsv"
  )
  groups = ["Most commands:", "Others of the original:", "Beyond the original:"]
  groups.append("Devices, processes and precision:")
  result = [line for line in done.stdout.splitlines() if line in groups]
  assert result == [line for line in groups if line in result]
  assert result[0] == groups[0]


def test_groups_of_flags_name_flags():
  names = [*command._FIRST, *command._ORIGINAL, *command._DEVICES]
  assert len(names) == len(set(names))
  assert {*names} <= {row[0] for row in programs.table(programs.FLAGS)}


def test_flags_of_the_original_have_its_types_and_defaults():
  differing = {}
  for program, flags in json.loads((GOLDEN / "flags.json").read_text()).items():
    own = {name: spec for name, *spec in _table(program.removesuffix(".py"))}
    for name, flag in flags.items():
      expected = json.dumps(flag["default"])
      expected = "required" if flag.get("required") else expected
      kind, default, _ = own[name]
      if not flag["type"].startswith(kind) or default != expected:
        differing[f"{program} --{name}"] = kind, default
  assert differing == OTHERS


PREVIEW = f"""create_pretraining_data.py --preview=2
--input_file={GOLDEN}/pretraining_data/single_sentences.txt
--vocab_file={GOLDEN}/vocab.txt"""


@pytest.mark.parametrize("command", ["run_squad.py --help", PREVIEW])
def test_output_into_a_closed_pipe_ends_the_program(command):
  reader, writer = os.pipe()
  os.close(reader)
  done = subprocess.run(
    [sys.executable, *command.split()],
    cwd=ROOT,
    stdout=writer,
    stderr=subprocess.PIPE,
    check=False,
  )
  os.close(writer)
  assert done.returncode == -signal.SIGPIPE
  assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("program", ["run_classifier", "predictor"])
def test_version_is_printed_before_a_required_flag_is_missed(program):
  argv = [str(ROOT / f"{program}.py"), "--version"]
  done = programs.python(argv)
  assert done.returncode == 0, done.stderr
  versions = dict(line.split(" ") for line in done.stdout.splitlines())
  assert versions.keys() >= {"bert", "python", "tensorflow", "keras", "commit"}
  changes = (ROOT / "CHANGELOG.md").read_text()
  heading = next(x for x in changes.splitlines() if x.startswith("## "))
  assert versions["bert"] in heading


# All programs parse their flags by the same function.
def test_wrong_and_missing_flags_are_one_line():
  for flags, message in (
    (["--bert_confg_file=x"], "Unknown command line flag 'bert_confg_file'"),
    ([], "ERROR: missing: --"),
    (["--train_fle=x"], "Did you mean: train_file ?"),
  ):
    done = _start("run_squad", *flags)
    assert done.returncode == 1
    [line] = done.stderr.splitlines()
    assert message in line


def test_tensorflow_itself_is_silent(tmp_path):
  script = f"import predictor; predictor.Predictor({str(tmp_path)!r})"
  environment = {**os.environ}
  environment.pop("TF_CPP_MIN_LOG_LEVEL", None)
  done = programs.python(["-c", script], env=environment)
  assert done.stderr.startswith("Traceback")  # of an error of ours
  assert "name what --do_export wrote" in done.stderr


def _print_table():
  programs_of_flags = defaultdict(list)
  for program in PROGRAMS:
    for flag in _flags(_start(program, "--help")):
      programs_of_flags[flag].append(program)
  for flag, names in sorted(programs_of_flags.items()):
    print(*flag, " ".join(names), sep="\t")


if __name__ == "__main__":
  _print_table()
