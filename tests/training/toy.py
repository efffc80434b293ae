"""A small task with few weights and random examples."""

import functools
import json
from dataclasses import dataclass

import keras
import numpy as np
import tensorflow as tf

from data import features
from modeling import fused_ops, losses
from modeling.tracing import dropout_seeds
from storage import tfrecord
from tests import small_model
from training import loop
from training.optimization import (
  AdamWeightDecay,
  ExponentialMovingAverage,
  WarmupLinearDecay,
)
from training.report import Report
from training.run_folder import Checkpoints
from training.step import TrainStep

T, P, V = 12, 3, 29
# The key bias adds a constant to all scores of a query. Softmax cancels the
# constant, so Adam enlarges a gradient that is only rounding error.
WITHOUT_EFFECT = "attention/self/key/bias"


def config(dropout=0.0):
  return small_model.narrow(
    V, hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout
  )


class _Dropout(keras.layers.Layer):
  def __init__(self, rate):
    super().__init__()
    self.rate = rate

  def call(self, x, training=None):
    return fused_ops.dropout(x, rate=self.rate, training=training)


def bag(dropout=0.0):
  """A fast model in place of BERT, with inputs and outputs of pre-training."""
  names = (*features.TOKENS, "masked_lm_positions")
  inputs = {n: keras.Input([None], dtype="int32", name=n) for n in names}
  dense = functools.partial(keras.layers.Dense, dtype="float32")
  words = keras.layers.Embedding(V, 8, name="table")(inputs["input_ids"])
  words = _Dropout(dropout)(words)
  positions = inputs["masked_lm_positions"][..., None]
  masked = keras.ops.take_along_axis(words, positions, axis=1)
  outputs = {
    "masked_lm_logits": dense(V, name="masked_lm")(masked),
    "next_sentence_logits": dense(2, name="next_sentence")(words[:, 0]),
  }
  return keras.Model(inputs, outputs)


@functools.cache
def two_replicas():
  """Returns the strategy of two replicas that all tests of a process share.

  TensorFlow numbers the tensors that replicas exchange and remembers the shapes
  until the process ends. A new strategy would reuse the same numbers with other
  shapes.
  """
  return tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])


def examples(number, seed=0):
  """Returns pre-training examples, [number, ...], with uneven mask counts."""
  rng = np.random.RandomState(seed)

  def draw(high, width, dtype=np.int32):
    return rng.randint(0, high, (number, width)).astype(dtype)

  return {
    "input_ids": draw(V, T),
    "input_mask": np.ones((number, T), np.int32),
    "segment_ids": draw(2, T),
    "masked_lm_positions": np.sort(draw(T, P)),
    "masked_lm_ids": draw(V, P),
    "masked_lm_weights": draw(2, P, np.float32),
    "next_sentence_labels": draw(2, 1),
  }


def train_step(
  dropout=0.0, weights=None, model=None, objective=None, ema=0.0, **options
):
  """Returns a TrainStep of `model` or a new `bag`, with the given weights."""
  model = model or bag(dropout)
  if weights is not None:
    model.set_weights(weights)
  trained = {v.path: v.value for v in model.trainable_variables}
  options = {
    "batch_size": 8,
    "seed": 7,
    "dropout_seeds": dropout_seeds,
  } | options
  return TrainStep(
    model,
    objective or losses.pretraining(),
    AdamWeightDecay(trained, joins_all=options.get("jit_compile", False)),
    WarmupLinearDecay(0.01, 100),
    average=ExponentialMovingAverage(trained, ema) if ema else None,
    **options,
  )


def train_graph(step, data=None):
  """Returns the graph of a step's training, for the strategy of the scope."""
  strategy = tf.distribute.get_strategy()
  batch = iter(strategy.experimental_distribute_dataset(data or batches(1)))
  return step.train.get_concrete_function(batch, tf.constant(1)).graph


def zeros(step):
  """Returns sums of no steps; a step adds its sums."""
  return tf.zeros([len(step.names), 2])


def step_graph(step, batch):
  """Returns the graph of one update on one device."""
  return tf.function(step._step).get_concrete_function(batch, zeros(step)).graph


def values(state):
  """Returns {name: array} of variables and slots."""
  return {name: tf.convert_to_tensor(v).numpy() for name, v in state.items()}


def assert_same_state(step, expected):
  result, expected = values(step.state), values(expected.state)
  assert result.keys() == expected.keys()
  for name, value in expected.items():
    np.testing.assert_array_equal(result[name], value, name)


def train(folder, step, data, plan, evaluate=lambda step: None, **options):
  """Runs the training loop on batches; returns the folder's checkpoints.

  The training ends when `evaluate(step)` returns True.
  """
  checkpoints = Checkpoints(str(folder))
  metrics = ("loss", "masked_lm_accuracy")
  report = functools.partial(Report, str(folder), 8, logged_metrics=metrics)
  training = loop.Training(
    step, lambda context: data, checkpoints, plan, report, **options
  )
  for number in training:
    if evaluate(number):
      training.end()
  return checkpoints


def summaries(folder):
  """Yields steps and values from a folder's TensorBoard files."""
  for path in folder.glob("events*"):
    for event in tf.compat.v1.train.summary_iterator(str(path)):
      yield from ((event.step, value) for value in event.summary.value)


def flags(folder, files="*.tfrecord", dropout=0.0, **more):
  """Returns run_pretraining.py flags for records; writes bert_config.json."""
  config(dropout).to_json(str(folder / "bert_config.json"))
  return {
    "input_file": str(folder / files),
    "bert_config_file": str(folder / "bert_config.json"),
    "max_seq_length": T,
    "max_predictions_per_seq": P,
    "train_batch_size": 8,
    "learning_rate": 0.01,
  } | more


def write_records(path, number, seed=0):
  arrays = examples(number, seed)
  rows = (
    {name: values[row].ravel().tolist() for name, values in arrays.items()}
    for row in range(number)
  )
  tfrecord.save(path, features.pretraining(T, P), rows)


def loss_and_gradients(model, batch, seed=(1, 2)):
  """Returns the pre-training loss with dropout, and gradients by path."""
  variables = {v.path: v.value for v in model.trainable_variables}
  with tf.GradientTape() as tape, dropout_seeds(tf.constant(seed)):
    outputs = model({name: batch[name] for name in model.input}, training=True)
    terms = losses.pretraining().losses(outputs, batch).values()
    loss = tf.add_n([tf.reduce_sum(term) for term in terms])
  return values(tape.gradient(loss, variables) | {"loss": loss})


def function_defs(graph):
  return [graph._get_function(n).cached_definition for n in graph._functions]


def operations(graph):
  """Yields all operations in a graph and the functions inside."""
  yield from graph.get_operations()
  for name in graph._functions:
    yield from operations(graph._get_function(name).graph)


def set_worker(monkeypatch, index):
  """Sets TF_CONFIG so that this process is one of two workers."""
  cluster = {"worker": ["a:1", "b:1"]}
  config = {"cluster": cluster, "task": {"type": "worker", "index": index}}
  monkeypatch.setenv("TF_CONFIG", json.dumps(config))


def batches(steps, batch_size=8):
  """Returns a dataset with the same `steps` batches every time."""
  data = tf.data.Dataset.from_tensor_slices(examples(steps * batch_size))
  return data.batch(batch_size, drop_remainder=True)


def spoiled_batches(number):
  """Returns five batches; the loss of the batch `number` is NaN."""

  def spoil(n, batch):
    factor = tf.where(n == number - 1, np.nan, 1.0)
    return batch | {"masked_lm_weights": batch["masked_lm_weights"] * factor}

  return batches(5).enumerate().map(spoil)


@dataclass(frozen=True)
class Source:
  """Stands in for data.records.TrainingRecords, with constant batches."""

  steps: int
  files: tuple[str, ...] = ()
  packing = None

  def train_batches(self, batch_size, seed, by_length, skip, **options):
    del seed, by_length, options
    return batches(self.steps, batch_size).skip(skip // batch_size)

  def first_corrupt(self):
    """See TrainingRecords."""
