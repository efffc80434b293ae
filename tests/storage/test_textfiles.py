import gzip
import json
import sys
from random import Random

import pytest

from storage import UserError, textfiles

MEGABYTE = 1 << 20


@pytest.fixture(name="path")
def _path(tmp_path):
  return tmp_path / "text.tsv"


def _lines(path, *args):
  return [*textfiles.lines(str(path), *args)]


@pytest.mark.parametrize(
  ("content", "lines"),
  [
    (b"a\rb\r\rc\r", ["a", "b", "", "c"]),  # Macintosh before 2001
    (b"a\n\r", ["a"]),  # carriage returns after the last line are not a line
    (b"a\r\r", ["a", ""]),  # a blank line ends a document
    (b"\xef\xbb\xbfa\rb", ["\ufeffa", "b"]),
    (b"", []),
    (b"\n", [""]),
    (b"a\r\nb\rc\n\n\r\nd", ["a", "b\rc", "", "", "d"]),
    (b"a\rb\nc", ["a\rb", "c"]),  # within a line, as in a table cell
    (b"a\nb\rc", ["a", "b\rc"]),
    (b"a\r\r\nb\r\r\n", ["a", "b"]),  # converted twice on Windows
    (b"a\x0bb\x0c\xc2\x85\xe2\x80\xa8c\n", ["a\x0bb\x0c\x85\u2028c"]),
    (b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n", ["\ufeffa", "\ufeffb"]),
  ],
)
def test_carriage_returns_never_join_words(content, lines, path):
  path.write_bytes(content)
  assert _lines(path) == lines
  first = [line.removeprefix("\ufeff") for line in lines[:1]]
  plain = [line.replace("\r", " ") for line in [*first, *lines[1:]]]
  assert [*textfiles.text_lines(str(path))] == plain
  if begin := content.find(b"\n") + 1:
    assert _lines(path, begin) == lines[1:]
  compressed = path.with_suffix(".gz")
  compressed.write_bytes(gzip.compress(content))
  assert _lines(compressed) == lines


@pytest.mark.parametrize(
  ("content", "message"),
  [
    ("a\n".encode("utf-16"), "UTF-16: save it as UTF-8"),
    (gzip.compress(b"a", mtime=0), "compressed: .* ends with .gz"),
    (b"PK\3\4\xff", "a workbook .* or an archive"),
    (b"%PDF-1.4\n\xff", "a PDF: extract its text"),
  ],
)
def test_an_error_says_what_a_file_that_is_not_text_is(path, content, message):
  path.write_bytes(content)
  with pytest.raises(UserError, match=rf"text\.tsv is {message}"):
    _lines(path)


@pytest.mark.parametrize("name", ["a", "a.gz"])
def test_an_error_names_the_line_of_a_bad_byte_in_a_large_file(tmp_path, name):
  path = tmp_path / name
  content = b"".join(b"%d\n" % (i * i) for i in range(260_000))
  path.write_bytes(gzip.compress(content, 1) if "gz" in name else content)
  size = len(content)
  assert size > 2.5 * MEGABYTE
  offsets = [0, 1, 2, MEGABYTE - 1, MEGABYTE, MEGABYTE + 1, 2 * MEGABYTE + 7]
  for offset in [*offsets, size - 1, size]:
    number = textfiles.line_number(str(path), offset)
    assert number == 1 + content[:offset].count(b"\n")
  if name == "a":
    path.write_bytes(content + b"ab\xff\n")
    for begin in (0, content.rindex(b"\n", 0, 2 * MEGABYTE) + 1):
      with pytest.raises(UserError, match=rf"60001: byte {size + 2} .*0xff"):
        _lines(path, begin)


# --- JSON lines --------------------------------------------------------------

# The lines of a text in JSON end at the same characters as in a text file.
TEXT = "one\ntwo\u2028still two\x0b\x0c\x1c\x85\u2029.\n\n four"
LINES = ["one", "two\u2028still two\x0b\x0c\x1c\x85\u2029.", "", " four"]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\n\n \n"])
@pytest.mark.parametrize("last", [True, False])
@pytest.mark.parametrize("escapes", [True, False])
def test_a_text_in_json_lines_is_split_into_lines(tmp_path, end, last, escapes):
  """Each row begins with a byte order mark, as after joining several files."""
  rows = [
    json.dumps({"text": text, "n": 0}, ensure_ascii=escapes)
    for text in (TEXT, "", "a\r\nb")
  ]
  content = end.join(f"\ufeff{row}" for row in rows) + end * last
  (tmp_path / "a").write_text(content, "utf-8", newline="")
  for lines in (textfiles.lines(str(tmp_path / "a")), content.split("\n")):
    texts = textfiles.json_texts("a pipe", "text", iter(lines))
    assert [*texts] == [LINES, [""], ["a", "b"]]


def test_an_error_names_the_line_of_a_pipe():
  with pytest.raises(UserError, match="pipe, line 2 is not a JSON object"):
    [*textfiles.json_objects("a pipe", ["{}", "[1]"])]


# --- Compressed files ---------------------------------------------------------


def _compressed(name, data):
  if name.endswith(".gz"):
    return gzip.compress(data)
  zstd = pytest.importorskip("backports.zstd")
  # The command `zstd` adds a checksum, too.
  options = {zstd.CompressionParameter.checksum_flag: 1}
  return zstd.compress(data, options=options)


@pytest.mark.parametrize("name", ["Text mit Blank.gz", "文.zst"])
def test_compressed_files_are_decompressed(name, tmp_path):
  path = tmp_path / name
  text = "one\r\ntwo\n" * 50_000 + "three"
  path.write_bytes(_compressed(name, text.encode()))
  assert _lines(path) == ["one", "two"] * 50_000 + ["three"]
  # A file may consist of several compressed files, one after another.
  lines = ["one", Random(1).randbytes(9000).hex(), "two"]
  parts = [_compressed(name, f"{line}\n".encode()) for line in lines]
  path.write_bytes(b"".join(parts))
  assert _lines(path) == lines


@pytest.mark.parametrize("name", ["a.gz", "a.zst"])
def test_a_corrupt_or_not_utf8_compressed_file_is_reported(name, tmp_path):
  path = tmp_path / name
  path.write_bytes(_compressed(name, b"fine\nol\xe9\n"))
  with pytest.raises(UserError, match=r"line 2: byte 7 of the file \(0xe9\)"):
    _lines(path)
  intact = _compressed(name, bytes(range(128)) * 999)
  for content in (intact[:-9], intact[:40] + b"xyz" + intact[43:], b"no such"):
    path.write_bytes(content)
    with pytest.raises(UserError, match=rf"{name} cannot be read to its end"):
      _lines(path)


def test_an_error_says_how_to_install_a_missing_package(tmp_path, monkeypatch):
  monkeypatch.delattr("backports.zstd", raising=False)
  monkeypatch.setitem(sys.modules, "backports.zstd", None)
  (tmp_path / "a.zst").write_bytes(b"")
  with pytest.raises(UserError, match=r"a\.zst takes .* `pip install backpo"):
    _lines(tmp_path / "a.zst")
