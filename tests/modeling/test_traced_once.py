"""A chain is traced once per signature, and equal blocks share a trace."""

import dataclasses

import numpy as np
import tensorflow as tf

from modeling import models, tracing
from modeling.layers import TransformerBlock
from tests.training import toy

CONFIG = toy.config(0.5)
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


def test_blocks_like_another_have_its_graph(monkeypatch):
  """Each block has separate weights and separate dropout numbers."""
  config = dataclasses.replace(CONFIG, num_hidden_layers=3)
  bert = models.encoder(config).get_layer("bert")
  traced = []
  original = TransformerBlock.call

  def call(block, *args, **options):
    traced.append(block)
    return original(block, *args, **options)

  monkeypatch.setattr(TransformerBlock, "call", call)
  hidden, mask = tf.ones([2, 5, config.hidden_size]), tf.ones([2, 1, 5])
  results = []
  for fused in (True, False):
    with tracing.mode(fused=fused), tracing.DropoutSeeds([1, 2]) as seeds:
      results.append(bert.encoder(hidden, mask, training=True))
    assert seeds.count == 9
  for shared, own in zip(*results, strict=True):
    np.testing.assert_allclose(shared, own, atol=1e-6)
  assert traced == [bert.encoder.blocks[0], *bert.encoder.blocks]
