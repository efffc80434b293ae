"""Reading without TensorFlow gives the records that TensorFlow writes."""

import pytest
import tensorflow as tf

from storage import messages
from tests.parity.golden_files import GOLDEN
from training import checkpoint_files

FIELDS = {
  "ids": ("int64_list", [1, -5, 300, 2**62]),
  "weights": ("float_list", [0.5, -1.0]),
  "texts": ("bytes_list", [b"a", b""]),
  "none": ("int64_list", []),
}


def test_an_example_has_its_values():
  lists = {
    name: tf.train.Feature(**{kind: {"value": values}})
    for name, (kind, values) in FIELDS.items()
  }
  example = tf.train.Example(features={"feature": lists}).SerializeToString()
  expected = {name: values for name, (_, values) in FIELDS.items()}
  assert messages.parse_example(example) == expected
  with pytest.raises(messages.DecodeError):
    messages.parse_example(example[:-3])


def test_shapes_are_those_that_tensorflow_reads(tmp_path):
  golden = str(GOLDEN / "training/bert_model.ckpt")
  expected = tf.train.load_checkpoint(golden).get_variable_to_shape_map()
  assert checkpoint_files.shapes(golden) == {
    name: tuple(shape) for name, shape in expected.items()
  }
  (tmp_path / "x.index").write_bytes(b"of another kind")
  assert checkpoint_files.shapes(str(tmp_path / "x")) == {}
