"""Paths of golden files, which hold numbers of the original BERT code.

`golden/` holds a small set, which is always there. The environment variable
BERT_ORACLE may name the folder of a larger set with the same layout. The tests
then use both sets.
"""

import gzip
import json
import os
from pathlib import Path

import pytest
import tensorflow as tf

GOLDEN = Path(__file__).parent / "golden"


def roots() -> list[Path]:
  """Returns the folders that hold golden files."""
  extra = os.environ.get("BERT_ORACLE")
  if extra and not Path(extra).is_dir():
    raise FileNotFoundError(f"BERT_ORACLE names no folder: {extra}")
  return [GOLDEN] + ([Path(extra)] if extra else [])


def cases(pattern: str) -> list[Path]:
  """Golden files or folders that match; FileNotFoundError if there is none."""
  if not list(GOLDEN.glob(pattern)):
    raise FileNotFoundError(f"no {pattern} in {GOLDEN}")
  return larger_cases(pattern)


def larger_cases(pattern: str) -> list[Path]:
  """Lists matches like `cases`, but `golden` may have none."""
  return [path for root in roots() for path in sorted(root.glob(pattern))]


def each(pattern: str, argument: str = "path"):
  """Parametrizes a test with all golden files that match a pattern."""
  return pytest.mark.parametrize(argument, cases(pattern), ids=name)


def read_jsonl(path: Path) -> list:
  """Reads the objects of a JSON lines file, which may be compressed."""
  content = path.read_bytes()
  if path.suffix == ".gz":
    content = gzip.decompress(content)
  return [json.loads(line) for line in content.splitlines()]


def parse(record: bytes) -> dict[str, list]:
  """Parses a record with TensorFlow; returns the values of each field."""
  fields = tf.train.Example.FromString(record).features.feature
  return {
    name: list(getattr(field, field.WhichOneof("kind")).value)
    for name, field in fields.items()
  }


def name(path: Path) -> str:
  """Returns a test id: the set, and the path within the set."""
  for root in roots():
    if path.is_relative_to(root):
      kind = "golden" if root == GOLDEN else "oracle"
      return f"{kind}:{path.relative_to(root)}"
  return str(path)
