"""Every export format has a module and a row in the docs."""

import inspect

import pytest

from serving.formats import ENGINES, FORMATS
from tests import programs


@pytest.mark.parametrize("name", FORMATS)
def test_a_format_has_a_module_and_a_line_in_the_docs(name):
  row = FORMATS[name]
  assert [*inspect.signature(row.module.save).parameters] == [
    "folder", "served"
  ]  # fmt: skip
  if row.files:
    assert [*inspect.signature(row.module.load).parameters] == ["path"]
  text = (programs.ROOT / "docs/serving.md").read_text()
  assert f"\n| `{name}` |" in text
  assert all(f"`{file}`" in text for file in row.files.values())


def test_help_and_docs_name_each_format_and_engine():
  done = programs.python(["run_ner.py", "--help"])
  assert all(f"{name}:" in done.stdout for name in FORMATS)
  text = (programs.ROOT / "docs/serving.md").read_text()
  assert all(f'"{engine}"' in text for engine in ENGINES if engine != "auto")
