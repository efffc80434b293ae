import gzip
import json
import re

import pytest

from data import tables
from storage import UserError


def read(folder, name, content, columns=("a",), **options):
  """Writes the content to a file, and reads the file as a table."""
  content = content.encode() if isinstance(content, str) else content
  is_compressed = name.endswith(".gz")
  path = folder / name
  path.write_bytes(gzip.compress(content) if is_compressed else content)
  return [*tables.read_table(str(path), columns, **options)]


@pytest.mark.parametrize(
  ("name", "content"),
  [
    ("t.tsv", '\ufeffa\tb\r\n"x\t1\r\n\r\ny, z"\t2'),
    ("t.txt", 'a\tb\n"x\t1\n \t \ny, z"\t2\n'),
    ("t.csv", '\ufeffa,b\r\n"""x",1\r\n\r\n"y, z""",2\r\n'),
    ("t.csv.gz", 'a,b\n"""x",1\n\n"y, z""",2\n'),
    ("t.jsonl", '{"a": "\\"x", "b": 1}\n\n{"a": "y, z\\"", "b": 2}\n'),
  ],
)
def test_tables_in_all_formats_have_the_same_rows(tmp_path, name, content):
  for pattern, kind in ((tables._CSV, ".csv"), (tables._JSON, ".json")):
    assert bool(pattern.search(name.replace("gz", "zst"))) == (kind in name)
  first, second = read(tmp_path, name, content)
  assert first.values == {"a": '"x', "b": "1"}
  assert second.values == {"a": 'y, z"', "b": "2"}
  assert (first.line, second.line) == ((1, 3) if "json" in name else (2, 4))


@pytest.mark.parametrize(
  ("name", "content", "expected"),
  [
    # Only rows without any text are left out.
    ("t.csv", 'a\nx\n""\n\n  \ny\n', [(2, "x"), (3, ""), (6, "y")]),
    ("t.csv", 'a,b\n ,1\n,2\n"",""\n , \n,\n', [(2, " ", "1"), (3, "", "2")]),
    ("t.tsv", "a\tb\n \t1\n\t\n\t2\n", [(2, " ", "1"), (4, "", "2")]),
    # Line ends within a cell, and line ends that were converted twice.
    ("t.csv", 'a,b\n"1\n2",x\n3,y\n', [(2, "1\n2", "x"), (4, "3", "y")]),
    ("t.tsv", "a\tb\r\nbeta\rgamma\t1\r\r\n", [(2, "beta gamma", "1")]),
    # The header has all columns with a comma, and more columns without one.
    ("t.csv", "b;c;d,a\n1,2\n", [(2, "1", "2")]),
    # Values that are not texts become JSON. Lone surrogates become U+FFFD.
    ("t.jsonl", '{"a": 0, "b": false, "c": null}', [(1, "0", "false")]),
    ("t.jsonl", r'{"a": ["\ud83e\udd89\ud83e"]}', [(1, '["🦉\ufffd"]')]),
  ],
)
def test_cells_keep_their_text(tmp_path, caplog, name, content, expected):
  caplog.set_level("INFO", "absl")
  rows = read(tmp_path, name, content)
  assert [(row.line, *row.values.values()) for row in rows] == expected
  assert not caplog.messages
  if name == "t.tsv":
    assert read(tmp_path, name, content, dialect=None) == rows


def test_a_cell_may_have_a_long_document(tmp_path):
  text = "x" * 200_000  # the csv module's limit is 131,072
  [row] = read(tmp_path, "t.csv", f"a\n{text}\n")
  assert row.values["a"] == text


def test_a_row_has_its_line_in_the_file_and_its_index(tmp_path):
  content = 'a,b\n"1\n2",x\n3,y\n'
  assert read(tmp_path, "t.csv", content)[1] == (4, {"a": "3", "b": "y"}, 2)
  [row] = read(tmp_path, "t.tsv", "\n1\t2\n", ["b"], header=("a", "b"))
  assert row == (2, {"a": "1", "b": "2"}, 0)
  [row] = read(tmp_path, "t.jsonl", '\n{"a": "1"}\n')
  assert row == (2, {"a": "1"}, 0)


def _table(delimiter):
  rows = ["a;b;c", '"Sehr; gut";1;é', '"zwei\nZeilen";1;y', "NA;0;None"]
  rows += ['"Er rief ""Halt"", lief";0;x', ""]
  return "\n".join(rows).replace(";", delimiter)


SEMICOLONS = _table(";")
TABS = _table("\t").replace("Sehr\t", "Sehr,")


@pytest.mark.parametrize(
  ("name", "content"),
  [
    ("t.csv", SEMICOLONS),
    ("t.csv", SEMICOLONS.replace("\n", "\r")),  # line ends of old Macs
    ("t.csv", f";;\n\n{SEMICOLONS};;\n"),
    ("t.csv", f"sep=;\r\n{SEMICOLONS}"),
    ("t.csv", SEMICOLONS.replace("a;b;c", " a ; b; c ")),
    ("t.tsv", SEMICOLONS),
    ("t.txt", _table("|")),
    ("t.tsv", _table(",")),
    ("t.tsv", TABS),
    ("t.txt.gz", TABS.replace("\n", "\r\n").encode("utf-16")),
  ],
)
def test_tables_from_spreadsheet_programs_are_read(tmp_path, name, content):
  rows = [row.values for row in read(tmp_path, name, content, ["a", "c"])]
  texts = [[row[column] for column in "abc"] for row in rows]
  assert re.fullmatch("Sehr[;,|] gut", texts[0].pop(0))
  assert texts == [
    ["1", "é"],
    ["zwei\nZeilen", "1", "y"],
    ["NA", "0", "None"],
    ['Er rief "Halt", lief', "0", "x"],
  ]


@pytest.mark.parametrize(
  ("content", "expected"),
  [
    # A single column, saved by pandas.
    ('a\n"so ""it"" was"\n"two\nlines"\nx, y\n', 'so "it" was|two\nlines|x, y'),
    ('a\nx\n""\ny, z\n', "x||y, z"),
    # Excel also quotes cells with a comma.
    ('b\ta\n1\t"x, y"\n"0, 1"\tz\n1\t"v, w"\n', "x, y|z|v, w"),
  ],
)
def test_quotes_of_a_tsv_enclose_cells_if_each_quote_does(
  tmp_path, caplog, content, expected
):
  caplog.set_level("INFO", "absl")
  rows = read(tmp_path, "t.tsv", content)
  assert [row.values["a"] for row in rows] == expected.split("|")
  [message] = caplog.messages
  assert message.endswith("quotes are read as in .csv; .jsonl keeps quotes")


@pytest.mark.parametrize(
  "content",
  [
    'a\tb\n"He said\t1\nbye"\t0\n',
    'b\ta\n1\t"He said\n0\tbye"\n',
    'a\n"Come in," she said.\n"Why?"\n',
    'a\tb\n"x, y"\t1\nthe 5" disk\t0\n',
  ],
)
def test_other_quotes_of_a_tsv_are_text(tmp_path, content):
  rows = read(tmp_path, "t.tsv", content)
  assert rows == read(tmp_path, "t.tsv", content, dialect=None)
  assert len(rows) == 2 and '"' in str(rows)


@pytest.mark.parametrize(
  ("delimiter", "character"),
  [(";", ";"), ("semicolon", ";"), ("COMMA", ","), ("|", "|"), ("pipe", "|")]
  + [(name, "\t") for name in ("tab", "\t", r"\t", "t")]
  + [("^", "^")],
)
def test_a_delimiter_is_a_character_or_its_name(tmp_path, delimiter, character):
  # Only the named delimiter splits the header. Quotes work as in CSV.
  content = f'a{character}"x;y|z,w\tv^"\n1{character}"2\n3"\n'
  [row] = read(tmp_path, "t.tsv", content, dialect=(delimiter, "utf-8"))
  assert row.values == {"a": "1", "x;y|z,w\tv^": "2\n3"}


@pytest.mark.parametrize(
  ("name", "encoding", "given"),
  [
    ("t.csv", "cp1252", "cp1252"),
    ("t.csv", "utf-16-le", "utf-16-le"),
    ("t.csv", "utf-16", "cp1252"),  # the byte order mark wins
    ("t.jsonl", "cp1252", "cp1252"),
  ],
)
def test_a_byte_order_mark_or_the_given_encoding_decodes_a_table(
  tmp_path, caplog, name, encoding, given
):
  text = '{"a": "schön – gut"}' if "json" in name else "a;b\nschön – gut;1\n"
  [row] = read(tmp_path, name, text.encode(encoding), dialect=(None, given))
  assert row.values["a"] == "schön – gut"
  assert not caplog.messages


def test_utf8_that_is_read_with_another_encoding_is_reported(tmp_path, caplog):
  content = "a\nschön\n".encode()
  assert read(tmp_path, "t.csv", content, dialect=(None, "cp1252"))
  assert "looks like UTF-8, but is read as" in caplog.text


def test_cp1252_that_is_read_as_latin_1_is_reported(tmp_path, caplog):
  content = "a\nit’s 5 €\n"
  read(tmp_path, "t.csv", content.encode("cp1252"), dialect=(None, "latin-1"))
  assert "read as latin-1, has 2 control characters: is it" in caplog.text


def test_blank_texts_are_reported_with_their_lines(tmp_path, caplog):
  content = 'a,b,c\n ,x,\n"\n",y,1\nz, ,\nv,w,\n'
  assert len(read(tmp_path, "t.csv", content, is_text="ab".__contains__)) == 4
  assert caplog.messages == [
    f"{tmp_path}/t.csv: {text}; they are kept"
    for text in (
      "2 of 4 texts in 'a' are blank (the first: line 2)",
      "1 of 4 texts in 'b' are blank (the first: line 5)",
    )
  ]


@pytest.mark.parametrize(
  ("name", "content", "message"),
  [
    ("t.tsv", "", "t.tsv is empty"),
    ("t.tsv", "a\tb\n", "t.tsv has no rows"),
    ("t.tsv", "c\tb\n1\t2\n", r"line 1 \(the header\): no column 'a'; there "),
    ("t.csv", "a,b\n1,2\na, b\n3,4\n", "line 3 is the header again: rem"),
    ("t.csv", "\ufeffa,b\n1,2\n" * 2, "line 3 is the header again: remove"),
    ("t.csv", "a,b,a\n1,2,3\n", r"\(the header\): column 'a' occurs twice"),
    (
      "t.jsonl",
      '{"a": 1}\n{"a": null, "b": 1}\n',
      r"line 2 \(null counts as missing\): no column 'a'; .* 'b'. Rename",
    ),
    ("t.tsv", "a\tb\n1\t2\n\n1\t2\t3\n", r"line 4: 3 columns, expected 2 \(a"),
    # A comma in a text moves the cells after it.
    ("t.csv", "a,b\nx,1\ny, z,1,\n", "line 3: 4 columns, expected 2"),
    ("t.csv", 'a,b\n1,2\n1,"2\n\n3,4\n', "begins on line 3 is not CSV"),
    ("t.jsonl", '{"a": 1}\n{"a": "tru', "line 2 is not a JSON object"),
    ("t.tsv", b"\xef\xbb\xbfa\n\xe9", "line 2: byte 0xe9 is not UTF-8: .*CP9"),
    ("t.csv", b"PK\3\4\x14\0\6\0!\xff", "is a workbook .* save it as CSV UT"),
  ],
)
def test_an_error_names_the_file_and_problem(tmp_path, name, content, message):
  with pytest.raises(UserError, match=message) as error:
    read(tmp_path, name, content)
  assert f"{tmp_path}/{name}" in str(error.value)


def test_a_list_in_a_column_of_texts_is_refused(tmp_path):
  content = json.dumps({"a": "x", "b": ["x"]})
  [row] = read(tmp_path, "t.jsonl", content, is_text="a".__contains__)
  assert row.values["b"] == '["x"]'
  with pytest.raises(UserError, match=r"line 1: 'b' is not text but \[\""):
    read(tmp_path, "t.jsonl", content, is_text="b".__contains__)


def test_skip_broken_leaves_out_rows_of_a_wrong_width(tmp_path, caplog):
  content = "a\tb\n1\t2\nx\ny\t1\t2\n3\t4\n"
  rows = read(tmp_path, "t.tsv", content, skip_broken=True)
  assert [row.line for row in rows] == [2, 5]
  message = "left out 2 rows with a wrong number of columns (the first: line 3)"
  assert message in caplog.text
