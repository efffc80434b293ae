"""Quotes in .tsv and .csv files: around cells as in RFC 4180, or in a text."""

import pytest

from storage import UserError
from tests.data.test_tables import read


@pytest.mark.parametrize(
  "content",
  [
    'a\tb\n"He said\t1\nbye"\t0\n',
    'b\ta\n1\t"He said\n0\tbye"\n',
    'b\ta\n1\t"He" said ""hi""\n0\tbye\n',
    'a\n"He said\nbye"\n',
  ],
)
def test_an_unbalanced_quote_in_a_tsv_is_text(tmp_path, content):
  rows = read(tmp_path, "t.tsv", content)
  assert rows == read(tmp_path, "t.tsv", content, dialect=None)
  assert rows[0].values["a"].startswith('"He')
  assert len(rows) == 2


@pytest.mark.parametrize(
  ("content", "expected"),
  [
    # A single column, saved by pandas.
    ('a\n"so ""it"" was"\n"two\nlines"\nx, y\n', 'so "it" was|two\nlines|x, y'),
    ('a\n"1\n\n2"\nx, y\n"3\n4"\n"5\n6"\n', "1\n\n2|x, y|3\n4|5\n6"),
    ('"a"\n"one\ntwo"\n"x"\n', "one\ntwo|x"),
    ('a\nx\n""\ny, z\n', "x||y, z"),
    # Excel also quotes cells with a comma.
    ('b\ta\n1\t"x, y"\n"0, 1"\tz\n1\t"v, w"\n', "x, y|z|v, w"),
    ('a\tb\n"x, y"\t"1, 2"\nz\t"3\n4"\n', "x, y|z"),
    ('a\n"x, y"\nz\n"v, w"\n"t, u"\n', "x, y|z|v, w|t, u"),
    # Databases may quote all cells but numbers and the header.
    ('a\tb\n"x, y"\t-1.5\n"z"\t\n"v"\t2\n', "x, y|z|v"),
    ('b\ta\n"0"\t"x"\n"1"\t""\n', "x|"),
  ],
)
def test_cells_in_quotes_show_that_a_tsv_is_quoted(
  tmp_path, caplog, content, expected
):
  caplog.set_level("INFO", "absl")
  rows = read(tmp_path, "t.tsv", content)
  assert [row.values["a"] for row in rows] == expected.split("|")
  [message] = caplog.messages
  assert message.endswith("quotes are read as in .csv; .jsonl keeps quotes")


def test_a_quoted_cell_may_begin_in_the_first_1000_lines_and_end_later(
  tmp_path,
):
  content = 'a\n""\n' + "x\n" * 997 + '"y\nz"\nw\n'  # line 1000: "y
  *_, first, last = read(tmp_path, "t.tsv", content)
  assert (first.values["a"], last.values["a"]) == ("y\nz", "w")


@pytest.mark.parametrize(
  ("content", "in_doubt"),
  [
    # Not every quote begins or ends a cell.
    ('a\n"Come in,\nshe said.\n"Why?"\n', False),
    ('a\n"Come in," she said.\n"I will\nnot," he said.\n', False),
    # Some cells in quotes have a line break, but at most two, or not all.
    ('a\n"Come in,\nplease."\nShe waited, then left.\n', True),
    ('a\n"Come in,\nplease."\nShe waited, then left.\n"Why\nnot?"\n', True),
    ('a\n"Come\nin."\nShe waited.\n"No, I will."\n"Why\nnot?"\n', True),
    ('a\n"Come\nin."\n"No."\n"Why\nnot?"\n"I\ndo."\n', True),
    # No cell in quotes has a line break.
    ('a\n"Come in, please."\nShe waited, then left.\n', False),
    ('a\tb\n"Come in, you\t1\ntwo."\t0\n"No\t1\nno."\t0\n', False),
    ('a\tb\n"x, y"\t1\nz, w\t0\n', False),
    ('a\tb\n"x, y"\t1\nso "it" is\t0\n', False),
    ('a\n"Yes."\n"No, sir."\n"No, no."\n"I, too."\nShe waited.\n', False),
    ('a\tb\n"Hello, Dolly"\t1\nVertigo\t0\n"Heroes"\t0\n', False),
    ('a\tb\n"Yes, sir."\t1\nHe left\t0\n"No, sir."\t1\n', False),
    ('a\tb\n"Yes."\tx\n"No."\ty\n"I see."\tx\n', False),
    ('b\ta\n1\t"No, he said.\n0\tNo."\n', False),
  ],
)
def test_a_dialogue_keeps_one_row_per_line(tmp_path, caplog, content, in_doubt):
  caplog.set_level("INFO", "absl")
  rows = read(tmp_path, "t.tsv", content)
  assert rows == read(tmp_path, "t.tsv", content, dialect=None)
  text = ": each line is a text, also between quotes; delimiter=tab reads a"
  assert (text in caplog.text) == in_doubt
  assert len(caplog.messages) == in_doubt


@pytest.mark.parametrize(
  ("name", "content", "lines"),
  [
    ("t.csv", 'a,b\nx,1\n"y,1\nz,0\nv,1\nw",0\n', "3 to 6"),
    ("t.tsv", 'a\tb\n"""x"""\t1\n"y\t1\nz\t0\nw"\t0\n', "3 to 5"),
    ("t.csv", 'a,b\n"y\nwell, so\nv",1\n', None),  # a text of several lines
    ("t.csv", 'a\n"y\nz\nv"\n', None),
  ],
)
def test_a_quoted_cell_that_swallows_rows_of_the_table_is_reported(
  tmp_path, caplog, name, content, lines
):
  assert read(tmp_path, name, content)
  text = f"{name}, lines {lines}: a cell in quotes has rows of the table"
  assert (text in caplog.text) == bool(lines)
  assert ("never closed" in caplog.text) == bool(lines)


def test_quotes_after_the_first_1000_lines_of_a_tsv_are_reported(
  tmp_path, caplog
):
  content = "a\tb\n" + "x\t1\n" * 1000 + '"so ""it"" was"\t0\n'
  *_, row = read(tmp_path, "t.tsv", content)
  assert row.values["a"].startswith('"so ""')
  text = "t.tsv, lines 1002: quotes as in .csv are read as text; delimiter="
  assert text in caplog.text
  caplog.clear()
  *_, row = read(tmp_path, "t.tsv", content, dialect=("tab", "utf-8"))
  assert row.values["a"] == 'so "it" was'
  read(tmp_path, "t.tsv", content, dialect=None)  # in GLUE, quotes are text
  assert not caplog.text
  with pytest.raises(UserError, match=r"line 1002: 1 col.*give delimiter=tab"):
    read(tmp_path, "u.tsv", content.replace("so ", "so\n"))


@pytest.mark.parametrize(
  ("cell", "in_doubt"),
  [
    ('"a fine film\nwith a second line"', True),
    ('"a fine film\r\nwith a second line"', True),
    ('"a fine film\n\n""really"""', True),
    ('"a fine film\nwith a ""2""\n"', True),
    ('"Come in,\nplease."\n"Why?" she said.', False),
    ('"Come in,\n"please."', False),
    ('"Come in, please."\nShe waited.', False),
    ('"Come in, please.\nShe waited.', False),
  ],
)
@pytest.mark.parametrize("line", [1000, 1001, 3000])
def test_a_text_of_several_lines_is_reported_wherever_it_begins(
  tmp_path, caplog, cell, in_doubt, line
):
  content = "a\n" + "x\n" * (line - 2) + f"{cell}\ny\n"
  assert len(read(tmp_path, "t.tsv", content)) > line
  text = f"t.tsv, lines {line}: each line is a text, also between quotes; "
  assert (text in caplog.text) == in_doubt
  assert in_doubt or not caplog.text
