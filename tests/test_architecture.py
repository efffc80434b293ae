"""Imports go down only, tasks are independent, no name has a private word."""

import ast
import re
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from tests import programs

ROOT = Path(__file__).parents[1]
LIBRARIES = {"tensorflow", "tensorflow_text", "keras", "official"}
# Packages of requirements-beam.txt and of the build, not of requirements.txt.
OPTIONAL = {"apache_beam", "setuptools"}
# Packages and libraries that a package may import.
LOWER = {"training", "data", "modeling", "storage"}
PACKAGES = {
  "storage": {"storage", "tensorflow"},
  "data": {"data", "storage", "tensorflow"},
  "modeling": {"modeling", "storage", "keras"},
  "training": {"training", "storage", "tensorflow", "keras"},
  "serving": {"serving", "tensorflow", "keras"} | LOWER,
  "conversion": {"conversion"} | LOWER | LIBRARIES,
  "cli": {"cli"} | LOWER,
  "runs": {"runs", "cli", "serving"} | LOWER | LIBRARIES,
  "tasks": {"tasks", "runs", "cli", "serving", "conversion"}
  | LOWER
  | LIBRARIES,
}
FILES = sorted(
  path for name in PACKAGES for path in ROOT.glob(f"{name}/**/*.py")
)
# Modules of modeling/ that import TensorFlow, if Keras runs on TensorFlow.
WITH_TENSORFLOW = {"modeling/tracing.py"}
# Modules that read absl's FLAGS. All others get cli.settings.Settings.
READS_FLAGS = {"cli/settings.py", "cli/program.py"}
# Files of a task's folder that may use settings.
SEES_SETTINGS = {"task.py", "settings.py", "glue.py"}
SEES_SETTINGS |= {"named_tasks.py", "tagging.py", "lines.py"}
SEES_SETTINGS |= {"corpus_settings.py", "vocabulary_settings.py"}
SEES_SETTINGS |= {"multiple_choice/examples.py"}
PROGRAMS = sorted(ROOT.glob("*.py"))
# Words that a name may not have, because papers and libraries say another word,
# such as position for place. "Whole word masking" is a common term.
PRIVATE_WORDS = re.compile(
  r"(?<![a-z])(asking|beside|damaged?|found|halves|kept|ours|places?|room|shares?"
  r"|whole(?!_word))(?![a-z])"
)


def _tree(path):
  return ast.parse(path.read_text(encoding="utf-8"))


def _imports(path):
  for node in ast.walk(_tree(path)):
    if isinstance(node, ast.Import):
      yield from (tuple(alias.name.split(".")) for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and not node.level:
      module = tuple(node.module.split("."))
      yield from ((*module, alias.name) for alias in node.names)


def _id(path):
  return str(path.relative_to(ROOT))


def _sees_settings(path):
  return not SEES_SETTINGS.isdisjoint({path.name, "/".join(path.parts[-2:])})


@pytest.mark.parametrize("path", FILES, ids=_id)
def test_a_package_imports_only_packages_below_it(path):
  allowed = PACKAGES[path.relative_to(ROOT).parts[0]]
  if _id(path) in WITH_TENSORFLOW:
    allowed = allowed | {"tensorflow"}
  programs = {program.stem for program in PROGRAMS}
  roots = {module[0] for module in _imports(path)}
  assert roots & {*PACKAGES, *LIBRARIES, *programs} <= allowed


@pytest.mark.parametrize(
  ("file", "pattern"),
  [
    ("bert_packages.py", '^PACKAGES = "(.*)"$'),
    ("setup.py", '^PACKAGES = "(.*)"$'),
    ("pyproject.toml", r"^files = \[(.*)\]$"),  # of mypy
    ("pyproject.toml", r'^  "error:::\((.*)\)",$'),  # warnings in pytest
  ],
)
def test_every_list_of_packages_is_complete(file, pattern):
  [names] = re.findall(pattern, (ROOT / file).read_text(), re.MULTILINE)
  assert {*re.findall(r"\w{3,}", names)} == PACKAGES.keys()


def test_requirements_list_every_imported_package():
  importers = {}  # a module's name: a file that imports the module
  for path in (*FILES, *PROGRAMS, *ROOT.glob("experiments/*.py")):
    for module in _imports(path):
      # Several distributions share these packages.
      is_shared = module[0] in {"backports", "google"}
      importers[".".join(module[: 1 + is_shared])] = _id(path)
  text = (ROOT / "requirements.txt").read_text().replace("-", "_")
  required = set(re.findall(r"^[\w.]+", text, re.MULTILINE))
  installed = packages_distributions()
  own = {path.stem for path in ROOT.iterdir()}
  for module in importers.keys() - own - OPTIONAL - sys.stdlib_module_names:
    distributions = installed.get(module, [module.removeprefix("google.")])
    distributions = {name.replace("-", "_") for name in distributions}
    assert required & distributions, f"{importers[module]} imports {module}"


@pytest.mark.parametrize("path", sorted(ROOT.glob("tasks/*/*.py")), ids=_id)
def test_tasks_do_not_import_each_other_and_only_some_files_import_cli(path):
  tasks = {folder.name for folder in ROOT.glob("tasks/*/")}
  imported = {m[1] for m in _imports(path) if m[0] == "tasks" and len(m) > 1}
  assert imported & tasks <= {path.parent.name}
  # Only files such as task.py see settings. Other modules get values.
  assert _sees_settings(path) or "cli" not in {m[0] for m in _imports(path)}


@pytest.mark.parametrize("program", PROGRAMS, ids=_id)
def test_a_program_has_at_most_150_lines(program):
  assert len(program.read_text(encoding="utf-8").splitlines()) <= 150


@pytest.mark.parametrize("folder", [*PACKAGES, "tests", "."])
def test_names_have_no_private_words(folder):
  paths = (ROOT / folder).glob("*.py" if folder == "." else "**/*.py")
  fields = {ast.Name: "id", ast.arg: "arg", ast.ClassDef: "name"}
  fields[ast.FunctionDef] = "name"
  for path in paths:
    for node in ast.walk(_tree(path)):
      name = getattr(node, fields.get(type(node), ""), "")
      assert not PRIVATE_WORDS.search(name.lower()), f"{_id(path)}: {name}"


@pytest.mark.parametrize("path", FILES, ids=_id)
def test_functions_that_tasks_call_take_values_instead_of_settings(path):
  if path.parent.name in ("cli", "runs") or _sees_settings(path):
    return
  # Outside tasks/, some classes have their own settings, such as the server.
  names = {"args", "settings"} if "tasks/" in _id(path) else {"args"}
  for node in ast.walk(_tree(path)):
    if isinstance(node, ast.arguments):
      assert names.isdisjoint(argument.arg for argument in node.args)


@pytest.mark.parametrize("path", [*FILES, *PROGRAMS], ids=_id)
def test_only_cli_reads_the_command_line(path):
  names = {
    getattr(node, field, None)
    for node in ast.walk(_tree(path))
    for field in ("id", "attr", "arg")
  }
  assert _id(path) in READS_FLAGS or "FLAGS" not in names
  # With these names, a module would learn which program runs.
  if path in FILES and _id(path) != "cli/program.py":
    assert names.isdisjoint({"argv", "__module__"})


# Modules that worker processes import.
WORKERS = """data.pretraining.shards, tasks.classification.examples,
tasks.multiple_choice.examples, tasks.squad.records"""


# The import of NumPy would take a fifth of the time in which build_vocab learns
# a vocabulary from three novels.
@pytest.mark.parametrize(
  ("library", "modules"), [("tensorflow", WORKERS), ("numpy", "build_vocab")]
)
def test_workers_and_build_vocab_import_no_large_library(library, modules):
  code = f"import sys, {' '.join(modules.split())}"
  done = programs.python(["-c", f"{code}; print({library!r} in sys.modules)"])
  assert done.stdout.strip() == "False"
