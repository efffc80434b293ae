"""Tables: three formats, and errors that name the line."""

import csv
import gzip
import io
import itertools
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data import tables
from storage import UserError


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


def test_only_rows_without_any_text_are_left_out(tmp_path):
  path = _write(tmp_path, "t.csv", 'a\nx\n""\n\n  \ny\n')
  assert [row.values["a"] for row in tables.read_table(path)] == ["x", "", "y"]
  path = _write(tmp_path, "t.csv", 'a,b\n ,1\n,2\nx,\n"",""\n , \n,3\n,\n')
  assert [row.line for row in tables.read_table(path)] == [2, 3, 4, 7]
  path = _write(tmp_path, "t.tsv", "a\tb\n \t1\n\t2\nx\t\n\t\n\t3\n")
  rows = [*tables.read_table(path, dialect=None)]
  assert rows == [*tables.read_table(path)]
  assert [row.line for row in rows] == [2, 3, 4, 6]


CELLS = ("", " ", "x")
BLANKS = [*itertools.product(CELLS, repeat=2), ("\t", "x"), ("x", "  ")]


@pytest.mark.parametrize("name", ["t.csv", "t.csv quoted", "t.tsv", "t.jsonl"])
def test_no_row_is_dropped_for_a_blank_cell(tmp_path, name):
  name, _, quoted = name.partition(" ")
  rows = BLANKS
  if name != "t.jsonl":  # a line of only blank cells is a blank line
    rows = [row for row in BLANKS if "".join(row).strip()]
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


def _table(delimiter):
  rows = ["a;b;c", '"Sehr; gut";1;é', '"zwei\nZeilen";1;y', "NA;0;None"]
  rows += ['"Er rief ""Halt"", lief";0;x', ""]
  return "\n".join(rows).replace(";", delimiter)


SEMICOLONS, TABS = _table(";"), _table("\t")
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
    ("t.csv", SEMICOLONS.replace("a;b;c", " a ; b; c ")),
    ("t.tsv", SEMICOLONS),
    ("t.txt", _table("|")),
    ("t.tsv", _table(",")),
    ("t.csv", TABS),
    ("t.tsv", TABS),
    ("t.txt", TABS.replace("\n", "\r\n").encode("utf-16")),
    ("t.tsv", b"\xfe\xff" + TABS.encode("utf-16-be")),
    ("t.csv.gz", gzip.compress(SEMICOLONS.encode("utf-16"), mtime=0)),
  ],
)
def test_tables_of_spreadsheets_are_read(tmp_path, name, content):
  path = _write(tmp_path, name, content)
  rows = [row.values for row in tables.read_table(path, ["a", "c"])]
  texts = [[row[column] for column in "abc"] for row in rows]
  assert re.fullmatch("Sehr[;,|\t] gut", texts[0].pop(0))
  assert texts == [
    ["1", "é"],
    ["zwei\nZeilen", "1", "y"],
    ["NA", "0", "None"],
    ['Er rief "Halt", lief', "0", "x"],
  ]


@pytest.mark.parametrize(
  "content",
  [
    'a\tb\n"He said\t1\nbye"\t0\n',
    'b\ta\n1\t"He said\n0\tbye"\n',
    'b\ta\n1\t"He" said ""hi""\n0\tbye\n',
    'a\n"He said\nbye"\n',
  ],
)
def test_quotes_of_a_tsv_that_are_no_quoting_are_text(tmp_path, content):
  path = _write(tmp_path, "t.tsv", content)
  rows = [*tables.read_table(path, ["a"])]
  assert rows == [*tables.read_table(path, ["a"], dialect=None)]
  assert rows[0].values["a"].startswith('"He')
  assert len(rows) == 2


@pytest.mark.parametrize(
  ("name", "content", "lines"),
  [
    ("t.csv", 'a,b\nx,1\n"y,1\nz,0\nv,1\nw",0\n', "3 to 6"),
    ("t.tsv", 'a\tb\n"""x"""\t1\n"y\t1\nz\t0\nw"\t0\n', "3 to 5"),
    ("t.csv", 'a,b\n"y\nwell, so\nv",1\n', None),  # a text
    ("t.csv", 'a\n"y\nz\nv"\n', None),
  ],
)
def test_a_quoted_cell_with_rows_of_the_table_is_said(
  tmp_path, caplog, name, content, lines
):
  path = _write(tmp_path, name, content)
  assert [*tables.read_table(path, ["a"])]
  text = f"{path}, lines {lines}: a cell in quotes has rows of the table"
  assert (text in caplog.text) == bool(lines)
  assert "never closed" in caplog.text or not lines


def test_quotes_after_the_first_lines_of_a_tsv_are_said(tmp_path, caplog):
  content = "a\tb\n" + "x\t1\n" * 1000 + '"so ""it"" was"\t0\n'
  path = _write(tmp_path, "t.tsv", content)
  *_, row = tables.read_table(path, ["a"])
  assert row.values["a"].startswith('"so ""')
  text = f"{path}, lines 1002: after 1,000 lines, quotes as in .csv; delimiter="
  assert text in caplog.text
  caplog.clear()
  *_, row = tables.read_table(path, ["a"], dialect=("tab", "utf-8"))
  assert row.values["a"] == 'so "it" was'
  [*tables.read_table(path, ["a"], dialect=None)]  # of GLUE
  assert not caplog.text
  path = _write(tmp_path, "u.tsv", content.replace("so ", "so\n"))
  with pytest.raises(UserError, match=r"line 1002: 1 col.*give delimiter=tab"):
    [*tables.read_table(path, ["a"])]


def test_a_usual_header_is_not_searched_for_other_delimiters(tmp_path, caplog):
  caplog.set_level("INFO", "absl")
  path = _write(tmp_path, "t.csv", "a;b;c;d,e\n1,2\n")
  [row] = tables.read_table(path, ["e"])
  assert row.values == {"a;b;c;d": "1", "e": "2"}
  assert not caplog.text


def test_an_unusual_delimiter_is_said_once(tmp_path, caplog):
  caplog.set_level("INFO", "absl")
  path = _write(tmp_path, "t.csv", "a;b\n1;2\n")
  for _ in range(2):
    [row] = tables.read_table(path, ["a"])
    assert row.values == {"a": "1", "b": "2"}
  [record] = caplog.records
  message = "the columns are separated by ';'"
  assert record.getMessage() == f"{path}: {message}"


@pytest.mark.parametrize(
  ("delimiter", "character"),
  [(";", ";"), ("semicolon", ";"), ("comma", ","), ("|", "|"), ("pipe", "|")]
  + [(name, "\t") for name in ("tab", "\t", r"\t", "t")]
  + [("^", "^")],
)
def test_a_delimiter_is_named_as_a_shell_can(tmp_path, delimiter, character):
  content = 'b;a,a|b\ta^a;1\n"1;"";"^1,1|1\t1^1;1\n'
  # Only the named delimiter splits the header.
  content = f'a{character}"x;y|z,w\tv^"\n1{character}"2\n3"\n'
  path = _write(tmp_path, "t.tsv", content)
  [row] = tables.read_table(path, dialect=(delimiter, "utf-8"))
  assert row.values == {"a": "1", "x;y|z,w\tv^": "2\n3"}


def test_a_named_delimiter_has_quotes_as_in_csv(tmp_path):
  path = _write(tmp_path, "t.tsv", 'a\tb\n"x"\t1\n')
  for dialect, text in ((tables.OWN, '"x"'), (("tab", "utf-8"), "x")):
    [row] = tables.read_table(path, ["a"], dialect=dialect)
    assert row.values["a"] == text


def test_an_encoding_is_read_unless_a_mark_says_another(tmp_path):
  text = "a;b\nschön – gut;1\n"
  for encoding in ("cp1252", "utf-8-sig", "utf-16", "utf-8"):
    path = _write(tmp_path, "t.csv", text.encode(encoding))
    given = "utf-8" if encoding == "utf-8" else "cp1252"
    [row] = tables.read_table(path, ["a"], dialect=(None, given))
    assert row.values == {"a": "schön – gut", "b": "1"}
  path = _write(tmp_path, "t.jsonl", '{"a": "é"}'.encode("latin-1"))
  [row] = tables.read_table(path, ["a"], dialect=(None, "latin-1"))
  assert row.values == {"a": "é"}


@pytest.mark.parametrize("line", [2, 700, 5000])
def test_a_byte_of_another_encoding_is_named_with_its_line(tmp_path, line):
  rows = [b"a;b", *[b"good;1"] * 5000]
  rows[line - 1] = "schön;1".encode("cp1252")
  path = _write(tmp_path, "t.csv", b"\n".join(rows))
  message = rf"t\.csv, line {line}: byte 0xf6 is not UTF-8: give encoding, cp"
  with pytest.raises(UserError, match=message):
    [*tables.read_table(path, ["a"])]


@pytest.mark.parametrize("delimiter", ["ab", ",;", "semicolons"])
def test_a_delimiter_of_several_characters_is_refused(tmp_path, delimiter):
  path = _write(tmp_path, "t.csv", "a,b\n1,2\n")
  with pytest.raises(UserError, match=f"delimiter={delimiter} is no delimiter"):
    next(tables.read_table(path, ["a"], dialect=(delimiter, "utf-8")))
  assert next(tables.read_table(path, ["a"], dialect=("COMMA", "utf-8")))


def test_utf8_under_another_encoding_is_said(tmp_path, caplog):
  path = _write(tmp_path, "t.csv", "a\nEs ist schön.\nSüß.\n")
  with caplog.at_level("WARNING", logger="absl"):
    assert list(tables.read_table(path, ["a"], dialect=(None, "cp1252")))
  assert caplog.text.count("line 2 looks like UTF-8") == 1


def test_utf16_without_a_mark_is_named(tmp_path):
  path = _write(tmp_path, "t.csv", "a,b\nx,1\n".encode("utf-16-le"))
  with pytest.raises(UserError, match="looks like UTF-16: give encoding"):
    list(tables.read_table(path, ["a"]))
  dialect = (None, "utf-16-le")
  [row] = tables.read_table(path, ["a"], dialect=dialect)
  assert row.values == {"a": "x", "b": "1"}


@pytest.mark.parametrize("name", ["cp125", "base64", "", "rot13"])
def test_an_encoding_that_there_is_not_is_named(tmp_path, name):
  path = _write(tmp_path, "t.csv", "a\nx\n")
  with pytest.raises(UserError, match=f"encoding={name} is no encoding"):
    [*tables.read_table(path, dialect=(None, name))]


@pytest.mark.parametrize("name", ["utf-16", "undefined"])
def test_text_that_an_encoding_cannot_read_is_named(tmp_path, name):
  path = _write(tmp_path, "t.csv", "a,b\nx,é\n".encode("utf-16-le"))
  message = f"t.csv: encoding={name} cannot read it .*utf-16-le"
  with pytest.raises(UserError, match=message):
    [*tables.read_table(path, dialect=(None, name))]


def test_a_workbook_is_called_so(tmp_path):
  path = _write(tmp_path, "t.csv", b"PK\3\4\x14\0\6\0\x08\0\0\0!\0\xff")
  with pytest.raises(UserError, match=r"is a workbook .* save it as CSV UTF-8"):
    [*tables.read_table(path)]


@pytest.mark.parametrize("name", ["t.tsv", "t.csv"])
def test_a_carriage_return_within_a_line_is_a_blank(tmp_path, name):
  between = "," if "csv" in name else "\t"
  content = f"a{between}b\r\nbeta\rgamma{between}1\r\r\n"
  [row] = tables.read_table(_write(tmp_path, name, content), ["a"])
  assert row.values == {"a": "beta gamma", "b": "1"}


def test_a_column_of_other_letters_is_suggested(tmp_path):
  path = _write(tmp_path, "t.csv", "ID;Text;LABEL\n1;x;y\n")
  message = "'text', 'label'; .* 'ID', 'Text', 'LABEL'. Did you mean 'Text', 'L"
  with pytest.raises(UserError, match=message):
    [*tables.read_table(path, ["text", "label"])]


def test_blank_texts_are_counted_with_their_lines(tmp_path, caplog):
  path = _write(
    tmp_path, "t.csv", 'a,b,c\n ,x,\n"\n",y,1\nz,\u200b \0,\nv,w,\n'
  )
  rows = [*tables.read_table(path, is_text="ab".__contains__)]
  assert len(rows) == 4
  first, second = (record.getMessage() for record in caplog.records)
  for message, result in (
    ("2 of 4 texts in 'a' are blank (lines 2, 3); they count as well", first),
    ("1 of 4 texts in 'b' are blank (lines 5); they count as well", second),
  ):
    assert result == f"{path}: {message}"


def test_texts_that_are_all_blank_are_refused(tmp_path):
  path = _write(tmp_path, "t.csv", "a,b\n,1\n ,0\n")
  with pytest.raises(UserError, match=r"t\.csv: all texts are blank \(a\)"):
    [*tables.read_table(path, is_text="a".__contains__)]


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
    ("t.csv", "a,b,a\n1,2,3\n", r"\(the header\): column 'a' occurs twice"),
    ("t.jsonl", '{"a": 1}\n{"b": 1}\n', "line 2: no column 'a'; there are 'b'"),
    ("t.jsonl", '{"a": null, "b": 1}\n', "line 1: 'a' is null"),
    ("t.jsonl", '{"a": NaN, "b": 1}\n', "line 1: 'a' is null"),
    ("t.tsv", "a\tb\n1\t2\n\n1\t2\t3\n", r"line 4: 3 columns, expected 2 \(a"),
    ("t.csv", "a,b\n1\n", "line 2: 1 columns, expected 2"),
    ("t.csv", 'a,b\n1,2\n1,"2\n\n3,4\n', "begins on line 3 is no CSV"),
    ("t.csv", 'a,b\n"1"x,2\n', "begins on line 2 is no CSV"),
    ("t.jsonl", '{"a": 1}\n{"a": "tru', "line 2 is no JSON .*cut short"),
    ("t.jsonl", "[1]\n", "line 1 is no JSON object but '.1.'"),
    ("t.tsv", b"a\tb\n1\t2\n\xe9\t2\n", "line 3: byte 0xe9 is not UTF-8"),
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


ROWS = st.tuples(TEXTS, TEXTS).filter(lambda row: "".join(row).strip())


@given(st.lists(ROWS, min_size=1))
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
  result = tables.read_table(path, dialect=None)
  assert [tuple(row.values.values()) for row in result] == rows
