"""Shapes in a checkpoint's index are those that TensorFlow reads."""

import tensorflow as tf

from storage import checkpoint_index
from tests.parity.golden_files import GOLDEN


def test_shapes_are_those_that_tensorflow_reads(tmp_path):
  golden = str(GOLDEN / "training/bert_model.ckpt")
  expected = tf.train.load_checkpoint(golden).get_variable_to_shape_map()
  assert checkpoint_index.shapes(f"{golden}.index") == {
    name: tuple(shape) for name, shape in expected.items()
  }
  (tmp_path / "index").write_bytes(b"of another kind")
  assert checkpoint_index.shapes(str(tmp_path / "index")) == {}
