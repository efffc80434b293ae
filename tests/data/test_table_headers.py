"""Headers of tables: accents in names, and rules under the header."""

import pytest

from storage import UserError
from tests.data.test_tables import read


@pytest.mark.parametrize(
  ("name", "content"),
  [
    ("t.txt", "text|label\n----|-----\nx y|1\n--|0\n\n(2 rows affected)\n"),
    ("t.tsv", "text\tlabel\r\n----\t-----\r\nx y\t1\r\n--\t0\r\n"),
    ("t.tsv", "text   \tlabel\n-------\t-----\nx y    \t    1\n--\t0\n"),
    ("t.csv", "text,label\n----,-----\nx y,1\n--,0\n(2 Zeilen)\n"),
    (
      "t.txt",
      " text | label\n------+-------\n x y  | 1\n --   | 0\n(2 rows)\n",
    ),
    ("t.txt", "| text | label |\n|------|-------|\n| x y | 1 |\n| -- | 0 |\n"),
    ("t.txt", "| text | label |\n| :--- | ---: |\n| x y | 1 |\n| -- | 0 |\n"),
    ("t.txt", "| text | label |\n|:-:|-:|\n| x y | 1 |\n| -- | 0 |\n"),
    ("t.txt", "|  |text|label|\n|---:|:--|--|\n| 0 |x y|1|\n|1|--|0|\n"),
    ("t.txt", " text \n------\n x y\n --\n(2 rows)\n\n"),
    ("t.tsv", "text\n====\nx y\n--\n\n(2 rows affected)\n"),
  ],
)
def test_a_rule_under_the_header_and_a_number_of_rows_are_left_out(
  tmp_path, caplog, name, content
):
  caplog.set_level("INFO", "absl")
  rows = read(tmp_path, name, content, ["text"])
  assert [row.values["text"].strip() for row in rows] == ["x y", "--"]
  assert rows[0].values.get("label", "1").strip() == "1"
  rules = [m for m in caplog.messages if f"{name}, line 2: left out" in m]
  assert len(rules) == 1
  assert ("left out '(2" in caplog.text) == ("(2" in content)


def test_a_number_of_rows_is_left_out_without_a_rule_too(tmp_path):
  for name, content in (
    ("t.txt", "text|label\nx y|1\n--|0\n(2 rows)\n"),
    ("t.tsv", "text\nx y\n--\n(2 rows)\n"),
    ("t.tsv", "text\nx y\n--\n\n(2 rows)\n"),
  ):
    rows = read(tmp_path, name, content, ["text"])
    assert [row.values["text"] for row in rows] == ["x y", "--"]


@pytest.mark.parametrize(
  "content",
  [
    "text\nx\ny\n(2 rows)\nz\n",
    "text\nx\ny\nz\n(1 row)\n",
    "text\n--\n(2 minutes later)\n",
    "text\n:-)\n---\n(3 cheers)\n",
    "text\tlabel\n-\t+\n--\t-1\n",
    "text\tlabel\nx\t-\n---\t--\n",
    "text\tlabel\n\t---\ny\t-1\n",
  ],
)
def test_dashes_elsewhere_are_texts_and_labels(tmp_path, content):
  number = content.count("\n") - 1
  assert len(read(tmp_path, "t.tsv", content, ["text"])) == number
  rows = read(tmp_path, "u.tsv", "text\n----\nx\n(7 of 9)\n", ["text"])
  assert [row.values["text"] for row in rows] == ["x", "(7 of 9)"]
  rows = read(tmp_path, "t.tsv", "text\n----\nx\n", ["text"], dialect=None)
  assert len(rows) == 2  # in GLUE, each line is a row


def test_a_column_may_have_composed_or_decomposed_accents(tmp_path):
  for name, meant in (("Gro\u0308ße", "Größe"), ("Größe", "Gro\u0308ße")):
    for file, content in (
      ("t.csv", f"{name};b\nx;1\n"),
      ("t.tsv", f"{name}\nx\n"),
    ):
      [row] = read(tmp_path, file, content, [meant])
      assert row.values[meant] == "x"
    with pytest.raises(UserError, match="occurs twice: rename one"):
      read(tmp_path, "t.csv", f"{name},{meant}\n1,2\n", [meant])
