import io
from pathlib import Path
from random import Random

import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from data import features
from storage import tfrecord
from storage.tfrecord import Feature, Schema

INT64 = st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(0, 300)
FLOAT = st.floats(width=32, allow_nan=False)
MIXED = Schema(
  Feature("ids", (3,)), Feature("weights", (2,), "float32"), Feature("n", ())
)


def _example(serialized):
  example = tf.train.Example.FromString(serialized)
  return {
    name: list(
      feature.float_list.value
      if feature.WhichOneof("kind") == "float_list"
      else feature.int64_list.value
    )
    for name, feature in example.features.feature.items()
  }


@given(
  st.lists(INT64, min_size=3, max_size=3),
  st.lists(FLOAT, min_size=2, max_size=2),
  INT64,
)
def test_an_example_is_read_back(ids, weights, n):
  fields = {"ids": ids, "weights": weights, "n": [n]}
  assert _example(tfrecord.ExampleEncoder(MIXED)(fields)) == fields


def test_features_are_written_in_the_order_of_the_schema():
  schema = features.pretraining(8, 2)
  fields = {name: [0] * f.size for name, f in reversed(schema.items())}
  record = tfrecord.ExampleEncoder(schema)(fields)
  positions = [record.index(name.encode()) for name in schema]
  assert positions == sorted(positions)


@pytest.mark.parametrize(
  ("change", "message"),
  [
    ({"ids": [1, 2]}, "ids: expected 3 values, got 2"),
    ({"ids": [1, 2, 1 << 63]}, "ids: 9223372036854775808 does not fit"),
    ({"ids": [1, 2, "a"]}, "ids: "),
    ({"weights": ["a", 1.0]}, "weights: "),
    ({"other": [1]}, "the record has the fields"),
  ],
)
def test_wrong_fields_are_named(change, message):
  fields = {"ids": [1, 2, 3], "weights": [1.0, 2.0], "n": [1]}
  with pytest.raises(ValueError, match=message):
    tfrecord.ExampleEncoder(MIXED)(fields | change)


def test_the_checksum_is_masked_crc32c():
  # The mask of the check value of the catalogue of CRCs, 0xE3069283.
  expected = (0x2507C60D + 0xA282EAD8).to_bytes(4, "little")
  assert tfrecord.masked_crc32c(b"123456789") == expected


@settings(max_examples=20)
@given(st.lists(st.binary(min_size=4) | st.just(b"ab" * 3000), min_size=1))
def test_files_are_those_that_tensorflow_writes(tmp_path_factory, records):
  lengths = (4, 1023, 1024, 1025, 5000, *range(5, 305))
  records = [*records, *map(Random(1).randbytes, lengths)]
  path = str(tmp_path_factory.mktemp("frames") / "file")
  with tf.io.TFRecordWriter(path) as writer:
    for record in records:
      writer.write(record)
  file = io.BytesIO()
  assert tfrecord.write(file, iter(records)) == len(records)
  assert file.getvalue() == Path(path).read_bytes()


def test_save_writes_a_file(tmp_path):
  path = str(tmp_path / "file")
  rows = [{"n": [i]} for i in range(3)]
  assert tfrecord.save(path, Schema(Feature("n", ())), iter(rows)) == 3
  dataset = tf.data.TFRecordDataset(path)
  assert [_example(r) for r in dataset.as_numpy_iterator()] == rows
  assert tfrecord.save(path, Schema(Feature("n", ())), []) == 0


def test_a_failed_save_leaves_nothing(tmp_path):
  with pytest.raises(ValueError, match="expected 1"):
    tfrecord.save(
      str(tmp_path / "file"), Schema(Feature("n", ())), [{"n": [1, 2]}]
    )
  assert list(tmp_path.iterdir()) == []
