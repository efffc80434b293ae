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
from tests.parity.golden_files import GOLDEN, parse
from training import checkpoint_files

INT64 = st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(0, 300)
FLOAT = st.floats(width=32, allow_nan=False, allow_infinity=False)
WEIGHTS = Feature("weights", (2,), "float32")
MIXED = Schema(Feature("ids", (3,)), WEIGHTS, Feature("n", ()))


@given(st.tuples(INT64, INT64, INT64), st.tuples(FLOAT, FLOAT), INT64)
def test_an_encoded_example_is_read_back_unchanged(ids, weights, n):
  fields = {"ids": [*ids], "weights": [*weights], "n": [n]}
  assert parse(tfrecord.ExampleEncoder(MIXED)(fields)) == fields


def test_features_are_written_in_the_order_of_the_schema():
  schema = features.pretraining(8, 2)
  fields = {name: [0] * f.size for name, f in reversed(schema.items())}
  record = tfrecord.ExampleEncoder(schema)(fields)
  positions = [record.index(name.encode()) for name in schema]
  assert positions == sorted(positions)


@settings(max_examples=20)
@given(st.lists(st.binary(min_size=4) | st.just(b"ab" * 3000), min_size=1))
def test_record_files_equal_the_files_of_tensorflow(tmp_path_factory, records):
  lengths = (4, 1023, 1024, 1025, 5000, *range(5, 305))
  records = [*records, *map(Random(1).randbytes, lengths)]
  path = str(tmp_path_factory.mktemp("frames") / "file")
  with tf.io.TFRecordWriter(path) as writer:
    for record in records:
      writer.write(record)
  file = io.BytesIO()
  written = tfrecord.RecordFile(file)
  written.write(iter(records))
  assert written.records == len(records)
  assert file.getvalue() == Path(path).read_bytes()


def test_save_writes_a_complete_file_or_no_file(tmp_path):
  path, schema = str(tmp_path / "file"), Schema(Feature("n", ()))
  rows = [{"n": [i]} for i in range(3)]
  tfrecord.save(path, schema, iter(rows))
  assert [parse(x.numpy()) for x in tf.data.TFRecordDataset(path)] == rows
  tfrecord.save(path, schema, [])
  assert not Path(path).read_bytes()
  with pytest.raises(KeyError):
    tfrecord.save(f"{path} of nothing", schema, [{"other": [1]}])
  assert {path.name for path in tmp_path.iterdir()} == {"file", ".file.blocks"}


# --- TensorFlow's protocol buffers, read without TensorFlow ------------------

FIELDS = {
  "ids": ("int64_list", [1, -5, 300, 2**62]),
  "weights": ("float_list", [0.5, -1.0]),
  "texts": ("bytes_list", [b"a", b""]),
  "none": ("int64_list", []),
}


def test_an_example_that_tensorflow_wrote_is_parsed():
  lists = {
    name: tf.train.Feature(**{kind: {"value": values}})
    for name, (kind, values) in FIELDS.items()
  }
  example = tf.train.Example(features={"feature": lists}).SerializeToString()
  expected = {name: values for name, (_, values) in FIELDS.items()}
  assert tfrecord.parse_example(example) == expected
  with pytest.raises(ValueError):
    tfrecord.parse_example(example[:-3])


def test_shapes_in_a_checkpoint_equal_shapes_that_tensorflow_reads(tmp_path):
  golden = str(GOLDEN / "training/bert_model.ckpt")
  expected = tf.train.load_checkpoint(golden).get_variable_to_shape_map()
  assert checkpoint_files.shapes(golden) == {
    name: tuple(shape) for name, shape in expected.items()
  }
  (tmp_path / "x.index").write_bytes(b"of another kind")
  assert checkpoint_files.shapes(str(tmp_path / "x")) == {}
