"""The packages do not know each other; assembly and the programs know them."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# What a package may import of ours, and of the large libraries.
ALLOWED = {
  "modeling": {"modeling", "keras"},
  "data": {"data", "tensorflow", "tensorflow_text"},
  "training": {"training", "tensorflow", "keras"},
  "evaluation": {"evaluation", "data", "official"},
  "serving": {"serving", "data", "tensorflow"},
}
LIBRARIES = {"tensorflow", "tensorflow_text", "keras", "official"}
RESTRICTED = {*ALLOWED, *LIBRARIES, "assembly"}
PACKAGES = [*ALLOWED, "assembly"]
FILES = [path for name in PACKAGES for path in (ROOT / name).rglob("*.py")]


def _imports(path):
  for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
    if isinstance(node, ast.Import):
      yield from (alias.name.split(".")[0] for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and not node.level:
      yield node.module.split(".")[0]


def _id(path):
  return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", sorted(FILES), ids=_id)
def test_a_package_imports_only_what_it_may(path):
  allowed = ALLOWED.get(path.relative_to(ROOT).parts[0], RESTRICTED)
  # Reads remote files, on demand; compiles where TensorFlow is the backend.
  if path.name in ("config.py", "one_pass.py"):
    allowed = allowed | {"tensorflow"}
  assert set(_imports(path)) & RESTRICTED <= allowed


@pytest.mark.parametrize("program", sorted(ROOT.glob("*.py")), ids=_id)
def test_nobody_imports_a_program(program):
  for path in FILES:
    assert program.stem not in set(_imports(path))
