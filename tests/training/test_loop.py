"""The training loop: plan, log lines, files; evaluation and prediction."""

import os
import signal
from functools import partial
from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf

from modeling import losses
from storage import UserError
from tests.shared import slow
from tests.training import toy
from training import loop, report
from training.run_folder import Checkpoints


@pytest.fixture(scope="module", name="traced")
def _traced():
  """A training step that several tests share, so that it is traced once."""
  return toy.train_step()


@pytest.mark.parametrize(
  ("step", "seconds", "expected"),
  [
    (0, 5.0, 1),  # one step, to measure the time per step
    (0, 1e-6, 7),  # up to the checkpoint
    (7, 1e-6, 3),  # up to the evaluation
    (98, 1e-6, 2),  # up to the end
    (14, 1.0, 5),  # five seconds of steps
    (21, 100.0, 1),  # at least one step
  ],
)
def test_a_call_runs_steps_until_a_save_or_evaluation(step, seconds, expected):
  plan = loop.Plan(100, save_every=7, max_steps=50, evaluate_every=10)
  assert plan.steps_to_run(step, seconds) == expected


def test_a_call_runs_all_steps_that_are_profiled():
  plan = loop.Plan(100, profile_first=15, profile_last=18)
  # The profile covers the steps 16 to 18. A call after 15 steps runs all.
  assert [plan.steps_to_run(n, 100.0) for n in range(14, 19)] == [1, 3, 2, 1, 1]
  assert plan.steps_to_run(13, 1e-6) == 2


def _train(tmp_path, steps=5, step=None, evaluate=None, evaluated=0, **plan):
  step, seen = step or toy.train_step(), []
  options = {"evaluate": evaluate or seen.append, "evaluated": evaluated}
  data, plan = toy.batches(steps), loop.Plan(steps, **plan)
  return toy.train(tmp_path, step, data, plan, **options), seen


def test_a_training_saves_evaluates_and_reports(tmp_path, monkeypatch):
  step, seen, save = toy.train_step(), [], Checkpoints.save

  def save_after_metrics(self, step, values):
    assert not step or report.read_metrics(str(tmp_path))[-1]["step"] == step
    return save(self, step, values)

  def evaluate(step):
    assert (tmp_path / f"model.ckpt-{step}.index").exists()
    seen.append((step, report.read_metrics(str(tmp_path))[-1]["step"]))

  monkeypatch.setattr(Checkpoints, "save", save_after_metrics)
  checkpoints, _ = _train(
    tmp_path, 5, step, evaluate, save_every=2, evaluate_every=2
  )
  # One trace is enough for any number of steps.
  assert step.train.experimental_get_tracing_count() == 1
  assert checkpoints.newest_readable().endswith("model.ckpt-5")
  steps = {path.stem for path in tmp_path.glob("*.index")}
  assert steps == {f"model.ckpt-{n}" for n in (0, 2, 4, 5)}
  assert seen == [(2, 2), (4, 4)]  # curves have a point at each evaluation
  for line in report.read_metrics(str(tmp_path)):  # the last update's rate
    rate = pytest.approx(0.01 * (1 - (line["step"] - 1) / 100))
    assert line["learning_rate"] == rate
  assert line["step"] == 5


def test_a_call_runs_about_five_seconds_of_steps(tmp_path, monkeypatch):
  calls, now, run = [], [0.0], loop.Training._run_steps

  def run_steps(self, batches, step, number):
    calls.append(number)
    now[0] += number  # a step takes a second
    return run(self, batches, step, number)

  def evaluate(step):
    now[0] += 100.0
    return step == 16

  monkeypatch.setattr(loop.time, "monotonic", lambda: now[0])
  monkeypatch.setattr(loop.Training, "_run_steps", run_steps)
  _train(tmp_path, 40, evaluate=evaluate, evaluate_every=8, save_every=40)
  assert calls == [1, 5, 2, 5, 3]
  lines = report.read_metrics(str(tmp_path))  # one for each evaluation
  assert [x["examples_per_second"] for x in lines] == [8.0, 8.0]
  # The training ended early and saved its last step.
  assert (tmp_path / "model.ckpt-16.index").exists()


def test_a_resumed_training_begins_with_a_missed_evaluation(tmp_path, traced):
  for evaluated, expected in ((1, [2, 4]), (2, [4])):
    traced.step.assign(2)
    _, seen = _train(tmp_path, 4, traced, evaluated=evaluated, evaluate_every=2)
    assert seen == expected
  traced.step.assign(2)
  _train(tmp_path, 4, traced, lambda _: True, evaluated=1, evaluate_every=2)
  assert traced.step.numpy() == 2  # the missed evaluation ended the training


def test_a_finished_training_trains_and_writes_nothing(tmp_path, log, traced):
  for done in (5, 9):
    traced.step.assign(done)
    _train(tmp_path, step=traced)
    assert f"nothing to train: step {done} is reached already" in log.text
  assert not list(tmp_path.iterdir())


def test_a_loss_that_is_not_finite_ends_the_training_before_a_save(tmp_path):
  data, plan = toy.spoiled_batches(4), loop.Plan(5, save_every=1)
  with pytest.raises(UserError, match=r"at step 4; .* is .*model\.ckpt-3\. A"):
    toy.train(tmp_path, toy.train_step(), data, plan)
  assert not (tmp_path / "model.ckpt-4.index").exists()


@pytest.mark.parametrize("steps", [5, 2])
def test_a_run_that_gets_sigterm_saves_and_exits_with_0(tmp_path, log, steps):
  before = signal.getsignal(signal.SIGTERM)
  ask_to_end = lambda _: os.kill(os.getpid(), signal.SIGTERM)  # noqa: E731
  with pytest.raises(SystemExit) as ended:
    _train(tmp_path, steps, evaluate=ask_to_end, evaluate_every=2)
  assert ended.value.code == 0
  assert "interrupted: the same command resumes from step 2" in log.text
  assert signal.getsignal(signal.SIGTERM) == before
  step = toy.train_step()
  Checkpoints(str(tmp_path)).resume(step, None)
  assert step.step.numpy() == 2


def test_a_training_saves_before_its_first_step(tmp_path, monkeypatch, traced):
  monkeypatch.setattr(Checkpoints, "save", lambda *_: 1 / 0)
  traced.step.assign(0)
  with pytest.raises(ZeroDivisionError):
    _train(tmp_path, 2, traced)
  assert traced.step.numpy() == 0


def test_a_record_that_cannot_be_read_is_reported(tmp_path):
  path = str(tmp_path / "cut.tfrecord")
  with tf.io.TFRecordWriter(path) as writer:
    writer.write(b"x" * 100)
  with open(path, "r+b") as file:
    file.truncate(60)
  broken = tf.data.TFRecordDataset(path).flat_map(lambda _: toy.batches(1))
  data = toy.batches(1).concatenate(broken)
  source = SimpleNamespace(first_corrupt=lambda: "record 7 of a")
  with pytest.raises(ValueError, match="record 7 of a"):
    toy.train(tmp_path, toy.train_step(), data, loop.Plan(5), source=source)


@pytest.mark.parametrize("other_end", [0.0, 1.0])
@pytest.mark.parametrize("end", [False, True])
def test_workers_agree_on_the_end_and_on_the_speed(monkeypatch, end, other_end):
  monkeypatch.setattr(loop.processes, "has_others", lambda: True)
  strategy = SimpleNamespace(num_replicas_in_sync=2)
  monkeypatch.setattr(tf.distribute, "get_strategy", lambda: strategy)
  other = tf.constant([other_end, 5.0])  # this worker: 3 s, mean 4 s
  monkeypatch.setattr(loop, "sum_over_replicas", lambda _, own: own + other)
  assert loop._synchronize(end, 3.0) == (end or other_end == 1.0, 4.0)


@pytest.mark.parametrize("last", [3, 30])
def test_the_requested_steps_are_profiled_in_one_file(tmp_path, last):
  plan = {"profile_first": 1, "profile_last": last}
  _train(tmp_path, **plan, profile_folder=str(tmp_path))
  assert len(list(tmp_path.glob("plugins/profile/*/*.xplane.pb"))) == 1


# --- Evaluation and prediction, on one and on two replicas --------------------


def test_metrics_are_means_over_items_and_the_loss_is_a_mean_over_batches():
  model, objective = toy.bag(), losses.pretraining()
  evaluate = partial(loop.evaluate, model, objective)
  parts = tf.data.Dataset.from_tensor_slices(toy.examples(10)).batch(4)
  single = evaluate(tf.data.Dataset.from_tensors(toy.examples(10)))
  three = evaluate(parts)
  first = evaluate(parts, max_steps=1)
  rest = evaluate(parts.skip(1))
  assert single.keys() == {*objective.names, "loss"}
  for name in objective.names:
    assert three[name] == pytest.approx(single[name], rel=1e-5)
  # The original's loss gives all batches the same weight.
  total = single["masked_lm_loss"] + single["next_sentence_loss"]
  assert single["loss"] == pytest.approx(total, rel=1e-4)
  mean = (first["loss"] + 2 * rest["loss"]) / 3
  assert three["loss"] == pytest.approx(mean, rel=1e-5)


def test_evaluation_and_prediction_have_no_dropout():
  plain, model = toy.bag(), toy.bag(dropout=0.5)
  model.set_weights(plain.get_weights())
  for infer in (
    lambda x: loop.evaluate(x, losses.pretraining(), toy.batches(2)),
    lambda x: loop.predict(x, toy.batches(2)),
  ):
    result, expected = infer(model), infer(plain)
    assert result.keys() == expected.keys()
    for name, value in expected.items():
      np.testing.assert_allclose(result[name], value, rtol=1e-5)


@pytest.mark.parametrize("batch_size", [3, *map(slow, (1, 4, 10))])
def test_two_replicas_evaluate_and_predict_like_one_replica(batch_size):
  data = tf.data.Dataset.from_tensor_slices(toy.examples(10))
  data, plain = data.batch(batch_size), toy.bag()
  results = loop.evaluate(plain, losses.pretraining(), data)
  outputs = loop.predict(plain, data)
  with toy.two_replicas().scope():
    model = toy.bag()
    model.set_weights(plain.get_weights())
    result = loop.evaluate(model, losses.pretraining(), data)
    predicted = loop.predict(model, data)
  assert result == pytest.approx(results, rel=1e-5)
  assert set(predicted) == set(outputs)
  assert len(outputs["masked_lm_logits"]) == 10
  for name, value in outputs.items():
    np.testing.assert_allclose(predicted[name], value, atol=1e-5)


def test_predict_passes_on_the_fields_that_are_not_inputs():
  def number(n, batch):
    return batch | {"position": 8 * n + tf.range(8, 0, -1, tf.int64)}

  result = loop.predict(toy.bag(), toy.batches(2).enumerate().map(number))
  assert result["position"].tolist() == [*range(8, 0, -1), *range(16, 8, -1)]


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
  for length in (3, 5, 8, 2):
    batches = [{"x": np.ones((2, length), np.int32)}]
    if evaluates:
      loop.evaluate(model, objective, batches)
    else:
      loop.predict(model, batches)
  # `evaluate` traces the first length, then any length.
  assert len(traces) == 1 + evaluates


def test_an_evaluation_without_batches_is_refused():
  with pytest.raises(ValueError, match="no batch was read"):
    loop.evaluate(toy.bag(), losses.pretraining(), [])
