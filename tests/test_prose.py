"""Docstrings and comments have few signs of sentences that are hard to read."""

import ast
import re
import tokenize

import pytest

from tests.programs import ROOT

# The largest number of matches in 1,000 words of docstrings and comments.
LIMITS = {
  r"\b(that|those|the ones?) (of|that|which)\b": 0.3,
  r"(?m)^(#\s*)?(Of|As|Else|By|Also|Nor)\b": 0.2,
  r"\b(them|its|their|these|it|they)\b": 12,
}
PATHS = sorted({*ROOT.glob("*.py"), *ROOT.glob("[a-z]*/**/*.py")})
TESTS = [path for path in PATHS if path.is_relative_to(ROOT / "tests")]
PRODUCT = [path for path in PATHS if path not in TESTS]


def _prose(path):
  for node in ast.walk(ast.parse(path.read_text("utf-8"))):
    if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
      yield ast.get_docstring(node) or ""
  with tokenize.open(path) as file:
    for token in tokenize.generate_tokens(file.readline):
      if token.type == tokenize.COMMENT:
        yield token.string


@pytest.mark.parametrize("paths", [PRODUCT, TESTS], ids=["product", "tests"])
def test_sentences_are_plain(paths):
  texts = [text for path in paths for text in _prose(path)]
  words = sum(len(text.split()) for text in texts)
  for pattern, limit in LIMITS.items():
    matches = [
      match[0] for text in texts for match in re.finditer(pattern, text)
    ]
    assert 1000 * len(matches) / words <= limit, (pattern, len(matches), words)
