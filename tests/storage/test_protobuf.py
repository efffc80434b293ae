"""Records and indexes read without TensorFlow are those that it writes."""

import pytest
import tensorflow as tf

from storage import tfrecord
from tests.parity.golden_files import GOLDEN
from training import run_record

FIELDS = {
  "ids": [1, -5, 300, 2**62],
  "weights": [0.5, -1.0],
  "texts": [b"a", b""],
  "none": [],
}


def _example():
  lists = {
    "ids": tf.train.Feature(int64_list={"value": FIELDS["ids"]}),
    "weights": tf.train.Feature(float_list={"value": FIELDS["weights"]}),
    "texts": tf.train.Feature(bytes_list={"value": FIELDS["texts"]}),
    "none": tf.train.Feature(int64_list={"value": []}),
  }
  example = tf.train.Example(features={"feature": lists})
  return example.SerializeToString()


def test_an_example_has_its_values():
  assert tfrecord.parse_example(_example()) == FIELDS


def test_a_message_that_is_cut_off_is_an_error():
  with pytest.raises(tfrecord.PARSE_ERRORS):
    tfrecord.parse_example(_example()[:-3])


def test_shapes_are_those_that_tensorflow_reads(tmp_path):
  golden = str(GOLDEN / "training/bert_model.ckpt")
  expected = tf.train.load_checkpoint(golden).get_variable_to_shape_map()
  assert run_record.checkpoint_shapes(f"{golden}.index") == {
    name: tuple(shape) for name, shape in expected.items()
  }
  (tmp_path / "index").write_bytes(b"of another kind")
  assert run_record.checkpoint_shapes(str(tmp_path / "index")) == {}
