from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf

from modeling import fused_ops, models, tracing
from modeling.fused_ops import uniform_bits
from modeling.layers import TransformerBlock
from tests.modeling.every_model import CONFIG, assert_close, pretraining_batch
from tests.training import toy


def _normal(*shape):
  return tf.constant(np.random.default_rng(3).normal(size=shape), tf.float32)


def _integers(high, *shape):
  return tf.constant(np.random.default_rng(4).integers(0, high, shape), "int32")


def _always(operation):
  """Adds an unused argument `training` to an operation."""
  return lambda *tensors, training, **options: operation(*tensors, **options)


INPUT, RESIDUAL = _normal(2, 3, 8), _normal(2, 3, 8)[::-1]
SCALES = (1.0 + 0.1 * _normal(8), _normal(8))
DENSE = (INPUT, _normal(8, 5), _normal(5))
TRANSPOSED = (INPUT, _normal(5, 8), _normal(5))
NORM = (INPUT, RESIDUAL, *SCALES)
BARE_NORM = (INPUT, None, *SCALES)
ATTENTION = (_normal(2, 3, 4, 4), _integers(2, 2, 4, 4))
TO_PADDING = (ATTENTION[0], tf.zeros([2, 1, 4], tf.int32))
LABELS = (10.0 * _normal(2, 3, 8), _integers(8, 2, 3))
dense, norm = fused_ops.dense, fused_ops.dropout_add_layer_norm
softmax, linear = fused_ops.masked_softmax, _always(fused_ops.linear)
CALLS = {
  "gelu": (dense, DENSE, {"activation": "gelu"}),
  "gelu_erf": (dense, DENSE, {"activation": "gelu_erf"}),
  "relu": (dense, DENSE, {"activation": "relu"}),
  "linear": (dense, DENSE, {}),
  "linear transposed": (linear, TRANSPOSED, {"transpose_b": True}),
  "dropout": (fused_ops.dropout, (_normal(4, 6),), {"rate": 0.5}),
  "norm": (norm, NORM, {"rate": 0.3}),
  "norm without dropout": (norm, NORM, {"rate": 0.0}),
  "norm without residual and dropout": (norm, BARE_NORM, {"rate": 0.0}),
  "attention": (softmax, ATTENTION, {"scale": 0.5}),
  "attention to padding alone": (softmax, TO_PADDING, {"scale": 0.5}),
  "cross entropy": (_always(fused_ops.cross_entropy), LABELS, {}),
}


@pytest.fixture(name="form", params=["plain", "fused"])
def _form(request):
  with tracing.mode(fused=request.param == "fused"):
    yield request.param


def _is_number(tensor):
  return tensor is not None and tensor.dtype.is_floating


def _run(operation, tensors, options, upstream=None):
  """Returns the output and the gradients; 0.0 stands for no gradient.

  The gradient of the output is `upstream`, or depends on the output.
  """
  watched = [*filter(_is_number, tensors)]
  with tf.GradientTape() as tape, tracing.dropout_seeds([5, 7]):
    tape.watch(watched)
    output = operation(*tensors, **options, training=True)
  if upstream is None:
    upstream = 2.0 * output + 0.5
  gradients = tape.gradient(output, watched, tf.cast(upstream, output.dtype))
  return output, [0.0 if g is None else g for g in gradients]


@pytest.mark.parametrize(
  ("in_graph", "min_size"), [(False, 0), (True, 0), (True, 1000)]
)
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_fused_and_plain_operations_give_equal_results(
  call, in_graph, min_size, monkeypatch
):
  monkeypatch.setattr(tracing, "MIN_COMPILED_SIZE", min_size)
  with tracing.mode(fused=False):
    plain, gradients = _run(*call)
  with tracing.mode(fused=True):
    run = tf.function(_run) if in_graph else _run
    fused, fused_gradients = run(*call)
    operation, tensors, options = call
    inference = operation(*tensors, **options, training=False)
  assert fused.dtype == plain.dtype
  np.testing.assert_allclose(fused, plain, atol=2e-6)
  if not options.get("rate"):
    np.testing.assert_allclose(inference, plain, atol=2e-6)
  for result, expected in zip(fused_gradients, gradients, strict=True):
    np.testing.assert_allclose(result, expected, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("size", [4, tracing.MIN_COMPILED_SIZE])
def test_compiled_operations_are_not_merged_with_other_operations(size):
  """Merged operations would round differently when a layer is recomputed."""

  @tf.function
  def run(tensor):
    return tracing.run_compiled(tf.tanh, tensor, dtype="float32")

  [chain] = toy.function_defs(run.get_concrete_function(tf.ones(size)).graph)
  assert chain.attr["_noinline"].b
  assert chain.attr["_XlaMustCompile"].b == (size > 4)


@pytest.mark.parametrize("training", [False, True])
def test_a_mask_lowers_the_score_of_a_key_by_10000(training, form):
  """The original subtracts 10000, which exceeds any real score."""
  scores = tf.constant([[0.0, 200.0], [0.0, 10_000.0]])[None, None]
  probs = fused_ops.masked_softmax(
    scores, tf.constant([[[1, 0]]]), scale=1.0, training=training
  )
  np.testing.assert_array_equal(probs[0, 0], [[1.0, 0.0], [0.5, 0.5]])


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize(
  "name", ["dropout", "norm", "attention", "cross entropy"]
)
def test_operations_on_narrow_types_compute_in_float32(name, dtype, form):
  operation, tensors, options = CALLS[name]
  upstream = tf.cast(
    _normal(*operation(*tensors, **options, training=True).shape), dtype
  )

  def run(*types):
    """Casts tensors to the types in turn; returns output and gradients."""
    inputs = tensors
    for to in types:
      inputs = [tf.cast(x, to) if _is_number(x) else x for x in inputs]
    output, gradients = _run(operation, inputs, options, upstream)
    return [output, *gradients]

  results, exact = run(dtype), run(dtype, tf.float32)
  always_float32 = name in ("attention", "cross entropy")
  assert results[0].dtype == ("float32" if always_float32 else dtype)
  assert {gradient.dtype for gradient in results[1:]} == {tf.as_dtype(dtype)}
  # The runs are compiled apart, so their float32 sums may differ in the last
  # bit. Rounded to the narrow type, they are usually equal. For the gradient,
  # the plain form stores probabilities of attention in the narrow type.
  for result, expected in zip(results, exact, strict=True):
    rounded = tf.cast(tf.cast(expected, result.dtype), tf.float32)
    result = np.array(tf.cast(result, tf.float32))
    assert np.mean(result == rounded) > 0.7
    atol = 2**-8 * np.abs(expected).max()
    np.testing.assert_allclose(result, expected, rtol=2**-7, atol=atol)


def test_gradients_of_a_model_are_equal_with_fused_and_plain_operations():
  batch = pretraining_batch()
  rates = {"hidden_dropout_prob": 0.3, "attention_probs_dropout_prob": 0.2}
  # Two of the layers share a graph.
  model = models.pretrainer(replace(CONFIG, **rates, num_hidden_layers=3))
  with tracing.mode(fused=False):
    expected = toy.loss_and_gradients(model, batch)
  with tracing.mode(fused=True):
    result = toy.loss_and_gradients(model, batch)
  assert result.pop("loss") == pytest.approx(expected.pop("loss"), rel=1e-5)
  assert_close(result, expected, rtol=1e-4, atol=1e-4)


def test_the_device_and_the_environment_select_fused_operations(monkeypatch):
  monkeypatch.delenv("BERT_FUSED_OPS", raising=False)
  monkeypatch.setattr(tracing, "_mode", tracing.Mode())
  for seen, expected in (([], True), (["GPU:0"], False)):
    monkeypatch.setattr(tf.config, "get_visible_devices", lambda _, x=seen: x)
    assert fused_ops.is_fused() == expected
  for value, expected in (("1", True), ("0", False)):
    monkeypatch.setenv("BERT_FUSED_OPS", value)
    assert fused_ops.is_fused() == expected
    with tracing.mode(fused=not expected):  # overrides the environment
      assert fused_ops.is_fused() != expected
  with pytest.raises(KeyError), tracing.mode(fused=True):
    raise KeyError
  assert not fused_ops.is_fused()  # an error ends the mode


@pytest.mark.parametrize("training", [False, True])
def test_split_heads_are_parts_of_vectors_and_have_gradients(training, form):
  with tf.GradientTape() as tape:
    tape.watch(INPUT)
    heads = fused_ops.split_heads(INPUT, 4, training)
    joined = fused_ops.join_heads(heads, training)
  for number in range(4):
    part = INPUT[:, :, 2 * number : 2 * number + 2]
    np.testing.assert_array_equal(heads[:, number], part)
  np.testing.assert_array_equal(joined, INPUT)
  gradient = tape.gradient(joined, INPUT, RESIDUAL)
  np.testing.assert_array_equal(gradient, RESIDUAL)


@pytest.mark.parametrize("other_seed", [(5, 8), (6, 7)])
def test_dropout_masks_of_two_seeds_are_independent(other_seed):
  def mask(seed):
    bits = uniform_bits((300, 1000), tf.constant(seed, tf.uint32))
    return bits.numpy() >= 2**31

  first, second = mask((5, 7)), mask(other_seed)
  for shift in ((0, 0), (0, 1), (1, 0), (3, 17)):
    for other in (second, first) if any(shift) else (second,):
      moved = np.roll(other, shift, (0, 1))
      assert np.mean(first == moved) == pytest.approx(0.5, abs=0.01)


# --- Traces: one for each signature, and one for all equal blocks ------------


def test_compiled_operations_are_traced_once_for_each_signature():
  traced, x = [], tf.ones([2, 3])

  def chain(x, y=None, *, factor):
    traced.append(factor)
    return x * factor if y is None else x * factor + y

  calls = (2.0, "float32", x), (2.0, "float16", x), (3.0, "float32", x)
  calls += (2.0, "float32", tf.ones([4])), (2.0, "float32", x, x)
  for factor, dtype, *tensors in 2 * calls:
    result = tracing.run_compiled(chain, *tensors, dtype=dtype, factor=factor)
    np.testing.assert_array_equal(result, sum(tensors[1:], factor * tensors[0]))
  assert len(traced) == len(calls)


def test_blocks_of_the_same_sizes_use_one_graph(monkeypatch):
  config = replace(toy.config(0.5), num_hidden_layers=3)
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
    with tracing.mode(fused=fused), tracing.dropout_seeds([1, 2]) as seeds:
      results.append(bert.encoder(hidden, mask, training=True))
    assert seeds.count == 3 * 3  # three dropouts in each of three layers
  for fused, plain in zip(*results, strict=True):
    np.testing.assert_allclose(fused, plain, atol=1e-6)
  # The fused form traces one block, and the plain form runs each block.
  assert traced == [bert.encoder.blocks[0], *bert.encoder.blocks]
