import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from storage import UserError, processes, record_scan, tfrecord
from storage.record_scan import Head
from storage.tfrecord import Feature, Schema

# --- Offsets ---------------------------------------------------------------


def _write(path, number, size=50):
  frames = (tfrecord.frame(b"%07d" % i + b"x" * size) for i in range(number))
  Path(path).write_bytes(b"".join(frames))
  return str(path)


@pytest.fixture(name="paths")
def _paths(tmp_path):
  return [_write(tmp_path / f"{n}", n) for n in (1, 256, 1000)]


@pytest.fixture(name="scanned")
def _scanned(monkeypatch):
  """Lists the paths that are scanned."""
  scan, paths = record_scan._scan, []
  monkeypatch.setattr(
    record_scan, "_scan", lambda x: paths.append(x) or scan(x)
  )
  return paths


def test_an_index_has_the_offset_of_each_block_of_256_records(paths):
  index = record_scan.load_index(paths)
  assert index.records == 1257
  assert index.file.tolist() == [0, 1, 2, 2, 2, 2]
  assert index.count.tolist() == [1, 256, 256, 256, 256, 232]
  blocks = [i * 256 * 73 for i in range(4)]  # a record has 73 bytes
  assert index.offset.tolist() == [0, 0, *blocks]
  # A file may be listed twice.
  index = record_scan.load_index([paths[2], paths[0], paths[2]])
  assert index.file.tolist() == [0] * 4 + [1] + [2] * 4
  assert index.offset.tolist() == [*blocks, 0, *blocks]


def test_a_cached_index_is_used_until_a_file_changes(paths, tmp_path, scanned):
  cache = str(tmp_path / "new" / "index.npz")
  first = record_scan.load_index(paths, cache)
  again = record_scan.load_index(paths[::-1], cache)
  assert sorted(scanned) == sorted(paths)
  written = os.stat(cache).st_mtime_ns
  assert again.records == first.records
  np.testing.assert_array_equal(again.offset[:4], first.offset[2:])
  assert os.stat(cache).st_mtime_ns == written
  _write(paths[1], 300)
  assert record_scan.load_index(paths, cache).records == 1 + 300 + 1000
  assert scanned[3:] == [paths[1]]
  # A file that changed is scanned again, even if its size is the same.
  before = os.stat(paths[1])
  _write(paths[1], 1, before.st_size - 16 - 7)  # 16 bytes frame 7 digits
  assert os.path.getsize(paths[1]) == before.st_size
  assert record_scan.load_index(paths, cache).records == 1 + 1 + 1000
  record_scan.load_index(paths, cache)  # a new entry is cached, too
  assert scanned[4:] == [paths[1]]


def test_an_empty_file_has_no_blocks(tmp_path):
  paths = [str(tmp_path / "empty"), _write(tmp_path / "a", 300)]
  (tmp_path / "empty").touch()
  index = record_scan.load_index(paths, str(tmp_path / "index.npz"))
  assert (index.file.tolist(), index.count.tolist()) == ([1, 1], [256, 44])


# --- Corrupt records -------------------------------------------------------

SCHEMA = Schema(Feature("ids", (3,)), Feature("label", ()))
NUMBER = 600  # records, in three blocks


@pytest.fixture(name="path")
def _path(tmp_path):
  path = str(tmp_path / "a.tfrecord")
  rows = ({"ids": [n, 300 + n, 1], "label": [n % 2]} for n in range(NUMBER))
  tfrecord.save(path, SCHEMA, rows)
  return path


def _starts(path):
  """Returns the offset of each record, and the size of the file."""
  content = Path(path).read_bytes()
  starts = [0]
  while starts[-1] < len(content):
    length = int.from_bytes(content[starts[-1] : starts[-1] + 8], "little")
    starts.append(starts[-1] + length + 16)
  return starts


def _flip(path, *offsets):
  content = bytearray(Path(path).read_bytes())
  for offset in offsets:
    content[offset] ^= 16
  Path(path).write_bytes(content)


def _records(path):
  return [result.data for result in record_scan.scan(path, SCHEMA)]


def test_an_intact_file_has_no_error(path):
  assert record_scan.first_corrupt([path], SCHEMA) is None
  assert len(_records(path)) == NUMBER
  assert record_scan.drop_corrupt([path], SCHEMA, f"{path}.d", 0) == {}


def test_records_with_flipped_bits_are_reported_and_left_out(
  path, tmp_path, monkeypatch
):
  good = _records(path)
  with tfrecord.create(path, "mark") as file:
    file.write(good)
  starts = _starts(path)
  _flip(path, starts[300] + 20, starts[400] + 15)  # within their data
  message = record_scan.first_corrupt([path], SCHEMA)
  assert message.startswith(f"{path}, record 300: its checksum is wrong. ")
  with pytest.raises(ValueError, match=r"2 corrupt .*=1 .* record 300: its"):
    record_scan.drop_corrupt([path], SCHEMA, str(tmp_path), 1)
  [copy] = record_scan.drop_corrupt([path], SCHEMA, str(tmp_path), 2).values()
  assert record_scan.read_index(copy)[1] == "mark"
  del good[400], good[300]
  assert _records(copy) == good
  monkeypatch.setattr(processes, "is_chief", lambda: False)
  os.truncate(copy, 0)  # another worker reads what the chief has copied
  record_scan.drop_corrupt([path], SCHEMA, str(tmp_path), 2)
  assert not os.path.getsize(copy)


def test_copies_of_two_files_of_one_name_have_different_names(path, tmp_path):
  (tmp_path / "dev").mkdir()
  _flip(path, _starts(path)[7] + 20)
  files = [path, shutil.copy(path, tmp_path / "dev")]
  copies = record_scan.drop_corrupt(files, SCHEMA, str(tmp_path), 2)
  assert copies[files[0]] != copies[files[1]]


def test_the_error_about_a_truncated_file_names_its_last_record(path, tmp_path):
  starts = _starts(path)
  # Within the checksum, the data and the length of the last record.
  for end in (starts[-1] - 2, starts[-2] + 14, starts[-2] + 5):
    os.truncate(path, end)
    with pytest.raises(UserError, match="record 599: the file ends within it"):
      record_scan.load_index([path])
  [copy] = record_scan.drop_corrupt([path], SCHEMA, str(tmp_path), 1).values()
  assert len(_records(copy)) == NUMBER - 1


def test_a_file_with_a_wrong_record_length_gets_no_copy(path, tmp_path):
  _flip(path, _starts(path)[5] + 7)  # the highest byte of the length
  for read in (
    lambda: record_scan.drop_corrupt([path], SCHEMA, str(tmp_path), 1),
    lambda: record_scan.load_index([path]),
  ):
    with pytest.raises(UserError, match="record 5: its length is wrong"):
      read()
  assert sorted(os.listdir(tmp_path)) == [".a.tfrecord.blocks", "a.tfrecord"]


def test_records_that_do_not_fit_the_schema_are_refused(tmp_path):
  path = str(tmp_path / "b.tfrecord")
  schema = Schema(Feature("ids", (2,)), Feature("label", ()))
  record = tfrecord.ExampleEncoder(schema)({"ids": [1, 2], "label": [0]})
  with tfrecord.create(path) as file:
    file.write([record, b"\xff" * 9])
  errors = [result.error for result in record_scan.scan(path, SCHEMA)]
  expected = ["ids has 2 values, expected 3", "it is not a tf.train.Example"]
  assert errors == expected


def test_the_head_of_a_file_is_its_first_intact_record(path):
  _flip(path, *(start + 20 for start in _starts(path)[:5]))
  record = {"ids": [5, 305, 1], "label": [1]}
  assert record_scan.read_head(path) == Head(path, record, None)


def test_a_record_may_cross_the_border_between_two_reads(tmp_path, monkeypatch):
  path = _write(tmp_path / "a", 300, 293)  # a record has 316 bytes
  for inside in range(25):  # the first read ends so many bytes after record 0
    monkeypatch.setattr(record_scan, "_PIECE", 316 + inside)
    index = record_scan.load_index([path])
    assert [*index.offset, *index.count] == [0, 256 * 316, 256, 44]


# --- Indexes in files next to the records ------------------------------------


def _build(path, number, vocabulary=None):
  with tfrecord.create(str(path), vocabulary) as file:
    file.write(b"%07d" % i * (1 + i % 3) for i in range(number))
  return str(path)


@pytest.mark.parametrize("number", [0, 1, 255, 256, 257, 1000])
def test_an_index_equals_the_result_of_a_scan(number, tmp_path, scanned):
  path = _build(tmp_path / "a", number, "mark")
  index = record_scan.load_index([path])
  assert not scanned
  os.remove(tfrecord.index_path(path))
  expected = record_scan.load_index([path])
  assert scanned == [path]
  assert index.offset.tolist() == expected.offset.tolist()
  assert index.count.tolist() == expected.count.tolist()
  assert index.records == number


def test_an_index_is_valid_for_copies_and_links_of_its_file(tmp_path, scanned):
  os.symlink(_build(tmp_path / "a", 300), tmp_path / "link")
  (tmp_path / "other").mkdir()
  for name in ("a", ".a.blocks"):
    copy = shutil.copyfile(tmp_path / name, tmp_path / "other" / name)
    os.utime(copy, (1, 1))
  paths = [str(tmp_path / name) for name in ("other/a", "link")]
  assert record_scan.load_index(paths).records == 600
  assert not scanned


@pytest.mark.parametrize(
  "change",
  [
    lambda content: content + content[:23],  # one more record
    lambda content: content[:-67] + content[-37:] + content[-67:-37],
  ],
)
def test_a_file_unlike_its_index_is_scanned(change, tmp_path, scanned):
  path = Path(_build(tmp_path / "a", 300, "mark"))
  assert record_scan.read_index(str(path))[1] == "mark"
  path.write_bytes(change(path.read_bytes()))
  assert record_scan.load_index([str(path)]).records >= 300
  assert record_scan.read_index(str(path))[1] is None
  assert scanned == [str(path)]


@pytest.mark.parametrize(
  ("old", "new"), [('"block":256', '"block":128'), ("{", "[")]
)
def test_a_corrupt_index_is_ignored(old, new, tmp_path, scanned):
  path = _build(tmp_path / "a", 300)
  index = Path(tfrecord.index_path(path))
  index.write_text(index.read_text().replace(old, new))
  assert record_scan.load_index([path]).records == 300
  assert scanned == [path]
