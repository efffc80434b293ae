"""Worker: the pre-training step of this repository."""

from cli import program

program.shorten_imports()  # as every program does

from collections.abc import Callable

import tensorflow as tf

from benchmarks import cases
from benchmarks.worker import Answer
from modeling import losses, models
from modeling import tracing
from training import checkpoint, optimization
from training.step import TrainStep, set_dtype_policy


def make_train_step(case: cases.Case) -> TrainStep:
  """The step of a model with random weights."""
  set_dtype_policy(case.dtype)
  model = models.pretrainer(case.config)
  return TrainStep(
    model,
    losses.pretraining(),
    optimization.AdamWeightDecay(checkpoint.trainable_variables(model)),
    optimization.WarmupLinearDecay(1e-4, 10**6),
    batch_size=case.batch,
    dropout_seeds=tracing.DropoutSeeds,
  )


def make_step(case: cases.Case) -> Callable[[], float]:
  train_step = make_train_step(case)
  batches = tf.data.Dataset.from_tensors(cases.batch(case)).repeat()
  iterator, steps = iter(batches), tf.constant(1)
  return lambda: float(train_step.train(iterator, steps)["loss"][0])


def prepare(case: str, warm_up: int, recompute: bool = False) -> Answer:
  with tracing.mode(recompute=recompute):
    return cases.timed_steps(make_step(cases.Case.parse(case)), warm_up)
