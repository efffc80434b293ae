"""docs/paper.md in English and Korean: names exist, and commands run."""

import ast
import contextlib
import io
import re

import pytest

from tests.programs import ROOT

ENGLISH, KOREAN = (
  (ROOT / "docs" / name).read_text(encoding="utf-8")
  for name in ("paper.md", "paper.ko.md")
)
REFERENCE = re.compile(r"`([\w./]+\.(?:py|flags))(?::([\w.]+))?`")
COMMANDS = re.findall(
  r"```python\n(.*?)```\n\n```text\n(.*?)```", ENGLISH, re.S
)
EXAMPLE = "file.py"  # the page explains references with this name
# Commands with this word build models of published sizes, which takes seconds
# and gigabytes.
LARGE = "count_params"


def _names(tree, prefix=""):
  """Yields the names that a module or a class defines, methods included."""
  for node in tree.body:
    if isinstance(node, ast.ClassDef | ast.FunctionDef):
      yield prefix + node.name
      if isinstance(node, ast.ClassDef):
        yield from _names(node, f"{prefix}{node.name}.")
    elif isinstance(node, ast.Assign):
      yield from (prefix + t.id for t in node.targets if hasattr(t, "id"))


def test_every_file_and_name_in_the_page_exists():
  references = REFERENCE.findall(ENGLISH)
  assert len(references) > 80
  for path, name in references:
    if not name:
      assert (ROOT / path).is_file() or path == EXAMPLE, path
    elif path != EXAMPLE:
      tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
      assert name in _names(tree), f"{path}:{name}"


def test_links_lead_to_headings_that_exist():
  link = re.compile(r"\]\((\w[\w.]+\.md)(?:#([^)]+))?\)")
  for name, anchor in link.findall(ENGLISH + KOREAN):
    text = (ROOT / "docs" / name).read_text(encoding="utf-8")
    headings = re.findall(r"^#+ (.*)$", text, re.M)
    anchors = [re.sub(r"[^\w -]", "", h).lower() for h in headings]
    assert not anchor or anchor in [a.replace(" ", "-") for a in anchors]


def test_both_languages_have_the_same_references_and_commands():
  for pattern in (REFERENCE, re.compile(r"```.*?```", re.S)):
    assert pattern.findall(KOREAN) == pattern.findall(ENGLISH)
  assert len(re.findall("^### ", KOREAN, re.M)) == len(COMMANDS) == 12


@pytest.mark.parametrize(
  ("code", "output"),
  [
    pytest.param(*c, marks=[pytest.mark.slow] if LARGE in c[0] else [])
    for c in COMMANDS
  ],
  ids=range(1, len(COMMANDS) + 1),
)
def test_a_command_prints_the_output_on_the_page(code, output, monkeypatch):
  monkeypatch.chdir(ROOT)
  with contextlib.redirect_stdout(io.StringIO()) as printed:
    exec(compile(code, "docs/paper.md", "exec"), {})
  assert printed.getvalue() == output
