"""The work of a run: steps per call, log lines, files and traces."""

import itertools
from contextlib import nullcontext

import keras
import numpy as np
import pytest
import tensorflow as tf

from modeling import losses
from training import checkpoint, inference, loop, report
from training.run_folder import Checkpoints


class _Number:
  def __init__(self, value):
    self.value = value

  def numpy(self):
    return self.value


class _Step:
  """A training step that takes `seconds` on the fake clock."""

  loss_scale = None
  state = None
  averaged_weights = staticmethod(nullcontext)

  def __init__(self, clock, seconds=1.0):
    self.step, self.first_nonfinite_step = _Number(0), _Number(-1)
    self.calls = []

    def train(batches, number):
      del batches
      self.calls.append(int(number))
      self.step.value += int(number)
      clock[0] += seconds * int(number)
      return {"loss": np.array([1.0, 1.0])}

    train.get_concrete_function = lambda *_: None
    self.train = train

  def learning_rate(self, step):
    return float(step)


class _Saved(list):
  def save(self, step, values):
    assert values is None
    self.append(step)


class _Report:
  def __init__(self):
    self.rates, self.restarts = [], 0
    self.log = self.end = lambda: None

  def begin(self, step, last):
    pass

  def add_steps(self, step, number, sums):
    self.rates.append((step, sums["learning_rate"][0]))

  def restart_clock(self):
    self.restarts += 1


@pytest.fixture(name="clock")
def _clock(monkeypatch):
  now = [50.0]
  for module in (loop, report):
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
  return now


@pytest.fixture(name="train")
def _train(clock):
  """Trains with stand-ins; returns the calls, checkpoints and report."""

  def train(seconds=1.0, evaluate=lambda step: None, step=0, **plan):
    stand_in, saved, log = _Step(clock, seconds), _Saved(), _Report()
    stand_in.step.value = step
    training = loop.Training(
      stand_in,
      lambda context: tf.data.Dataset.range(1),
      saved,
      loop.Plan(**{"num_train_steps": 40} | plan),
      lambda: log,
    )
    for number in training:
      if evaluate(number):
        training.end()
    return stand_in.calls, saved, log

  return train


@pytest.mark.parametrize(
  ("seconds", "max_steps", "expected"),
  [
    (1.0, 1000, [1, *[5] * 7, 4]),  # five seconds of steps
    (0.5, 1000, [1, 10, 10, 10, 9]),
    (0.5, 8, [1, 8, 8, 8, 8, 7]),
    (0.01, 1000, [1, 39]),
    (7.0, 1000, [1] * 40),
  ],
)
def test_a_call_runs_about_five_seconds_of_steps(
  train, seconds, max_steps, expected
):
  calls, saved, log = train(seconds, max_steps=max_steps)
  assert calls == expected
  assert saved == [0, 40]
  steps = list(itertools.accumulate(expected))
  assert log.rates == [(step, step - 1.0) for step in steps]


@pytest.mark.parametrize("begin", [0, 4, 16])
def test_each_evaluation_is_left_out_of_the_speed(train, begin):
  evaluated = []
  _, saved, log = train(
    evaluate=evaluated.append, evaluate_every=8, save_every=16, step=begin
  )
  assert evaluated == [step for step in (8, 16, 24, 32, 40) if step >= begin]
  assert log.restarts == len(evaluated)
  due = [step for step in (16, 32, 40) if step > begin]
  assert saved == ([] if begin else [0]) + due


@pytest.mark.parametrize("last", [8, 16])
def test_a_run_that_ends_early_saves_its_last_step_once(train, last):
  calls, saved, _ = train(
    evaluate=lambda step: step == last, evaluate_every=8, save_every=16
  )
  assert sum(calls) == last
  assert saved == [0, last]


def test_a_line_is_logged_every_ten_seconds(tmp_path, clock, caplog):
  caplog.set_level("INFO", logger="absl")
  log = report.Report(str(tmp_path), 8)
  log.begin(0, 99)

  def lines():
    return [line["step"] for line in report.read_metrics(str(tmp_path))]

  def run(*times):
    for clock[0] in times:
      run.step += 1
      log.add_steps(run.step, 1, {"loss": (1, 1)})

  run.step = 0
  run(51, 59, 59.9)
  assert lines() == []
  run(60, 61, 69.9)
  assert lines() == [4]
  log.log()  # with a checkpoint, at 69.9
  assert lines() == [4, 6]
  run(70, 79.8)
  assert lines() == [4, 6]
  run(79.95)
  assert lines() == [4, 6, 9]
  log.log()  # nothing new
  log.end()
  assert lines() == [4, 6, 9]
  clock[0] = 100
  log.restart_clock()  # after an evaluation
  run(105, 109)
  assert lines() == [4, 6, 9]
  run(110)
  assert lines() == [4, 6, 9, 12]
  log.end()


def test_evaluations_of_a_run_are_in_one_file(tmp_path):
  for step in (1, 2, 3):
    report.write_evaluation(str(tmp_path), {"loss": 1.0}, step)
  assert len(list(tmp_path.glob("eval/events*"))) == 1


def test_a_checkpoint_is_verified_only_once(tmp_path, monkeypatch):
  read = []
  verify = checkpoint.Reader.verify

  def note(reader):
    read.append(reader.prefix)
    verify(reader)

  monkeypatch.setattr(checkpoint.Reader, "verify", note)
  values = {"x": tf.Variable(1.0)}
  first = Checkpoints(str(tmp_path)).save(1, values)
  checkpoints = Checkpoints(str(tmp_path))
  for _ in range(3):
    assert checkpoints.newest_readable() == first
  assert read == [first]
  second = checkpoints.save(2, values)
  for _ in range(3):
    assert checkpoints.newest_readable() == second
  assert read == [first]


@keras.saving.register_keras_serializable("tests")
class _Counted(keras.layers.Layer):
  number = 0

  def call(self, x):
    type(self).number += 1
    return keras.ops.cast(x, "float32") * 2.0

  def compute_output_spec(self, x):
    return keras.KerasTensor(x.shape, "float32")


def _model():
  inputs = {"x": keras.Input((None,), dtype="int32", name="x")}
  outputs = {"logits": _Counted()(inputs["x"])}
  return keras.Model(inputs, outputs)


def _batches(*lengths):
  return [{"x": np.ones((2, length), np.int32)} for length in lengths]


def test_predictions_of_any_lengths_are_traced_once():
  model = _model()
  _Counted.number = 0
  for lengths in ((3, 5, 8), (2,), (3, 7)):
    inference.predict(model, _batches(*lengths))
  assert _Counted.number == 1


def test_evaluations_of_several_lengths_are_traced_twice_at_most():
  model, objective = _model(), losses.tagging()
  objective = losses.replace(
    objective,
    weights=lambda batch: {"word_loss": tf.ones_like(batch["x"], tf.float32)},
    losses=lambda outputs, batch: {"word_loss": outputs["logits"]},
    metrics=lambda outputs, batch: {
      "accuracy": (outputs["logits"], outputs["logits"])
    },
  )
  _Counted.number = 0
  for lengths in ((3, 5, 8, 9), (2, 4), (7,)):
    inference.evaluate(model, objective, _batches(*lengths))
  assert _Counted.number <= 2
