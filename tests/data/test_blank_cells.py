"""A table row with blank cells is a row like any other."""

import itertools
import json

import pytest

from data import tables

CELLS = ("", " ", "x")
ROWS = [*itertools.product(CELLS, repeat=2), ("\t", "x"), ("x", "  ")]


@pytest.mark.parametrize("name", ["t.csv", "t.csv quoted", "t.tsv", "t.jsonl"])
def test_no_row_is_dropped_for_a_blank_cell(tmp_path, name):
  name, _, quoted = name.partition(" ")
  rows = ROWS
  if name != "t.jsonl":  # a line of only blank cells is a blank line
    rows = [row for row in ROWS if "".join(row).strip()]
  if name == "t.tsv":
    rows = [row for row in rows if "\t" not in row]
  quote = '"' if quoted else ""
  cells = [[f"{quote}{cell}{quote}" for cell in row] for row in rows]
  lines = ["text,label", *map(",".join, cells)]
  if name == "t.tsv":
    lines = ["text\tlabel", *map("\t".join, rows)]
  elif name == "t.jsonl":
    lines = [json.dumps({"text": a, "label": b}) for a, b in rows]
  path = tmp_path / name
  path.write_text("\n".join(lines) + "\n")
  result = tables.read_table(str(path), ["text", "label"])
  assert [(r.values["text"], r.values["label"]) for r in result] == rows
