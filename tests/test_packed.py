"""Examples that share rows have the losses and gradients of padded ones."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from data import batching
from data.batching import Packing
from modeling import losses, models
from tests.modeling.every_model import CONFIG

LENGTH, PREDICTIONS = 16, 3
SIZES = [
  [3, 16, 5, 8, 4, 2, 9, 7, 16],
  [2] * 9,  # more than a row takes, though they are short
  [16, 16],
  [11],
]


def _tokens(sizes):
  rng = np.random.default_rng(sum(sizes))
  shape = len(sizes), LENGTH
  mask = (np.arange(LENGTH) < np.array(sizes)[:, None]).astype(np.int32)
  return rng, {
    "input_ids": rng.integers(1, 31, shape) * mask,
    "input_mask": mask,
    "segment_ids": rng.integers(0, 2, shape) * mask,
  }


def _classes(sizes):
  rng, batch = _tokens(sizes)
  return batch | {
    "label_ids": rng.integers(0, 3, len(sizes)),
    "is_real_example": np.ones(len(sizes)),
  }


def _tags(sizes):
  rng, batch = _tokens(sizes)
  mask = batch["input_mask"]
  labels = rng.integers(-1, 3, mask.shape)  # some tokens have none
  return batch | {"label_ids": np.where(mask > 0, labels, -1)}


def _choices(sizes):
  """Examples of three choices."""
  rng, tokens = _tokens(sizes)
  batch = {k: v.reshape(-1, 3, LENGTH) for k, v in tokens.items()}
  return batch | {"label_ids": rng.integers(0, 3, len(sizes) // 3)}


def _masks(sizes):
  rng, batch = _tokens(sizes)
  shape = len(sizes), PREDICTIONS
  return batch | {
    "masked_lm_positions": rng.integers(0, np.array(sizes)[:, None], shape),
    "masked_lm_ids": rng.integers(1, 31, shape),
    "masked_lm_weights": rng.integers(0, 2, shape),
    "next_sentence_labels": rng.integers(0, 2, (len(sizes), 1)),
  }


def _tensors(batch):
  weights = {"masked_lm_weights": tf.float32}
  return {
    name: tf.constant(value, weights.get(name, tf.int32))
    for name, value in batch.items()
  }


CASES = {
  "classification": (
    *(_classes, functools.partial(models.classifier, num_labels=3)),
    *(losses.classification(), Packing(LENGTH), models.packed_classifier),
  ),
  "tagging": (
    *(_tags, functools.partial(models.tagger, num_tags=3)),
    losses.tagging(),
    Packing(LENGTH, max_examples=LENGTH, token_labels=True),
    models.packed_tagger,
  ),
  "choices": (
    *(lambda sizes: _choices(sizes * 3), models.multiple_choice),
    *(losses.classification(), Packing(LENGTH), models.packed_multiple_choice),
  ),
  "pretraining": (
    *(_masks, models.pretrainer, losses.pretraining(), Packing(LENGTH)),
    models.packed_pretrainer,
  ),
  "masked LM": (
    *(_masks, functools.partial(models.pretrainer, next_sentence=False)),
    *(losses.pretraining(next_sentence=False), Packing(LENGTH)),
    models.packed_pretrainer,
  ),
}


def _losses_and_gradients(model, objective, batch):
  """Mean of each loss, and gradients of their sum, by names of variables."""
  inputs = {name: batch[name] for name in model.input}
  with tf.GradientTape() as tape:
    values = objective.losses(model(inputs, training=False), batch)
    weights = objective.weights(batch)
    means = {
      name: tf.reduce_sum(values[name] * weights[name])
      / tf.maximum(tf.reduce_sum(weights[name]), 1.0)
      for name in values
    }
    loss = tf.add_n(list(means.values()))
  variables = {v.path: v.value for v in model.trainable_variables}
  gradients = tape.gradient(loss, variables)
  return means, {k: tf.convert_to_tensor(g) for k, g in gradients.items()}


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("case", CASES)
def test_losses_and_gradients_are_those_of_padded_rows(case, sizes):
  make_batch, make_model, objective, rows, make_packed = CASES[case]
  batch, model = _tensors(make_batch(sizes)), make_model(CONFIG)
  packed = rows.pack(batch)
  examples = tf.size(batch["input_ids"]) // LENGTH
  assert packed["input_ids"].shape[0] <= examples
  expected = _losses_and_gradients(model, objective, batch)
  packed_model = make_packed(model)
  assert {v.path for v in packed_model.trainable_weights} == {
    v.path for v in model.trainable_weights
  }
  result = _losses_and_gradients(packed_model, objective, packed)
  for values, others in zip(result, expected, strict=True):
    tf.nest.map_structure(
      lambda a, b: np.testing.assert_allclose(a, b, atol=2e-5), values, others
    )


def test_long_examples_fill_rows_first():
  packed = Packing(LENGTH).pack(_tensors(_classes([4, 10, 6, 12])))
  rows = [[1] * 12 + [2] * 4, [1] * 10 + [2] * 6]
  np.testing.assert_array_equal(packed["input_mask"], rows)
  np.testing.assert_array_equal(
    packed["position_ids"][1], [*range(10), *range(6)]
  )
  np.testing.assert_array_equal(packed["output_slots"], [[1], [4], [5], [0]])
  np.testing.assert_array_equal(
    packed["output_positions"][:, :2], [[0, 12], [0, 10]]
  )
  shorter = Packing(8).pack(_tensors(_classes([3, 8, 5, 2])))
  assert shorter["input_ids"].shape == (3, 8)


@pytest.mark.parametrize(
  ("lengths", "is_packed", "expected"),
  [
    ({12: 50, 20: 10, 90: 3}, None, Packing(96, 6)),
    ({12: 50, 20: 10, 200: 3}, None, Packing(128, 7)),  # truncated to 128
    ({12: 50, 20: 10, 90: 3}, False, None),
    ({40: 9, 64: 1}, None, Packing(128, 4)),  # rows of 64 would have one each
    ({88: 40, 96: 10}, None, None),  # nothing to gain
    ({88: 40, 96: 10}, True, Packing(96, 2)),
  ],
)
def test_packing_is_planned_by_the_lengths(lengths, is_packed, expected):
  rows = batching.plan(lengths, 128, 16, is_packed)
  assert rows == expected
  assert rows is None or type(rows.row_length) is int  # not of NumPy


def test_number_of_rows_is_that_of_packing():
  for sizes in SIZES:
    for rows in (Packing(LENGTH), Packing(LENGTH, max_examples=2)):
      packed = rows.pack(_tensors(_classes(sizes)))
      number = batching._num_rows(np.array(sizes), rows)
      assert packed["input_ids"].shape[0] == number
