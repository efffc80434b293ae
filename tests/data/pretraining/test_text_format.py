"""Whatever form a text has: the same sentences, or an error with its place."""

import gzip
import json

import pytest

from data import files
from data.pretraining.text_format import TextFormat

PROSE = "Owls hunt. They\nhunt at night.\r\n\n\nFoxes do, too. "


def _lines(path, *args, **options):
  return list(TextFormat(**options).lines(str(path), *args))


def test_the_originals_form_is_passed_on(tmp_path):
  path = tmp_path / "text"
  path.write_bytes(b"\xef\xbb\xbf one \r\n\n \ntwo")
  assert _lines(path) == ["\ufeff one ", "", " ", "two"]


@pytest.mark.parametrize(
  ("layout", "wanted"),
  [
    (
      "documents",
      ["Owls hunt.", "They hunt at night.", "Foxes do, too.", ""],
    ),
    (
      "paragraphs",
      ["Owls hunt.", "They hunt at night.", "", "Foxes do, too.", "", ""],
    ),
  ],
)
def test_prose_is_cut_into_sentences(layout, wanted, tmp_path):
  path = tmp_path / "text"
  path.write_bytes(PROSE.encode())
  assert _lines(path, layout=layout) == wanted
  rows = tmp_path / "rows"
  rows.write_text(json.dumps({"n": 1, "body": PROSE}) + "\n")
  assert _lines(rows, layout=layout, field="body") == wanted


def test_json_lines_have_a_document_each(tmp_path):
  path = tmp_path / "rows.jsonl"
  rows = ['{"text": "one\\ntwo"}', "", ' {"text": ""}', '{"text": "\\ud83e"}']
  path.write_text("\ufeff" + "\r\n".join(rows), encoding="utf-8")
  assert _lines(path, field="text") == ["one", "two", "", "", "", "\ufffd", ""]


@pytest.mark.parametrize(
  "row",
  [
    "{",
    "[1]",
    '"text"',
    "null",
    "{}",
    '{"text": 3}',
    "[" * 100_000,
    '{"text": ' + "1" * 5000 + "}",
  ],
)
@pytest.mark.parametrize("first", [0, 1])
def test_what_is_no_such_row_is_located(row, first, tmp_path):
  path = tmp_path / "rows.jsonl"
  good = '{"text": "a"}\n'
  path.write_text(good * 3 + row + "\n")
  with pytest.raises(ValueError, match=r"rows\.jsonl, line 4: not a JSON"):
    _lines(path, first * len(good), field="text")


@pytest.mark.parametrize("name", ["Text mit Blank.gz", "文.zst"])
def test_compressed_files_are_read_as_if_they_were_not(name, tmp_path):
  path = tmp_path / name
  text = "one\r\ntwo\n" * 50_000 + "three"
  path.write_bytes(_compressed(name, text.encode()))
  found = list(files.lines(str(path)))
  assert found == ["one", "two"] * 50_000 + ["three"]
  path.write_bytes(_compressed(name, b"fine\nol\xe9\n"))
  with pytest.raises(ValueError, match=r"line 2: byte 7 of the file \(0xe9\)"):
    list(files.lines(str(path)))


def test_several_compressed_files_in_one(tmp_path):
  for name in ("a.gz", "a.zst"):
    path = tmp_path / name
    path.write_bytes(_compressed(name, b"one\n") + _compressed(name, b"two\n"))
    assert list(files.lines(str(path))) == ["one", "two"]


@pytest.mark.parametrize("name", ["a.gz", "a.zst"])
def test_a_damaged_compressed_file_is_named(name, tmp_path):
  path = tmp_path / name
  whole = _compressed(name, bytes(range(128)) * 999)
  for content in (whole[:-9], whole[:40] + b"xyz" + whole[43:], b"no such"):
    path.write_bytes(content)
    with pytest.raises(ValueError, match=rf"{name} cannot be read to its end"):
      list(files.lines(str(path)))


def test_without_zstandard_the_remedy_is_named(tmp_path, monkeypatch):
  monkeypatch.setitem(__import__("sys").modules, "zstandard", None)
  (tmp_path / "a.zst").write_bytes(b"")
  with pytest.raises(ValueError, match=r"a\.zst takes .* `pip install zstand"):
    list(files.lines(str(tmp_path / "a.zst")))


def _compressed(name, data):
  if name.endswith(".gz"):
    return gzip.compress(data)
  zstandard = pytest.importorskip("zstandard")
  # As the command line tool does it, with a checksum.
  return zstandard.ZstdCompressor(write_checksum=True).compress(data)
