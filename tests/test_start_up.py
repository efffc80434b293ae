"""Programs start fast: --help and mistakes need no TensorFlow."""

import json
import os
import signal
import subprocess
import sys
from collections import defaultdict

import pytest

from cli.settings import line_of
from tests import programs
from tests.programs import ROOT

MODULES = {"bert", "bert_packages", "setup"}
PROGRAMS = sorted({path.stem for path in ROOT.glob("*.py")} - MODULES)
# Seconds of processor time. Usually less than 1; the import of TensorFlow alone
# takes four or more.
LIMIT = 3
# Runs a program as Python would, then prints whether TensorFlow was imported.
START = """
import runpy, sys
try:
  runpy.run_path(sys.argv[0], run_name="__main__")
finally:
  print("tensorflow" in sys.modules or "keras" in sys.modules)
"""
GOLDEN = ROOT / "tests/parity/golden"
# Flags whose type or default differs from the original's.
NOT_REQUIRED = ("string", "null")  # exports and previews need no files
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
  # Null means the saved threshold, or 0 if no threshold is saved.
  "run_squad.py --null_score_diff_threshold": ("float", "null"),
}


def _describe(flag):
  """Returns name, type, default and range of a flag, as in flags.tsv."""
  parser = flag.parser
  limits = "|".join(getattr(parser, "enum_values", None) or ())
  bounds = [getattr(parser, f"{end}_bound", None) for end in ("lower", "upper")]
  if bounds != [None, None]:
    limits = "..".join("" if x is None else f"{x:g}" for x in bounds)
  required = any("must have a value" in v.message for v in flag.validators)
  default = "required" if required else json.dumps(flag.default)
  return flag.name, flag.flag_type(), default, limits


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_default_is_a_value_that_its_flag_takes(program):
  for flag in programs.flags(program):
    if flag.default is not None:
      name, _, value = line_of(flag).partition("=")
      if flag.boolean:
        value = name == f"--{flag.name}"
      else:
        value = flag.parser.parse(value)
      assert value == flag.default, flag.name


def _table(program):
  """Returns the rows of flags.tsv for a program."""
  rows = programs.table(programs.FLAGS)
  return {tuple(row[:4]) for row in rows if program in row[4].split()}


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_help_and_the_table_list_all_flags(program):
  argv = [str(ROOT / f"{program}.py"), "--help"]
  before = sum(os.times()[2:4])
  done = programs.python(["-c", f"import sys; sys.argv = {argv!r}\n{START}"])
  seconds = sum(os.times()[2:4]) - before
  assert seconds < LIMIT, f"{program} took {seconds:.2f} s"
  assert done.stdout.endswith("False\n"), done.stdout
  assert (done.returncode, done.stderr) == (0, "")
  assert {*map(_describe, programs.flags(program))} == _table(program), (
    "correct the table: python -m tests.test_start_up > tests/flags.tsv"
  )
  groups = ["Most commands:", "Others of the original:", "Beyond the original:"]
  groups.append("Devices, processes and precision:")
  result = [line for line in done.stdout.splitlines() if line in groups]
  assert result == [line for line in groups if line in result]
  assert result[0] == groups[0]


def test_flags_of_the_original_keep_their_types_and_defaults():
  differing = {}
  for program, flags in json.loads((GOLDEN / "flags.json").read_text()).items():
    listed = {name: spec for name, *spec in _table(program.removesuffix(".py"))}
    for name, flag in flags.items():
      expected = json.dumps(flag["default"])
      expected = "required" if flag.get("required") else expected
      kind, default, _ = listed[name]
      if not flag["type"].startswith(kind) or default != expected:
        differing[f"{program} --{name}"] = kind, default
  assert differing == OTHERS


PREVIEW = f"""create_pretraining_data.py --preview=2
--input_file={GOLDEN}/pretraining_data/single_sentences.txt
--vocab_file={GOLDEN}/vocab.txt"""


def test_output_into_a_closed_pipe_ends_the_program():
  reader, writer = os.pipe()
  os.close(reader)
  options = {"cwd": ROOT, "stdout": writer, "stderr": subprocess.PIPE}
  command = [sys.executable, *PREVIEW.split()]
  done = subprocess.run(command, check=False, **options)
  os.close(writer)
  assert done.returncode == -signal.SIGPIPE
  assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("program", ["run_classifier", "predictor"])
def test_the_flag_version_needs_no_required_flag(program):
  done = programs.python([str(ROOT / f"{program}.py"), "--version"])
  assert done.returncode == 0, done.stderr
  versions = dict(line.split(" ") for line in done.stdout.splitlines())
  assert versions.keys() >= {"bert", "python", "tensorflow", "keras", "commit"}
  changes = (ROOT / "CHANGELOG.md").read_text()
  heading = next(x for x in changes.splitlines() if x.startswith("## "))
  assert versions["bert"] in heading


if __name__ == "__main__":  # print the table
  programs_of_flags = defaultdict(list)
  for program in PROGRAMS:
    for flag in map(_describe, programs.flags(program)):
      programs_of_flags[flag].append(program)
  for flag, names in sorted(programs_of_flags.items()):
    print(*flag, " ".join(names), sep="\t")
