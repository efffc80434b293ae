"""Examples that share rows have the losses and gradients of padded ones."""

import numpy as np
import pytest
import tensorflow as tf

from cli import checks
from cli.arguments import Arguments
from data import records
from modeling import losses, models
from tests.modeling.every_model import CONFIG

LENGTH = 16


def _batch(sizes):
  rng = np.random.default_rng(sum(sizes))
  shape = len(sizes), LENGTH
  mask = (np.arange(LENGTH) < np.array(sizes)[:, None]).astype(np.int32)
  batch = {
    "input_ids": rng.integers(1, 31, shape) * mask,
    "input_mask": mask,
    "segment_ids": rng.integers(0, 2, shape) * mask,
    "label_ids": rng.integers(0, 3, len(sizes)),
    "is_real_example": np.ones(len(sizes)),
  }
  return {name: tf.constant(v, tf.int32) for name, v in batch.items()}


def _loss_and_gradients(model, batch):
  objective = losses.classification()
  inputs = {name: batch[name] for name in model.input}
  with tf.GradientTape() as tape:
    outputs = model(inputs, training=False)
    [(name, values)] = objective.losses(outputs, batch).items()
    loss = tf.reduce_sum(values * objective.weights(batch)[name])
  variables = {v.path: v.value for v in model.trainable_variables}
  gradients = tape.gradient(loss, variables)
  return values, {k: tf.convert_to_tensor(g) for k, g in gradients.items()}


@pytest.mark.parametrize(
  "sizes",
  [
    [3, 16, 5, 8, 4, 2, 9, 7, 16],
    [2] * 9,  # more than a row takes, though they are short
    [16, 16],
    [11],
  ],
)
def test_losses_and_gradients_are_those_of_padded_rows(sizes):
  batch, model = _batch(sizes), models.classifier(CONFIG, 3)
  packed = records.pack(batch)
  assert packed["input_ids"].shape[0] <= len(sizes)
  expected = _loss_and_gradients(model, batch)
  packed_model = models.packed_classifier(model)
  assert [v.path for v in packed_model.weights] == [
    v.path for v in model.weights
  ]
  result = _loss_and_gradients(packed_model, packed)
  for values, others in zip(result, expected, strict=True):
    tf.nest.map_structure(
      lambda a, b: np.testing.assert_allclose(a, b, atol=2e-5), values, others
    )


def test_long_examples_fill_rows_first():
  packed = records.pack(_batch([4, 10, 6, 12]))
  rows = [[1] * 12 + [2] * 4, [1] * 10 + [2] * 6]
  np.testing.assert_array_equal(packed["input_mask"], rows)
  np.testing.assert_array_equal(
    packed["position_ids"][1], [*range(10), *range(6)]
  )
  np.testing.assert_array_equal(packed["example_slots"], [1, 4, 5, 0])
  np.testing.assert_array_equal(
    packed["cls_positions"][:, :2], [[0, 12], [0, 10]]
  )


@pytest.mark.parametrize("flag", ["add_bilstm", "group_by_length"])
def test_what_contradicts_packing_is_named(flag):
  values = dict.fromkeys(
    ("add_bilstm", "group_by_length", "jit_compile"), False
  )
  values |= {"pack_examples": True, "gradient_accumulation_steps": 1}
  values |= {"long_text": "cut", "use_tpu": False}
  values |= {"distribution_strategy": None}
  checks.packing(Arguments(**values), "bidirectional")
  with pytest.raises(ValueError, match=f"does not go with --{flag}"):
    checks.packing(Arguments(**values | {flag: True}), "bidirectional")
  with pytest.raises(ValueError, match="attention 'shallow'"):
    checks.packing(Arguments(**values), "shallow")
