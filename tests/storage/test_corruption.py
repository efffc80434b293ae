"""Files of records that are not whole: what is named, and what is left."""

from pathlib import Path

import pytest

from storage import corruption, tfrecord
from storage.schema import Feature, Schema

SCHEMA = Schema(Feature("ids", (3,)), Feature("label", ()))
NUMBER = 600  # more than are checked together


@pytest.fixture(name="path")
def _path(tmp_path):
  path = str(tmp_path / "a.tfrecord")
  rows = ({"ids": [n, 300 + n, 1], "label": [n % 2]} for n in range(NUMBER))
  tfrecord.save(path, SCHEMA, rows)
  return path


def _starts(path):
  """Where each record begins, and the end of the file."""
  starts, content = [0], Path(path).read_bytes()
  while starts[-1] < len(content):
    length = int.from_bytes(content[starts[-1] : starts[-1] + 8], "little")
    starts.append(starts[-1] + length + 16)
  return starts


def _flip(path, *offsets):
  with open(path, "r+b") as file:
    for offset in offsets:
      file.seek(offset)
      byte = file.read(1)[0]
      file.seek(offset)
      file.write(bytes([byte ^ 16]))


def _records(path):
  return [result.data for result in corruption.scan(path, SCHEMA)]


def test_an_intact_file_has_no_error(path):
  assert corruption.first_corrupt([path], SCHEMA) is None
  assert len(_records(path)) == NUMBER
  assert corruption.drop_corrupt([path], SCHEMA, "nowhere", 0) == [path]


def test_flipped_bits_are_reported_and_left_out(path, tmp_path):
  good = _records(path)
  starts = _starts(path)
  _flip(path, starts[7] + 20, starts[400] + 15)
  message = corruption.first_corrupt([path], SCHEMA)
  assert message.startswith(f"{path}, record 7: its checksum is wrong. ")
  with pytest.raises(ValueError, match=r"2 records .* 1; .* record 7"):
    corruption.drop_corrupt([path], SCHEMA, str(tmp_path), 1)
  [copy] = corruption.drop_corrupt([path], SCHEMA, str(tmp_path), 2)
  assert copy != path
  del good[400], good[7]
  assert _records(copy) == good


def test_a_file_that_was_cut_off(path, tmp_path):
  starts = _starts(path)
  for end in (starts[-1] - 2, starts[-2] + 14, starts[-2] + 5):
    with open(path, "r+b") as file:
      file.truncate(end)
    assert "record 599: the file ends within it" in corruption.first_corrupt(
      [path], SCHEMA
    )
  [copy] = corruption.drop_corrupt([path], SCHEMA, str(tmp_path), 1)
  assert len(_records(copy)) == NUMBER - 1


def test_records_after_a_wrong_length_are_lost(path):
  _flip(path, _starts(path)[5] + 1)
  assert "record 5: its length is wrong" in corruption.first_corrupt(
    [path], SCHEMA
  )


def test_records_of_another_kind(tmp_path):
  path = str(tmp_path / "b.tfrecord")
  encode = tfrecord.ExampleEncoder(
    Schema(Feature("ids", (2,)), Feature("label", ()))
  )
  with open(path, "wb") as file:
    tfrecord.write(file, [encode({"ids": [1, 2], "label": [0]}), b"\xff" * 9])
  errors = [result.error for result in corruption.scan(path, SCHEMA)]
  assert errors == ["ids has 2 values, expected 3", "it is no tf.train.Example"]
  with pytest.raises(ValueError, match="no record that can be read"):
    corruption.drop_corrupt([path], SCHEMA, str(tmp_path), 2)
