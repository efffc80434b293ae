"""Padding is cut off, order of length undone, and no output changes."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from data import dynamic_padding, features
from data.record_dataset import RecordDataset
from modeling import models
from storage import tfrecord
from tests.training import toy
from training import inference

T = toy.T
LENGTHS = [3, 12, 5, 4, 9, 3, 7, 2, 12, 1, 6]


def _rows():
  rng = np.random.RandomState(0)
  for number, length in enumerate(LENGTHS):
    padding = [0] * (T - length)
    yield {
      "input_ids": [*rng.randint(1, toy.V, length).tolist(), *padding],
      "input_mask": [1] * length + padding,
      "segment_ids": [*rng.randint(0, 2, length).tolist(), *padding],
      "label_ids": [number],
      "is_real_example": [1],
    }


@pytest.fixture(name="path")
def _path(tmp_path):
  path = str(tmp_path / "records")
  tfrecord.save(path, features.classification(T), _rows())
  return path


@pytest.mark.parametrize(
  ("longest", "multiple", "expected"),
  [(1, 8, 8), (8, 8, 8), (9, 8, 12), (12, 8, 12), (5, 2, 6), (0, 4, 4)],
)
def test_is_cut_to_a_multiple(longest, multiple, expected):
  mask = np.zeros((3, T), np.int32)
  mask[1, :longest] = 1
  batch = {
    "input_ids": tf.constant(mask * 7),
    "input_mask": tf.constant(mask),
    "label_ids": tf.constant([1, 2, 3]),
  }
  result = dynamic_padding.trim_padding(batch, multiple)
  assert result["input_ids"].shape == (3, expected)
  np.testing.assert_array_equal(result["input_mask"], mask[:, :expected])
  np.testing.assert_array_equal(result["label_ids"], [1, 2, 3])


def test_choices_are_cut_together():
  mask = tf.constant([[[1, 1, 0, 0], [1, 0, 0, 0]]])  # [B, C, T]
  result = dynamic_padding.trim_padding({"input_mask": mask}, multiple=1)
  assert result["input_mask"].shape == (1, 2, 2)


def test_a_hole_in_the_mask_is_no_padding():
  mask = tf.constant([[1, 0, 0, 1, 0, 0]])
  assert dynamic_padding.trim_padding({"input_mask": mask}, 1)[
    "input_mask"
  ].shape == (1, 4)


def _dataset(path, **options):
  schema = features.classification(T)
  return RecordDataset(LENGTHS, path, schema, **options)


def test_batches_are_of_similar_length(path):
  batches = list(_dataset(path, static_shapes=False).evaluation(4))
  sizes = [batch["input_mask"].numpy().sum(axis=1) for batch in batches]
  np.testing.assert_array_equal(np.concatenate(sizes), sorted(LENGTHS))
  assert [batch["input_ids"].shape for batch in batches] == [
    (4, 8),
    (4, 8),
    (3, T),
  ]


def _outputs(path, model, static_shapes):
  predict = functools.partial(inference.predict, model)
  dataset = _dataset(path, static_shapes=static_shapes)
  return dataset.outputs(4, predict)


def test_outputs_do_not_change_and_come_in_order(path):
  model = models.classifier(toy.config(), 3)
  plain, result = (_outputs(path, model, static) for static in (True, False))
  np.testing.assert_array_equal(result["label_ids"], range(len(LENGTHS)))
  np.testing.assert_allclose(result["logits"], plain["logits"], atol=1e-6)


def test_outputs_of_every_token_are_filled_up(path):
  model = models.span_labeler(toy.config())
  plain, result = (_outputs(path, model, static) for static in (True, False))
  for row, length in enumerate(LENGTHS):
    np.testing.assert_allclose(
      result["start_logits"][row, :length],
      plain["start_logits"][row, :length],
      atol=1e-6,
    )
