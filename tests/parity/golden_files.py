"""Where golden numbers of the original lie.

`golden/` holds a small part of them and is always there. A larger set of the
same layout is used on top when the environment variable BERT_ORACLE names its
folder.
"""

import gzip
import json
import os
from pathlib import Path

import pytest
import tensorflow as tf

GOLDEN = Path(__file__).parent / "golden"


def roots() -> list[Path]:
  """Folders that hold golden numbers."""
  extra = os.environ.get("BERT_ORACLE")
  if extra and not Path(extra).is_dir():
    raise FileNotFoundError(f"BERT_ORACLE names no folder: {extra}")
  return [GOLDEN] + ([Path(extra)] if extra else [])


def cases(pattern: str) -> list[Path]:
  """All golden files or folders that fit a glob pattern, in order.

  Raises:
    FileNotFoundError: `golden` has none of them.
  """
  if not list(GOLDEN.glob(pattern)):
    raise FileNotFoundError(f"no {pattern} in {GOLDEN}")
  return larger_cases(pattern)


def larger_cases(pattern: str) -> list[Path]:
  """The same of what may be in the larger set alone, or nowhere."""
  return [path for root in roots() for path in sorted(root.glob(pattern))]


def each(pattern: str, argument: str = "path"):
  """Parametrizes a test with all golden files that fit a pattern."""
  return pytest.mark.parametrize(argument, cases(pattern), ids=name)


def read_jsonl(path: Path) -> list:
  """Objects of a file of JSON lines, which may be compressed."""
  content = path.read_bytes()
  if path.suffix == ".gz":
    content = gzip.decompress(content)
  return [json.loads(line) for line in content.splitlines()]


def parse(record: bytes) -> dict[str, list]:
  """The fields of a tf.train.Example, as TensorFlow reads them."""
  fields = tf.train.Example.FromString(record).features.feature
  return {
    name: list(getattr(field, field.WhichOneof("kind")).value)
    for name, field in fields.items()
  }


def name(path: Path) -> str:
  """A readable test id: which set a case is from, and its place in it."""
  for root in roots():
    if path.is_relative_to(root):
      kind = "golden" if root == GOLDEN else "oracle"
      return f"{kind}:{path.relative_to(root)}"
  return str(path)
