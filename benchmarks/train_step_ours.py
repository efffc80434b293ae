"""Our training step as a worker of benchmarks/train_step.py."""

import sys
from collections.abc import Callable

import tensorflow as tf

from benchmarks import threads, train_step_data
from benchmarks.train_step_data import Case
from modeling import losses, models
from modeling.config import BertConfig
from modeling.randomness import step_seed
from training import checkpoint, optimization, precision
from training.step import TrainStep


def step(case: Case) -> Callable[[], float]:
  """What does a step and returns its loss."""
  threads.use(case.threads)
  precision.set_policy(case.dtype)
  model = models.pretrainer(
    BertConfig(
      vocab_size=train_step_data.VOCAB_SIZE,
      hidden_size=case.hidden,
      num_hidden_layers=case.layers,
      num_attention_heads=case.heads,
      intermediate_size=4 * case.hidden,
    )
  )
  trained = TrainStep(
    model,
    losses.pretraining(),
    optimization.AdamWeightDecay(checkpoint.trained(model)),
    optimization.LinearSchedule(1e-4, 10**6),
    batch_size=case.batch,
    seeded=step_seed,
  )
  batches = tf.data.Dataset.from_tensors(train_step_data.batch(case)).repeat()
  iterator, one = iter(batches), tf.constant(1)
  return lambda: float(trained.run(iterator, one)["loss"][0])


if __name__ == "__main__":
  train_step_data.serve(step(Case.parse(sys.argv[1:])))
