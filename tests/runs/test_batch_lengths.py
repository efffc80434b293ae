"""With --jit_compile, batches have few shapes, and losses stay the same."""

from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf

from data import features
from data.batching import Packing
from data.records import RecordDataset
from modeling import models, tracing
from runs import devices
from storage import tfrecord
from tests import programs, small_model
from tests.shared import slow
from tests.training import toy

T, P = 128, toy.P
EXAMPLES, B = 32, 4


@pytest.fixture(scope="module", name="dataset")
def _dataset(tmp_path_factory):
  """Writes records of 4 to T tokens."""
  path = str(tmp_path_factory.mktemp("records") / "train.tf_record")
  rng, rows = np.random.default_rng(0), []
  schema = features.pretraining(T, P)
  for size in np.linspace(4, T, EXAMPLES).astype(int):
    mask = (np.arange(T) < size).astype(int)
    row = {name: np.zeros(f.size, int) for name, f in schema.items()}
    row |= {"input_mask": mask, "input_ids": rng.integers(1, toy.V, T) * mask}
    row["masked_lm_positions"] = np.sort(rng.choice(size, P, replace=False))
    row |= {"masked_lm_ids": rng.integers(1, toy.V, P)}
    row |= {"masked_lm_weights": np.ones(P)}
    rows.append({name: value.tolist() for name, value in row.items()})
  tfrecord.save(path, schema, rows)
  return RecordDataset(rows, path, schema, 8)


@pytest.mark.parametrize("packs", [False, slow(True)])
def test_compiled_training_gets_few_batch_shapes_and_the_same_losses(
  dataset, packs
):
  weights, results, shapes = None, [], []
  for compiled in (False, True):
    args = programs.arguments("run_pretraining", jit_compile=compiled)
    multiple = devices.length_multiple(args, T, "train")
    packing = Packing(T) if packs else None
    source = replace(dataset, multiple=multiple, packing=packing)
    batches = source.train_batches(
      B, seed=1, by_length=not packs, few_shapes=compiled
    )
    steps = EXAMPLES // B
    config = small_model.config(toy.V, max_position_embeddings=T)
    model = models.pretrainer(config) if packs else toy.bag()
    weights = weights or model.get_weights()
    model.set_weights(weights)
    model = models.packed(model) if packs else model
    step = toy.train_step(model=model, batch_size=B, jit_compile=compiled)
    shapes.append({tuple(b["input_ids"].shape) for b in batches.take(steps)})
    with tracing.mode(compiled=compiled):
      losses = step.train(iter(batches), tf.constant(steps))
    results.append({name: value.numpy() for name, value in losses.items()})
  if not packs:
    assert len(shapes[0]) > 4
    assert shapes[1] == {(B, length) for length in (32, 64, 96, 128)}
  for name, expected in results[0].items():
    np.testing.assert_allclose(results[1][name], expected, rtol=1e-4)
