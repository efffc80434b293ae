"""Mutation testing: do the quick tests of a package notice small bugs?

    python -m tests.mutants data --count=60 --seed=1

The program plants one random bug at a time in a copy of the checkout. A bug
changes an operator, the end of a slice, a condition, an argument or a
statement. A forked process, which need not import TensorFlow again, runs the
quick tests of the package until one fails. Tests that name the changed module
come first. The program prints each bug with the test that fails, then numbers
for the table in docs/quality.md.
"""

import argparse
import ast
import itertools
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import time
import types
from pathlib import Path

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["PYTHONDONTWRITEBYTECODE"] = "1"

import hypothesis  # noqa: F401, here and below: imported once, for all forks
import keras  # noqa: F401
import pytest
import tensorflow as tf  # noqa: F401

ROOT = Path(__file__).parents[1]
# Tests of a package besides the tests in the folder tests/PACKAGE.
MORE_TESTS = {
  "cli": "tests/test_start_up.py tests/test_mistakes.py",
  "conversion": "tests/test_convert_checkpoint.py",
  "data": "tests/parity/test_pretraining_data.py tests/test_packed.py",
  "modeling": "tests/parity/test_encoder.py tests/training/test_step.py",
  "serving": "tests/tasks/test_answers.py tests/test_predictor.py",
  "tasks": "tests/parity/test_squad.py tests/parity/test_classifier.py "
  "tests/test_extract_features.py tests/test_predictor.py",
  "training": "tests/parity/test_training.py tests/storage/test_tfrecord.py",
}
# Maps an operator to the operator that replaces it.
_NAMES = (
  "Lt LtE LtE Lt Gt GtE GtE Gt Eq NotEq NotEq Eq In NotIn NotIn In Is IsNot "
  "IsNot Is And Or Or And Add Sub Sub Add Mult Add Div Mult FloorDiv Mult"
).split()
_OPERATORS = dict(zip(_NAMES[::2], _NAMES[1::2], strict=True))
_SKIPPED = ("annotation", "returns", "decorator_list", "exc", "cause")


def mutations(tree):
  """Yields pairs: a node of a module, and texts that may replace the node."""
  stack = [tree]
  while stack:
    node = stack.pop()
    match node:
      case ast.JoinedStr() | ast.Expr(value=ast.Constant()):
        continue  # messages, docstrings
      case ast.Call(func=ast.Attribute(value=ast.Name(id="logging"))):
        continue
    yield from _changes(node)
    for field, value in ast.iter_fields(node):
      children = value if isinstance(value, list) else [value]
      if field not in _SKIPPED:
        stack += [child for child in children if isinstance(child, ast.AST)]


def _changes(node):
  match node:
    case ast.Compare(ops=[op]):
      yield node, [_with(node, ops=[_opposite(op)])]
    case ast.BinOp(op=op) | ast.AugAssign(op=op) if _opposite(op):
      yield node, [_with(node, op=_opposite(op))]
    case ast.BoolOp(op=op, values=[first, *_, last]):
      new = _with(node, op=_opposite(op))
      yield node, [new, _text(first), _text(last)]
    case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
      yield test, [f"(not {_text(test)})"]
    case ast.Constant(value=bool(value)):
      yield node, [str(not value)]
    case ast.Constant(value=int(value)):
      yield node, [str(value + 1), f"({value - 1})"]
    case ast.Slice(lower=lower, upper=upper):
      for end in filter(None, (lower, upper)):
        yield end, [f"{_text(end)} + 1", "None"]
    case ast.Call(keywords=[*others, _]):
      yield node, [_with(node, keywords=others)]
    case (
      ast.Expr(value=ast.Call())
      | ast.Assign(targets=[ast.Attribute() | ast.Subscript()])
      | (ast.Raise() | ast.Break() | ast.Continue())
    ):
      yield node, ["pass"]


def _opposite(operator):
  name = _OPERATORS.get(type(operator).__name__)
  return name and getattr(ast, name)()


def _text(node):
  return f"({ast.unparse(node)})"


def _with(node, **fields):
  """Returns the text of a node with some fields changed."""
  new = type(node)(**dict(ast.iter_fields(node)) | fields)
  return ast.unparse(new) if isinstance(node, ast.stmt) else _text(new)


def sample(package: str, count: int, seed: int):
  """Yields random mutants: a path, the file's new text, and the change."""
  positions = [
    (path.relative_to(ROOT), node, texts)
    for path in sorted((ROOT / package).rglob("*.py"))
    for node, texts in mutations(ast.parse(path.read_bytes()))
  ]
  rng = random.Random(seed)
  for path, node, texts in rng.sample(positions, min(count, len(positions))):
    source = (ROOT / path).read_bytes()
    starts = [0, *itertools.accumulate(map(len, source.splitlines(True)))]
    begin = starts[node.lineno - 1] + node.col_offset
    end = starts[node.end_lineno - 1] + node.end_col_offset
    text = rng.choice(texts)
    new = source[:begin] + text.encode() + source[end:]
    change = f"{node.lineno}: {source[begin:end].decode()} -> {text}"
    yield path, new.decode(), change


def tests_of(path: Path) -> list[str]:
  """Lists a package's tests; tests that name the module `path` come first."""
  package = path.parts[0]
  name = re.compile(rf"\b{path.stem}\b")
  listing = sorted((ROOT / "tests" / package).rglob("test_*.py"))
  listing += [ROOT / test for test in MORE_TESTS.get(package, "").split()]
  listing.sort(
    key=lambda test: (
      path.stem not in test.stem,
      not name.search(test.read_text("utf-8")),
    )
  )
  return [str(test.relative_to(ROOT)) for test in listing]


def run_tests(folder: str, tests: list[str], limit: float) -> str | None:
  """Runs tests in a forked process; returns the first failure, or None."""
  log = Path(folder, "log")
  if not (child := os.fork()):
    os.setsid()
    for stream in (1, 2):
      os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND), stream)
    # Forget the package `tests`, so that the tests of the copy are imported.
    for name in [name for name in sys.modules if name.startswith("tests")]:
      del sys.modules[name]
    sys.modules["__main__"] = types.ModuleType("__main__")
    os.chdir(f"{folder}/checkout")
    sys.path[0] = os.getcwd()
    options = f"-x -rfE -p no:cacheprovider --basetemp={folder}/tests -m"
    os._exit(pytest.main([*options.split(), "not slow", *tests]))
  end, done = time.monotonic() + limit, 0
  while not done and time.monotonic() < end:
    time.sleep(0.1)
    done, status = os.waitpid(child, os.WNOHANG)
  if not done:
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return f"ran longer than {limit:.0f} s"
  lines = log.read_text("utf-8", "replace").splitlines()
  log.unlink()
  failed = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
  last = [f"status {status}", *failed][-1]
  return last.split(" - ")[0] if status else None


def main() -> None:
  parser = argparse.ArgumentParser()
  parser.add_argument("package")
  parser.add_argument("--count", type=int, default=60)
  parser.add_argument("--seed", type=int, default=1)
  args = parser.parse_args()
  sys.dont_write_bytecode = True
  begin, caught = time.monotonic(), 0
  mutants = list(sample(args.package, args.count, args.seed))
  with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
    ignored = shutil.ignore_patterns(".*", "__pycache__", "demo-output")
    copy = shutil.copytree(ROOT, Path(folder, "checkout"), ignore=ignored)
    if failed := run_tests(folder, tests_of(Path(args.package)), 3600):
      sys.exit(f"without a bug: {failed}")
    limit = 60 + 3 * (time.monotonic() - begin)
    for path, new, change in mutants:
      old = (ROOT / path).read_text("utf-8")
      (copy / path).write_text(new, "utf-8")
      caught += bool(failed := run_tests(folder, tests_of(path), limit))
      (copy / path).write_text(old, "utf-8")
      print(f"{failed or 'SURVIVED'}\n  {path}:{change}", flush=True)
  print(f"{caught} of {len(mutants)} bugs were caught")


if __name__ == "__main__":
  main()
