"""The work of a run: steps per call, log lines, files and traces."""

import itertools
from contextlib import nullcontext
from types import SimpleNamespace
from unittest.mock import Mock

import keras
import numpy as np
import pytest
import tensorflow as tf

from modeling import losses
from training import checkpoint, loop, report
from training.run_folder import Checkpoints


def _step(clock, seconds, first):
  """Returns a training step that takes `seconds` on the fake clock."""
  calls = []

  def train(batches, number):
    del batches
    calls.append(int(number))
    clock[0] += seconds * int(number)
    return {"loss": np.array([1.0, 1.0])}

  train.get_concrete_function = lambda *_: None
  return SimpleNamespace(
    train=train,
    calls=calls,
    step=tf.constant(first),
    first_nonfinite_step=tf.constant(-1),
    learning_rate=float,
    loss_scale=None,
    state=None,
    averaged_weights=nullcontext,
  )


@pytest.fixture(name="clock")
def _clock(monkeypatch):
  now = [50.0]
  for module in (loop, report):
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
  return now


@pytest.fixture(name="train")
def _train(clock):
  """Trains stand-ins; returns steps by call, saved steps and the report."""

  def train(seconds=1.0, evaluate=lambda step: None, step=0, **plan):
    checkpoints, log = Mock(), Mock()
    stand_in = _step(clock, seconds, step)
    training = loop.Training(
      stand_in,
      lambda context: tf.data.Dataset.range(1),
      checkpoints,
      loop.Plan(**{"num_train_steps": 40} | plan),
      lambda: log,
    )
    for number in training:
      if evaluate(number):
        training.end()
    saved = [call.args[0] for call in checkpoints.save.call_args_list]
    return stand_in.calls, saved, log

  return train


@pytest.mark.parametrize(
  ("seconds", "max_steps", "expected"),
  [
    (1.0, 40, [1, *[5] * 7, 4]),
    (0.5, 8, [1, *[8] * 4, 7]),  # not ten, because of max_steps
    (7.0, 40, [1] * 40),  # at least one step
  ],
)
def test_a_call_runs_about_five_seconds_of_steps(
  train, seconds, max_steps, expected
):
  calls, saved, log = train(seconds, max_steps=max_steps)
  assert calls == expected
  assert saved == [0, 40]
  for call, step in zip(
    log.add_steps.call_args_list, itertools.accumulate(expected), strict=True
  ):
    assert (call.args[0], call.args[2]["learning_rate"][0]) == (step, step - 1)


@pytest.mark.parametrize("begin", [0, 4, 16])
def test_each_evaluation_is_left_out_of_the_speed(train, begin):
  evaluated = []
  _, saved, log = train(
    evaluate=evaluated.append, evaluate_every=8, save_every=16, step=begin
  )
  assert evaluated == [step for step in (8, 16, 24, 32, 40) if step >= begin]
  # The evaluation of an interrupted run comes before the first step.
  assert log.restart_clock.call_count == sum(x > begin for x in evaluated)
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
    for clock[0] in times:  # a step ends then
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


def test_a_checkpoint_is_verified_only_once(tmp_path, monkeypatch):
  read = []
  monkeypatch.setattr(
    checkpoint.Reader, "verify", lambda reader: read.append(reader.prefix)
  )
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


@pytest.mark.parametrize("evaluates", [False, True])
def test_batches_of_several_lengths_need_few_traces(evaluates):
  traces = []

  def trace(x):
    traces.append(x)
    return tf.cast(x, tf.float32)

  x = keras.Input((None,), dtype="int32", name="x")
  y = keras.layers.Lambda(trace, output_shape=lambda shape: shape)(x)
  model = keras.Model({"x": x}, {"y": y})
  objective = losses.Objective(
    ("loss",),
    (),
    weights=lambda batch: {"loss": tf.ones_like(batch["x"], tf.float32)},
    losses=lambda outputs, _: {"loss": outputs["y"]},
  )
  traces.clear()
  for lengths in ((3, 5, 8, 9), (2, 4), (7,)):
    batches = [{"x": np.ones((2, length), np.int32)} for length in lengths]
    if evaluates:
      loop.evaluate(model, objective, batches)
    else:
      loop.predict(model, batches)
  # `evaluate` traces the first length, then any length.
  assert len(traces) == 1 + evaluates
