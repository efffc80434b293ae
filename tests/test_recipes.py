"""Recipes: each says what the recipe is, and names flags of its program.

The tests of some programs make dry runs of recipes.
"""

import shlex

import pytest

from recipes import table
from tests import programs

HEADERS = table.headers()


@pytest.mark.parametrize("name", HEADERS)
def test_each_recipe_has_a_title_and_flags_of_its_program(name):
  fields = HEADERS[name]
  assert all(fields.values())
  words = shlex.split(fields["Command"])
  assert words[:2] == ["python", fields["Program"]]
  assert f"--flagfile=recipes/{name}" in words
  there = programs.defaults(fields["Program"].removesuffix(".py"))
  text = (table.HERE / name).read_text()
  given = [line for line in text.splitlines() if line.startswith("--")]
  assert given
  for word in [*given, *words[2:]]:
    flag, _, value = word.removeprefix("--").partition("=")
    if flag == "flagfile":
      assert value.removeprefix("recipes/") in HEADERS
      continue
    is_negated = flag.removeprefix("no") in there and not value
    assert flag in there or is_negated, word


def test_the_readme_is_the_table_of_the_headers():
  assert (table.HERE / "README.md").read_text() == table.table()


def test_a_header_must_be_complete(tmp_path):
  (tmp_path / "a.flags").write_text("# Paper: x\n# Time: y\n\n--do_train\n")
  with pytest.raises(ValueError, match="has Paper, Time; it must have Pap"):
    table.header(tmp_path / "a.flags")
