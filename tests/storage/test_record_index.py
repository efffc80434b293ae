"""Offsets of records, and their cache."""

import os

import numpy as np
import pytest

from storage import record_index, tfrecord


def _write(path, number, size=50):
  with open(path, "wb") as file:
    tfrecord.write(file, (b"%07d" % i + b"x" * size for i in range(number)))
  return str(path)


@pytest.fixture(name="paths")
def _paths(tmp_path):
  sizes = (1, 256, 1000)
  return [_write(tmp_path / f"{n}", n) for n in sizes]


def test_offsets_of_blocks(paths):
  index = record_index.load(paths)
  assert index.records == 1257
  assert index.file.tolist() == [0, 1, 2, 2, 2, 2]
  assert index.count.tolist() == [1, 256, 256, 256, 256, 232]
  assert index.offset.tolist()[2:] == [i * 256 * 73 for i in range(4)]
  assert [record_index.count(path) for path in paths] == [1, 256, 1000]


def test_records_larger_than_a_piece(tmp_path):
  path = _write(tmp_path / "large", 5, 3 << 20)
  assert record_index.count(path) == 5


def test_the_cache_is_used_until_a_file_changes(paths, tmp_path, monkeypatch):
  cache = str(tmp_path / "new" / "index.npz")
  first = record_index.load(paths, cache)
  looked = []
  blocks = record_index._blocks
  monkeypatch.setattr(
    record_index, "_blocks", lambda p: looked.append(p) or blocks(p)
  )
  again = record_index.load(paths[::-1], cache)
  assert not looked
  assert again.records == first.records
  np.testing.assert_array_equal(again.offset[:4], first.offset[2:])
  _write(paths[1], 300)
  assert record_index.load(paths, cache).records == 1301
  assert looked == [paths[1]]


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"\x93NUMPY\x01\x00"])
def test_a_corrupt_cache_is_ignored(content, paths, tmp_path):
  cache = tmp_path / "index.npz"
  cache.write_bytes(content)
  assert record_index.load(paths, str(cache)).records == 1257
  assert record_index.load(paths, str(cache)).records == 1257


@pytest.mark.parametrize(
  ("change", "message"),
  [
    (lambda data: data[:-1], "record 99: the file ends within it"),
    (lambda data: data[:5], "record 0: the file ends within it"),
    (lambda data: data[:730] + b"\xff" * 8 + data[738:], "record 10: the file"),
    (lambda data: b"", "holds no record"),
  ],
)
def test_a_truncated_file_is_named(change, message, tmp_path):
  path = _write(tmp_path / "a", 100)
  data = (tmp_path / "a").read_bytes()
  (tmp_path / "a").write_bytes(change(data))
  with pytest.raises(ValueError, match=f"a,? {message}"):
    record_index.load([path])
  assert os.listdir(tmp_path) == ["a"]
