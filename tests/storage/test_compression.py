"""Compressed texts: reading, positions, and corruption."""

import gzip
import sys
from random import Random

import pytest

from storage import textfiles


@pytest.mark.parametrize("name", ["Text mit Blank.gz", "文.zst"])
def test_compressed_files_are_decompressed(name, tmp_path):
  path = tmp_path / name
  text = "one\r\ntwo\n" * 50_000 + "three"
  path.write_bytes(_compressed(name, text.encode()))
  result = list(textfiles.lines(str(path)))
  assert result == ["one", "two"] * 50_000 + ["three"]
  path.write_bytes(_compressed(name, b"fine\nol\xe9\n"))
  with pytest.raises(ValueError, match=r"line 2: byte 7 of the file \(0xe9\)"):
    list(textfiles.lines(str(path)))


def test_several_compressed_files_in_one(tmp_path):
  lines = ["one", Random(1).randbytes(9000).hex(), "two"]
  for name in ("a.gz", "a.zst"):
    parts = [_compressed(name, f"{line}\n".encode()) for line in lines]
    (tmp_path / name).write_bytes(b"".join(parts))
    assert list(textfiles.lines(str(tmp_path / name))) == lines


@pytest.mark.parametrize("name", ["a.gz", "a.zst"])
def test_a_corrupt_compressed_file_is_named(name, tmp_path):
  path = tmp_path / name
  intact = _compressed(name, bytes(range(128)) * 999)
  for content in (intact[:-9], intact[:40] + b"xyz" + intact[43:], b"no such"):
    path.write_bytes(content)
    with pytest.raises(ValueError, match=rf"{name} cannot be read to its end"):
      list(textfiles.lines(str(path)))


def test_a_missing_package_is_named_with_its_remedy(tmp_path, monkeypatch):
  monkeypatch.delattr("backports.zstd", raising=False)
  monkeypatch.setitem(sys.modules, "backports.zstd", None)
  (tmp_path / "a.zst").write_bytes(b"")
  with pytest.raises(ValueError, match=r"a\.zst takes .* `pip install backpo"):
    list(textfiles.lines(str(tmp_path / "a.zst")))


def _compressed(name, data):
  if name.endswith(".gz"):
    return gzip.compress(data)
  zstd = pytest.importorskip("backports.zstd")
  # The command line tool adds a checksum, too.
  options = {zstd.CompressionParameter.checksum_flag: 1}
  return zstd.compress(data, options=options)
