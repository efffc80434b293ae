"""Twenty steps from the same records give the same numbers on all devices.

Two worker processes are in tests/test_workers.py.
"""

from contextlib import nullcontext

import keras
import numpy as np
import pytest
import tensorflow as tf

from data.pretraining.input_pipeline import PretrainingInput
from data.pretraining.instances import Masking
from tests.training import toy

STEPS, RATE = 20, 0.001
WAYS = {
  "two replicas": (2, 1, 1),
  "micro-batches": (1, 4, 1),
  "two replicas with micro-batches": (2, 2, 1),
  "ten steps at a time": (1, 1, 10),
  "two replicas, ten steps at a time": (2, 1, 10),
}


@pytest.fixture(scope="module", name="train")
def _train(tmp_path_factory):
  """Function that trains; returns losses of each run of steps and the state."""
  folder = tmp_path_factory.mktemp("same numbers")
  paths = [str(folder / f"{n}.tfrecord") for n in range(2)]
  for number, path in enumerate(paths):
    toy.write_records(path, 50, seed=number)
  source = PretrainingInput(paths, toy.T, toy.V, Masking(toy.P))
  keras.utils.set_random_seed(1)
  start = toy.train_step().model.get_weights()

  def train(replicas, accumulation, steps_to_run):
    keras.utils.set_random_seed(1)  # the order of the records depends on it
    with toy.two_replicas().scope() if replicas == 2 else nullcontext():
      step = toy.train_step(
        weights=start, accumulation_steps=accumulation, rate=RATE
      )
      strategy = tf.distribute.get_strategy()
      batches = strategy.distribute_datasets_from_function(
        lambda context: source.training(8, 3, context=context)
      )
      iterator = iter(batches)
      losses = []
      for _ in range(STEPS // steps_to_run):
        sums = step.run(iterator, tf.constant(steps_to_run))
        losses.append(sums["loss"][0].numpy())
    return losses, {name: v.numpy() for name, v in step.state.items()}

  return train


@pytest.fixture(scope="module", name="plain")
def _plain(train):
  return train(1, 1, 1)


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_the_same_numbers(train, plain, way):
  losses, state = train(*WAYS[way])
  expected, expected_state = plain
  by_stretch = np.reshape(expected, [len(losses), -1]).sum(axis=1)
  np.testing.assert_allclose(losses, by_stretch, rtol=1e-5)
  assert set(state) == set(expected_state)
  for name in (n for n in state if not n.endswith(toy.WITHOUT_EFFECT)):
    np.testing.assert_allclose(
      state[name], expected_state[name], atol=1e-5, err_msg=name
    )


@pytest.mark.slow
def test_they_learn_something(plain):
  losses, _ = plain
  assert np.mean(losses[-5:]) < np.mean(losses[:5])
