"""What is traced once: a chain for each signature, a block for all like it."""

import keras
import tensorflow as tf

from modeling import tracing

_traced = []


def _chain(x, y=None, *, factor):
  _traced.append((x.dtype, factor))
  return x * factor if y is None else x * factor + y


def _run(*tensors, dtype="float32", factor=2.0):
  return tracing.run_compiled(_chain, *tensors, dtype=dtype, factor=factor)


def test_a_chain_is_traced_once_for_each_signature():
  _traced.clear()
  ones, half = tf.ones([2, 3]), tf.ones([2, 3], "float16")
  for _ in range(3):
    for tensor in (ones, ones + 1.0, tf.zeros([2, 3])):
      _run(tensor)
  assert len(_traced) == 1
  for number, call in enumerate(
    (
      lambda: _run(tf.ones([4])),
      lambda: _run(half),
      lambda: _run(ones, dtype="float16"),
      lambda: _run(ones, factor=3.0),
      lambda: _run(ones, ones),
      lambda: _run(ones, None, factor=4.0),
    ),
    2,
  ):
    results = [call().numpy().tolist() for _ in range(2)]
    assert results[0] == results[1]
    assert len(_traced) == number


class _Scale(keras.layers.Layer):
  """Multiplies by a weight."""

  def __init__(self, value):
    super().__init__()
    self.value = value

  def build(self, shape):
    constant = keras.initializers.Constant(self.value)
    self.weight = self.add_weight((), constant)


def test_layers_like_another_have_its_graph():
  traced = []

  def multiply(layer, x, *_):
    traced.append(layer)
    return x * layer.weight

  layers = [_Scale(value) for value in (2.0, 3.0, 5.0)]
  for layer in layers:
    layer.build(None)
  first, *_ = layers
  for _ in range(2):
    for layer in layers:
      result = tracing.call_function(multiply, layer, first, tf.ones([2]))
      assert result.numpy().tolist() == [layer.value] * 2
  assert traced == [first]


def test_the_mode_counts_before_the_environment(monkeypatch):
  """Also if it says False."""
  for setting in ("", "0", "1"):
    monkeypatch.setenv("BERT_FUSED_OPS", setting)
    for fused in (False, True):
      with tracing.mode(fused=fused):
        assert tracing.is_fused() is fused
    with tracing.mode(fused=None):
      assert tracing.is_fused() is (setting != "0")
