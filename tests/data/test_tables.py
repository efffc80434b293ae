import csv
import gzip
import io
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
    ("t.jsonl.gz", '{"a": "\\"x", "b": 1}\n\n{"a": "y, z\\"", "b": 2}'),
  ],
)
def test_tables_in_all_formats_have_the_same_rows(tmp_path, name, content):
  extension = name.removesuffix(".gz")[1:]
  assert tables._extension(name.replace("gz", "zst")) == extension
  first, second = read(tmp_path, name, content)
  assert first.values == {"a": '"x', "b": "1"}
  assert second.values == {"a": 'y, z"', "b": "2"}
  lines = (1, 3) if "json" in name else (2, 4)
  assert (first.line, second.line) == lines


@pytest.mark.parametrize(
  ("name", "content", "expected"),
  [
    # Only rows without any text are left out.
    ("t.csv", 'a\nx\n""\n\n  \ny\n', [(2, "x"), (3, ""), (6, "y")]),
    ("t.csv", 'a,b\n ,1\n,2\n"",""\n , \n,\n', [(2, " ", "1"), (3, "", "2")]),
    ("t.csv", 'a,b\n\t,1\n"x","  "\n', [(2, "\t", "1"), (3, "x", "  ")]),
    ("t.tsv", "a\tb\n \t1\n\t\n\t2\n", [(2, " ", "1"), (4, "", "2")]),
    ("t.tsv", "a\tb\nx\t\nx\t \n", [(2, "x", ""), (3, "x", " ")]),
    ("t.jsonl", '{"a": "", "b": " "}\n', [(1, "", " ")]),
    # Line ends within a cell.
    ("t.csv", 'a,b\n"1\n2",x\n3,y\n', [(2, "1\n2", "x"), (4, "3", "y")]),
    ("t.csv", "a,b\r\nbeta\rgamma,1\r\r\n", [(2, "beta gamma", "1")]),
    ("t.tsv", "a\tb\r\nbeta\rgamma\t1\r\r\n", [(2, "beta gamma", "1")]),
    # A header with the usual delimiter is not searched for other delimiters.
    ("t.csv", "b;c;d,a\n1,2\n", [(2, "1", "2")]),
    # Values that are not texts become JSON. Lone surrogates become U+FFFD.
    ("t.jsonl", '{"a": 0.5, "b": true, "c": null}', [(1, "0.5", "true")]),
    ("t.jsonl", r'{"a": ["é"], "b": "\uD83Eb"}', [(1, '["é"]', "\ufffdb")]),
    ("t.jsonl", r'{"a": ["\ud83e\udd89\ud83e"]}', [(1, '["🦉\ufffd"]')]),
  ],
)
def test_cells_keep_their_text(tmp_path, caplog, name, content, expected):
  caplog.set_level("INFO", "absl")
  rows = read(tmp_path, name, content)
  assert [(row.line, *row.values.values()) for row in rows] == expected
  assert not [text for text in caplog.messages if "blank row" not in text]
  if name == "t.tsv":
    assert read(tmp_path, name, content, dialect=None) == rows


def test_a_row_has_its_line_in_the_file_and_its_index(tmp_path):
  content = 'a,b\n"1\n2",x\n3,y\n'
  assert read(tmp_path, "t.csv", content)[1] == (4, {"a": "3", "b": "y"}, 2)
  [row] = read(tmp_path, "t.tsv", "\n1\t2\n", ["b"], header=("a", "b"))
  assert row == (2, {"a": "1", "b": "2"}, 1)
  [row] = read(tmp_path, "t.jsonl", '\n{"a": "1"}\n')
  assert row == (2, {"a": "1"}, 1)


def _table(delimiter):
  rows = ["a;b;c", '"Sehr; gut";1;é', '"zwei\nZeilen";1;y', "NA;0;None"]
  rows += ['"Er rief ""Halt"", lief";0;x', ""]
  return "\n".join(rows).replace(";", delimiter)


SEMICOLONS, TABS = _table(";"), _table("\t")
# Two empty cells end each row, and two empty rows end the table.
EMPTY_END = re.sub("([c1é0xye])\n", r"\1;;\n", SEMICOLONS) + ";;;;\n;;;;\n"


@pytest.mark.parametrize(
  ("name", "content"),
  [
    ("t.csv", SEMICOLONS),
    ("t.csv", SEMICOLONS.replace("\n", "\r\n")),
    ("t.csv", SEMICOLONS.replace("\n", "\r")),  # line ends of old Macs
    ("t.csv", f"\ufeff{SEMICOLONS}"),
    ("t.csv", f"sep=;\r\n{SEMICOLONS}"),
    ("t.csv", f'\ufeff"sep=;"\n{SEMICOLONS}'),
    ("t.csv", f";;\n\n{SEMICOLONS};;\n"),
    ("t.csv", EMPTY_END),
    ("t.csv", EMPTY_END.replace("c;;", "c", 1)),
    ("t.csv", EMPTY_END.replace("1;é;;", "1;é").replace("x;;", "x;")),
    ("t.csv", SEMICOLONS.replace("a;b;c", " a ; b; c ")),
    ("t.csv", "\n" + re.sub(";(?! )", "; ", SEMICOLONS)),
    ("t.csv", SEMICOLONS.replace("a;b;c", '"a"; "b"; "c"; ""')),
    ("t.tsv", SEMICOLONS),
    ("t.txt", _table("|")),
    ("t.tsv", _table(",")),
    ("t.csv", TABS),
    ("t.tsv", TABS),
    ("t.txt", TABS.replace("\n", "\r\n").encode("utf-16")),
    ("t.tsv", b"\xfe\xff" + TABS.encode("utf-16-be")),
    ("t.csv.gz", SEMICOLONS.encode("utf-16")),
  ],
)
def test_tables_from_spreadsheet_programs_are_read(tmp_path, name, content):
  rows = [row.values for row in read(tmp_path, name, content, ["a", "c"])]
  texts = [[row[column] for column in "abc"] for row in rows]
  assert re.fullmatch("Sehr[;,|\t] gut", texts[0].pop(0))
  assert texts == [
    ["1", "é"],
    ["zwei\nZeilen", "1", "y"],
    ["NA", "0", "None"],
    ['Er rief "Halt", lief', "0", "x"],
  ]


@pytest.mark.parametrize(
  ("content", "last", "message"),
  [
    ("a,b\n1,2\n\n,\n3,4\n , \n", "4", ": left out 2 blank rows (lines 4, 6)"),
    ("a,b\n" + ",\n" * 5 + "1,2", "2", "5 blank rows (lines 2, 3, 4, 5, 6)"),
    ("a,b,b,,\n1,2,3,,\n", "3", "column 'b' occurs twice: the last one counts"),
    ("a;b\n1;2\n", "2", "t.csv: the columns are separated by ';'"),
    ("a\n1\n\n2\n", "2", ": left out 1 blank row (lines 3)"),
  ],
)
def test_unusual_properties_of_a_table_are_reported_once(
  tmp_path, caplog, content, last, message
):
  caplog.set_level("INFO", "absl")
  for _ in range(2):
    *_, row = read(tmp_path, "t.csv", content)
    assert row.values.get("b", row.values["a"]) == last  # in the last column
  [reported] = caplog.messages
  assert reported.startswith(f"{tmp_path}/t.csv")
  assert reported.endswith(message)


@pytest.mark.parametrize("row", ["x, y", "x,"])
def test_a_comma_in_a_csv_of_one_column_is_refused(tmp_path, row):
  with pytest.raises(UserError, match=r"line 2: 2 columns, .* give delimiter="):
    read(tmp_path, "t.csv", f"a\n{row}\nz\n")
  [first, _] = read(tmp_path, "t.csv", f"a\n{row}\nz\n", dialect=(";", "utf-8"))
  assert first.values["a"] == row


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
    ("t.csv", "utf-8", "utf-8"),
    ("t.csv", "utf-16-le", "utf-16-le"),
    ("t.csv", "utf-8-sig", "cp1252"),  # the byte order mark wins
    ("t.csv", "utf-16", "cp1252"),
    ("t.jsonl", "cp1252", "cp1252"),
  ],
)
def test_a_byte_order_mark_or_the_given_encoding_decodes_a_table(
  tmp_path, name, encoding, given
):
  text = '{"a": "schön – gut"}' if "json" in name else "a;b\nschön – gut;1\n"
  content = text.encode(encoding)
  [row] = read(tmp_path, name, content, dialect=(None, given))
  assert row.values["a"] == "schön – gut"


def test_utf8_that_is_read_with_another_encoding_is_reported_once(
  tmp_path, caplog
):
  content = "a\nEs ist schön.\nSüß.\n"
  assert read(tmp_path, "t.csv", content, dialect=(None, "cp1252"))
  assert caplog.text.count("line 2 looks like UTF-8") == 1
  # One of these lines is UTF-8 only by chance.
  chinese = "a\n谢谢\n很好看的电影\n".encode("gb18030")
  assert read(tmp_path, "g.csv", chinese, dialect=(None, "gb18030"))
  assert "g.csv" not in caplog.text
  for name in ("UTF8", "utf_8_sig"):
    assert read(tmp_path, "u.csv", content, dialect=(None, name))
  assert "u.csv" not in caplog.text


@pytest.mark.parametrize(
  ("dialect", "message"),
  [
    (("ab", "utf-8"), "delimiter=ab is not a delimiter"),
    ((",;", "utf-8"), "delimiter=,; is not a delimiter"),
    (("semicolons", "utf-8"), "delimiter=semicolons is not a delimiter"),
    ((None, "cp125"), "encoding=cp125 is not an encoding"),
    ((None, "base64"), "encoding=base64 is not an encoding"),
    ((None, ""), "encoding= is not an encoding"),
    ((None, "utf-16"), "t.csv: encoding=utf-16 cannot read it .*utf-16-le"),
    ((None, "undefined"), "encoding=undefined cannot read it .*utf-16-le"),
    ((None, "utf-8"), "t.csv looks like UTF-16: give encoding=utf-16-le"),
  ],
)
def test_an_unknown_delimiter_or_a_wrong_encoding_is_reported(
  tmp_path, dialect, message
):
  content = "a,b\nx,é\n".encode("utf-16-le")
  with pytest.raises(UserError, match=message):
    read(tmp_path, "t.csv", content, dialect=dialect)


def test_blank_texts_are_reported_with_their_lines(tmp_path, caplog):
  content = 'a,b,c\n ,x,\n"\n",y,1\nz,\u200b \0,\nv,w,\n'
  assert len(read(tmp_path, "t.csv", content, is_text="ab".__contains__)) == 4
  assert caplog.messages == [
    f"{tmp_path}/t.csv: {text}; they are kept"
    for text in (
      "2 of 4 texts in 'a' are blank (lines 2, 3)",
      "1 of 4 texts in 'b' are blank (lines 5)",
    )
  ]
  with pytest.raises(UserError, match=r"t\.csv: all texts are blank \(a\)"):
    read(tmp_path, "t.csv", "a,b\n,1\n ,0\n", is_text="a".__contains__)


@pytest.mark.parametrize(
  ("name", "content", "message"),
  [
    ("t.tsv", "", "t.tsv is empty"),
    ("t.tsv", "\n \n", "t.tsv is empty"),
    ("t.tsv", "a\tb\n", "t.tsv has no rows"),
    ("t.jsonl", "\n", "t.jsonl has no rows"),
    ("t.tsv", "c\tb\n1\t2\n", r"line 1 \(the header\): no column 'a'; there "),
    ("t.csv", "b\n1\n", "no column 'a'; there are 'b'"),
    ("t.csv", "ID;A\n1;x\n", "'a'; .* 'ID', 'A'. Did you mean 'A'. Is it"),
    ("t.csv", "a,b,a\n1,2,3\n", r"\(the header\): column 'a' occurs twice"),
    ("t.jsonl", '{"a": 1}\n{"b": 1}\n', "line 2: no column 'a'; there are 'b'"),
    ("t.jsonl", '{"a": null, "b": 1}\n', "line 1: 'a' is null"),
    ("t.jsonl", '{"a": NaN, "b": 1}\n', "line 1: 'a' is null"),
    ("t.tsv", "a\tb\n1\t2\n\n1\t2\t3\n", r"line 4: 3 columns, expected 2 \(a"),
    ("t.csv", "a,b\n1\n", "line 2: 1 columns, expected 2.* leave out empty"),
    # A comma in a text moves the cells after it.
    (
      "t.csv",
      "a,b,c\nx,1,\ny, z,1,\n",
      "line 3: 4 columns, but line 2 has 3.* end of line 3",
    ),
    (
      "t.csv",
      "a,b,c\ny, z,1,\nx,1,\n",
      "line 3: 3 columns, but line 2 has 4.* end of line 2",
    ),
    ("t.csv", "a,b\nx,1,\ny, z,1,\n", "line 3: 4 columns, expected 2"),
    ("t.csv", "a,b,,\nx,1,,\ny, z,1,\n", "line 3: 4 columns, expected 2"),
    (
      "t.tsv",
      'a\tb\tc\nx\t1\t\n"y\tz"\t1\t\n',
      "line 3: 4 columns, but line 2 has 3",
    ),
    ("t.csv", "a,b\n1,2\na, b\n", "line 3: the header again: were files joi"),
    ("t.tsv", "a\tb\n1\t2\n\ufeffa\tb\n", "line 3: the header again"),
    ("t.csv", 'a,b\n1,2\n1,"2\n\n3,4\n', "begins on line 3 is not CSV"),
    ("t.csv", 'a,b\n"1"x,2\n', "begins on line 2 is not CSV"),
    ("t.jsonl", '{"a": 1}\n{"a": "tru', "line 2 is not JSON .*cut short"),
    ("t.jsonl", "[1]\n", "line 1 is not a JSON object but '.1.'"),
    ("t.tsv", b"a\n\xe9\n", "line 2: byte 0xe9 is not UTF-8: .*: cp949 for K"),
    (
      "t.csv",
      "a\n好看\n".encode("cp950"),
      "gb18030 .*, cp950 for Taiwan and H",
    ),
    ("t.csv", b"a\n" + b"x\n" * 5000 + b"\xf6", "line 5002: byte 0xf6 is not"),
    ("t.csv", b"PK\3\4\x14\0\6\0!\xff", r"but a workbook .* save it as CSV UT"),
    ("t.csv", b"\xd0\xcf\x11\xe0\xa1", r"but a workbook \(.xls\): save it"),
  ],
)
def test_an_error_names_the_file_and_the_problem(
  tmp_path, name, content, message
):
  with pytest.raises(UserError, match=message) as error:
    read(tmp_path, name, content)
  assert f"{tmp_path}/{name}" in str(error.value)


@pytest.mark.parametrize("value", [["x"], {"en": "x"}])
def test_a_list_in_a_column_of_texts_is_refused(tmp_path, value):
  content = json.dumps({"a": "x", "b": value})
  [row] = read(tmp_path, "t.jsonl", content, is_text="a".__contains__)
  assert row.values["b"] == json.dumps(value)
  with pytest.raises(UserError, match=r"line 1: 'b' is not text but [\[{]\""):
    read(tmp_path, "t.jsonl", content, is_text="b".__contains__)


def test_skip_broken_leaves_out_rows_of_a_wrong_width(tmp_path, caplog):
  content = "a\tb\n1\t2\nx\ny\t1\t2\n3\t4\n"
  rows = read(tmp_path, "t.tsv", content, skip_broken=True)
  assert [row.line for row in rows] == [2, 5]
  message = "left out 2 rows with a wrong number of columns (lines 3, 4)"
  assert message in caplog.text


def _texts(excluded, **sizes):
  chars = st.characters(exclude_categories=["Cs"], exclude_characters=excluded)
  return st.text(chars, **sizes)


TEXTS, PLAIN = _texts("\r"), _texts("\r\n\t", min_size=1).filter(str.strip)
ROWS = st.tuples(TEXTS, TEXTS).filter(lambda row: "".join(row).strip())


@given(st.lists(ROWS, min_size=1))
def test_any_csv_or_json_table_is_read_unchanged(tmp_path_factory, rows):
  folder = tmp_path_factory.mktemp("eine Tabelle")
  content = io.StringIO(newline="")
  csv.writer(content).writerows([("a", "b"), *rows])
  objects = (json.dumps({"a": a, "b": b}) + "\n" for a, b in rows)
  texts = {"t.csv": content.getvalue(), "t.jsonl": "".join(objects)}
  for name, text in texts.items():
    result = read(folder, name, text, ["a", "b"])
    assert [(r.values["a"], r.values["b"]) for r in result] == rows


@given(st.lists(st.tuples(PLAIN, PLAIN), min_size=1))
def test_any_tab_separated_table_is_read_unchanged(tmp_path_factory, rows):
  text = "a\tb\n" + "\n".join(f"{a}\t{b}" for a, b in rows)
  result = read(tmp_path_factory.mktemp("t"), "t.tsv", text, dialect=None)
  assert [tuple(row.values.values()) for row in result] == rows
