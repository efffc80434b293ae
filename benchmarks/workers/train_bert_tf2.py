"""Worker: the pre-training step of this repository."""

from cli import start_up

start_up.start_sooner()  # like every program

import tensorflow as tf

from benchmarks import cases
from benchmarks.worker import Answer
from modeling import losses, models, tracing
from training import optimization
from training.step import TrainStep, set_dtype_policy


def make_train_step(case: cases.Case) -> TrainStep:
  set_dtype_policy(case.dtype)
  model = models.pretrainer(case.config)
  trained = {v.path: v.value for v in model.trainable_variables}
  return TrainStep(
    model,
    losses.pretraining(),
    optimization.AdamWeightDecay(trained),
    optimization.WarmupLinearDecay(1e-4, 10**6),
    batch_size=case.batch,
    dropout_seeds=tracing.dropout_seeds,
  )


def prepare(case: str, warm_up: int) -> Answer:
  case = cases.Case.parse(case)
  batches = iter(tf.data.Dataset.from_tensors(cases.batch(case)).repeat())
  steps = tf.constant(1)
  train = make_train_step(case).train
  return cases.timed_steps(
    lambda: float(train(batches, steps)["loss"][0]), warm_up
  )
