"""Tables: three formats, and errors that name the line."""

import csv
import gzip
import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data import tables


def _write(tmp_path, name, content):
  path = tmp_path / name
  path.write_bytes(content.encode() if isinstance(content, str) else content)
  return str(path)


@pytest.mark.parametrize(
  ("name", "content"),
  [
    ("t.tsv", '\ufeffa\tb\r\n"x\t1\r\n\r\ny, z"\t2'),
    ("t.txt", 'a\tb\n"x\t1\n \t \ny, z"\t2\n'),
    ("t.csv", '\ufeffa,b\r\n"""x",1\r\n\r\n"y, z""",2\r\n'),
    ("t.jsonl", '{"a": "\\"x", "b": 1}\n\n{"a": "y, z\\"", "b": 2}\n'),
  ],
)
def test_formats_say_the_same(tmp_path, name, content):
  first, second = tables.read_table(_write(tmp_path, name, content), ["a"])
  assert first.values == {"a": '"x', "b": "1"}
  assert second.values == {"a": 'y, z"', "b": "2"}
  lines = (1, 3) if "json" in name else (2, 4)
  assert (first.line, second.line) == lines


@pytest.mark.parametrize(
  ("name", "content"),
  [("t.csv.gz", 'a,b\n"x, y",1\n'), ("t.jsonl.gz", '{"a": "x, y", "b": 1}\n')],
)
def test_a_compressed_table_has_the_format_of_its_name(tmp_path, name, content):
  assert tables._extension(name.replace("gz", "zst")) == name[1:-3]
  path = _write(tmp_path, name, gzip.compress(content.encode()))
  [row] = tables.read_table(path)
  assert row.values == {"a": "x, y", "b": "1"}


def test_only_blank_lines_of_csv_are_dropped(tmp_path):
  path = _write(tmp_path, "t.csv", 'a\nx\n""\n\n  \ny\n')
  assert [row.values["a"] for row in tables.read_table(path)] == ["x", "", "y"]
  path = _write(tmp_path, "t.csv", 'a,b\nx,1\n"",""\n,\n')
  assert [row.line for row in tables.read_table(path)] == [2, 3, 4]


def test_a_quoted_field_may_have_line_breaks(tmp_path):
  path = _write(tmp_path, "t.csv", 'a,b\n"1\n2",x\n3,y\n')
  assert list(tables.read_table(path)) == [
    tables.Row(2, {"a": "1\n2", "b": "x"}, 1),
    tables.Row(4, {"a": "3", "b": "y"}, 2),
  ]


def test_a_header_as_an_argument(tmp_path):
  path = _write(tmp_path, "t.tsv", "1\t2\n")
  rows = list(tables.read_table(path, ["b"], header=("a", "b")))
  assert rows == [tables.Row(1, {"a": "1", "b": "2"}, 0)]


def test_values_that_are_no_texts_come_as_json(tmp_path):
  row = '{"a": 0.5, "b": true, "c": null, "d": ["é"]}'
  [row] = tables.read_table(_write(tmp_path, "t.jsonl", row))
  assert row.values == {"a": "0.5", "b": "true", "d": '["é"]'}
  # Lone surrogates become replacement characters.
  row = '{"a\\ud83e": "\\ud83eb", "c": ["\\ud83e", "\\ud83e\\udd89"]}'
  [row] = tables.read_table(_write(tmp_path, "t.jsonl", row))
  assert row.values["a\ufffd"] == "\ufffdb"
  assert json.loads(row.values["c"]) == ["\ufffd", "\N{OWL}"]


@pytest.mark.parametrize(
  ("name", "content", "message"),
  [
    ("t.tsv", "", "t.tsv is empty"),
    ("t.tsv", "\n \n", "t.tsv is empty"),
    ("t.tsv", "a\tb\n", "t.tsv has no rows"),
    ("t.jsonl", "\n", "t.jsonl has no rows"),
    ("t.tsv", "c\tb\n1\t2\n", r"line 1 \(the header\): no column 'a'; there "),
    ("t.csv", "b\n1\n", "no column 'a'; there are 'b'"),
    ("t.csv", "a,b,a\n1,2,3\n", r"\(the header\): column 'a' is there twice"),
    ("t.jsonl", '{"a": 1}\n{"b": 1}\n', "line 2: no column 'a'; there are 'b'"),
    ("t.jsonl", '{"a": null, "b": 1}\n', "line 1: 'a' is null"),
    ("t.tsv", "a\tb\n1\t2\n\n1\t2\t3\n", r"line 4: 3 columns, expected 2 \(a"),
    ("t.csv", "a,b\n1\n", "line 2: 1 columns, expected 2"),
    ("t.csv", 'a,b\n1,2\n1,"2\n\n3,4\n', "begins on line 3 is no CSV"),
    ("t.csv", 'a,b\n"1"x,2\n', "begins on line 2 is no CSV"),
    ("t.jsonl", '{"a": 1}\n{"a": "tru', "line 2 is no JSON .*cut short"),
    ("t.jsonl", "[1]\n", "line 1 is no JSON object but '.1.'"),
    ("t.tsv", b"a\tb\n1\t2\n\xe9\t2\n", "line 3: byte 8 .* is not UTF-8"),
  ],
)
def test_errors_name_the_line(tmp_path, name, content, message):
  path = _write(tmp_path, name, content)
  with pytest.raises(ValueError, match=message) as error:
    list(tables.read_table(path, ["a"]))
  assert path in str(error.value)


def test_broken_rows_can_be_left_out(tmp_path, caplog):
  path = _write(tmp_path, "t.tsv", "a\tb\n1\t2\nx\ny\t1\t2\n3\t4\n")
  rows = tables.read_table(path, skip_broken=True)
  assert [row.line for row in rows] == [2, 5]
  message = "left out 2 rows with a wrong number of columns (lines 3, 4)"
  assert message in caplog.text


def _texts(excluded, **sizes):
  chars = st.characters(exclude_categories=["Cs"], exclude_characters=excluded)
  return st.text(chars, **sizes)


TEXTS, PLAIN = _texts("\r"), _texts("\r\n\t", min_size=1).filter(str.strip)


@given(st.lists(st.tuples(TEXTS, TEXTS), min_size=1))
def test_whatever_is_written_is_read(tmp_path_factory, rows):
  folder = tmp_path_factory.mktemp("eine Tabelle")
  content = io.StringIO(newline="")
  csv.writer(content).writerows([("a", "b"), *rows])
  objects = (json.dumps({"a": a, "b": b}) + "\n" for a, b in rows)
  texts = {"t.csv": content.getvalue(), "t.jsonl": "".join(objects)}
  for name, text in texts.items():
    result = tables.read_table(_write(folder, name, text), ["a", "b"])
    assert [(r.values["a"], r.values["b"]) for r in result] == rows


@given(st.lists(st.tuples(PLAIN, PLAIN), min_size=1))
def test_tab_separated_values_do_not_change(tmp_path_factory, rows):
  text = "a\tb\n" + "".join(f"{a}\t{b}\n" for a, b in rows)
  path = _write(tmp_path_factory.mktemp("table"), "t.tsv", text.rstrip("\n"))
  assert [tuple(r.values.values()) for r in tables.read_table(path)] == rows
