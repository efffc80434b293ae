"""The packages do not know each other; only programs see more than one."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
OURS = {"modeling", "data", "training", "evaluation", "serving"}
# What a package may import of ours, and of the large libraries.
ALLOWED = {
  "modeling": {"modeling", "keras"},
  "data": {"data", "tensorflow", "tensorflow_text"},
  "training": {"training", "tensorflow", "keras", "official"},
  "evaluation": {"evaluation", "data", "official"},
  "serving": {"serving", "data", "tensorflow"},
}
RESTRICTED = OURS | {"tensorflow", "tensorflow_text", "keras", "official"}
FILES = [
  path
  for package in sorted(OURS)
  for path in sorted((ROOT / package).rglob("*.py"))
]


def _imports(path):
  for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
    if isinstance(node, ast.Import):
      yield from (alias.name.split(".")[0] for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and not node.level:
      yield node.module.split(".")[0]


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_a_package_imports_only_what_it_may(path):
  allowed = ALLOWED[path.relative_to(ROOT).parts[0]]
  # Reads remote files, on demand; compiles where TensorFlow is the backend.
  if path.name in ("config.py", "one_pass.py"):
    allowed = allowed | {"tensorflow"}
  assert set(_imports(path)) & RESTRICTED <= allowed


@pytest.mark.parametrize(
  "program", sorted(ROOT.glob("*.py")), ids=lambda p: p.name
)
def test_nobody_imports_a_program(program):
  for path in FILES:
    assert program.stem not in set(_imports(path))
