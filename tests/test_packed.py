"""Packed examples have the losses and gradients of padded examples."""

import numpy as np
import pytest
import tensorflow as tf

from data import batching
from data.batching import Packing
from modeling import losses, models
from tests.modeling.every_model import CONFIG

LENGTH = 16
PREDICTIONS = 3
SIZES = [
  [3, 16, 5, 8, 4, 2, 9, 7, 16],
  [2] * 9,  # eight fit into a row, but ROWS holds four
  [11],
]


def _tokens(sizes):
  rng = np.random.default_rng(sum(sizes))
  mask = (np.arange(LENGTH) < np.array(sizes)[:, None]).astype(np.int32)
  ids = rng.integers(1, 31, mask.shape) * mask
  segments = rng.integers(0, 2, mask.shape) * mask
  return rng, {"input_ids": ids, "input_mask": mask, "segment_ids": segments}


def _classes(sizes):
  rng, batch = _tokens(sizes)
  labels = rng.integers(0, 3, len(sizes))
  return batch | {"label_ids": labels, "is_real_example": np.ones(len(sizes))}


def _tags(sizes):
  rng, batch = _tokens(sizes)
  mask = batch["input_mask"]
  labels = rng.integers(-1, 3, mask.shape)  # -1: the token has no label
  return batch | {"label_ids": np.where(mask > 0, labels, -1)}


def _choices(sizes):
  """Returns examples of three choices."""
  rng, tokens = _tokens(sizes * 3)
  batch = {k: v.reshape(-1, 3, LENGTH) for k, v in tokens.items()}
  return batch | {"label_ids": rng.integers(0, 3, len(sizes))}


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
  types = {"masked_lm_weights": tf.float32}
  return {k: tf.constant(v, types.get(k, tf.int32)) for k, v in batch.items()}


LABELS = losses.classification()
ROWS = Packing(LENGTH)
TAG_ROWS = Packing(LENGTH, max_examples=LENGTH, token_labels=True)
# Columns: examples, model, arguments of the model, objective, rows.
CASES = {
  "classification": (_classes, "classifier", {"num_labels": 3}, LABELS, ROWS),
  "tagging": (_tags, "tagger", {"num_tags": 3}, losses.tagging(), TAG_ROWS),
  "choices": (_choices, "multiple_choice", {}, LABELS, ROWS),
  "pretraining": (_masks, "pretrainer", {}, losses.pretraining(), ROWS),
}


def _losses_and_gradients(model, objective, batch):
  """Returns the mean losses, and gradients of their sum by variable name."""
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


def _assert_close(result, expected):
  tf.nest.map_structure(
    lambda a, b: np.testing.assert_allclose(a, b, atol=2e-5), result, expected
  )


@pytest.mark.parametrize(
  ("case", "sizes", "few_shapes"),
  [
    *((case, SIZES[0], few) for case in CASES for few in (False, True)),
    *(
      (case, s, False) for case in ("tagging", "pretraining") for s in SIZES[1:]
    ),
  ],
)
def test_packing_changes_neither_losses_nor_gradients(case, sizes, few_shapes):
  make_batch, name, arguments, objective, rows = CASES[case]
  model = getattr(models, name)(CONFIG, **arguments)
  packed_model = models.packed(model)
  batch = _tensors(make_batch(sizes))
  packed = rows.pack(batch, few_shapes)
  examples = tf.size(batch["input_ids"]) // LENGTH
  assert packed["input_ids"].shape[0] <= examples + few_shapes
  expected = _losses_and_gradients(model, objective, batch)
  result = _losses_and_gradients(packed_model, objective, packed)
  _assert_close(result, expected)


def test_packed_rows_have_few_shapes_for_xla():
  shapes = set()
  model = models.packed(models.tagger(CONFIG, num_tags=3))
  # 17 examples of `size` tokens fill `number` rows. Empty rows may follow.
  for size, number in ((2, 3), (3, 4), (6, 9), (7, 9), (8, 9), (9, 17)):
    batch = _tensors(_tags([size] * 17))
    packed = TAG_ROWS.pack(batch, few_shapes=True)
    assert 0 <= packed["input_ids"].shape[0] - number < 3
    shapes.add(packed["input_ids"].shape[0])
    padding = packed["input_ids"][number:]
    assert not np.any(padding) and np.all(packed["label_ids"][number:] == -1)
  assert shapes == {3, 6, 9, 18}  # multiples of 3, an eighth of the 17 examples
  packed = TAG_ROWS.pack(_tensors(_tags([9, 10] * 8 + [2])), few_shapes=True)
  expected = _losses_and_gradients(model, losses.tagging(), packed)
  compiled = tf.function(_losses_and_gradients, jit_compile=True)
  _assert_close(compiled(model, losses.tagging(), packed), expected)


def test_long_examples_fill_rows_first():
  packed = Packing(LENGTH).pack(_tensors(_classes([4, 10, 6, 12])))
  rows = [[1] * 12 + [2] * 4, [1] * 10 + [2] * 6]
  np.testing.assert_array_equal(packed["input_mask"], rows)
  positions = [*range(10), *range(6)]
  np.testing.assert_array_equal(packed["position_ids"][1], positions)
  # Row 0 has the slots 0 to 3, row 1 has 4 to 7. The example of 4 tokens is the
  # second of row 0. The examples of 10 and 6 fill row 1.
  np.testing.assert_array_equal(packed["output_slots"], [[1], [4], [5], [0]])
  starts = [[0, 12], [0, 10]]
  np.testing.assert_array_equal(packed["output_positions"][:, :2], starts)
  shorter = Packing(8).pack(_tensors(_classes([3, 8, 5, 2])))
  assert shorter["input_ids"].shape == (3, 8)


def test_the_plan_of_packing_depends_on_the_lengths():
  # Packing's second number is row length / mean length, rounded up.
  for lengths, is_packed, expected in (
    ({12: 50, 20: 10, 90: 3}, None, Packing(96, 6)),
    ({12: 50, 20: 10, 200: 3}, None, Packing(128, 7)),  # truncated to 128
    ({12: 50, 20: 10, 90: 3}, False, None),
    ({40: 9, 64: 1}, None, Packing(128, 4)),  # rows of 64 hold one example
    ({88: 40, 96: 10}, None, None),  # nothing to gain
    ({88: 40, 96: 10}, True, Packing(96, 2)),
  ):
    rows = batching.plan(lengths, 128, 16, is_packed)
    assert rows == expected
    assert rows is None or type(rows.row_length) is int  # and not np.int64


def test_the_planned_number_of_packed_rows_is_the_actual_number():
  for sizes in SIZES:
    for rows in (Packing(LENGTH), Packing(LENGTH, max_examples=2)):
      packed = rows.pack(_tensors(_classes(sizes)))
      number = batching._num_rows(np.array(sizes), rows)
      assert packed["input_ids"].shape[0] == number
