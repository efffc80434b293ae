"""Fine-tuning: best checkpoint, early stopping, teachers, order of stages."""

import itertools
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pytest
import tensorflow as tf

from modeling import losses, models
from runs import fine_tune, session
from runs.fine_tune import Task
from runs.session import Run
from serving.export import ServedModel
from tests import programs, stages
from tests.training import toy
from training import checkpoint_files, report, run_folder


@pytest.fixture(autouse=True)
def _one_device(monkeypatch):
  """Uses TensorFlow's default strategy, which has one device."""
  strategy = tf.distribute.get_strategy()
  monkeypatch.setattr(session, "make_strategy", lambda args: strategy)


def _flags(tmp_path, **changes):
  flags = {"train_batch_size": 8, "learning_rate": 0.01, "seed": 1}
  flags |= {"eval_steps": 2, "keep_best": True, "do_train": True}
  flags |= {"output_dir": str(tmp_path)}
  return programs.arguments("run_classifier", **flags | changes)


class Source(toy.Source):
  def with_packing(self, batch_size, packs):
    return self


@dataclass(frozen=True)
class Toy(Task):
  """A task whose evaluations call `look` and return the next of `results`."""

  results: Iterator[float] = ()
  look: Callable = lambda model: None
  number: int = 24

  metric = "f1"
  make_model = convert = predict = served_model = None

  def objective(self):
    return losses.pretraining()

  def num_examples(self, records):
    return self.number

  def evaluate(self, model, records):
    self.look(model)
    return {"f1": next(self.results), "loss": 0.0}


def _train(
  args, results, model=None, look=lambda model: None, examples=24, dev=()
):
  """Trains 3 * 24 / 8 = 9 steps; returns the model and the evaluated steps."""
  model = model or toy.bag()
  before = checkpoint_files.latest_checkpoint(args.output_dir)
  steps, evaluate = [], fine_tune.evaluate

  def note(task, model, data, step):
    steps.append(step)
    return evaluate(task, model, data, step)

  given = {"results": iter(results), "look": look, "number": examples}
  task = Toy(args, {"train": (), "dev": dev}, **given)
  data = {"train": Source(9), "dev": "records"}
  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(fine_tune, "evaluate", note)
    has_trained = fine_tune.train(Run(args, toy.config()), task, model, data)
  newest = checkpoint_files.latest_checkpoint(args.output_dir)
  assert has_trained == (newest != before)
  return model, steps


def test_the_last_step_is_evaluated_and_the_best_step_is_saved(tmp_path):
  tmp_path /= "best"  # named like the folder of a best checkpoint
  args = _flags(tmp_path)
  model, steps = _train(args, [0.1, 0.7, 0.7, 0.2, 0.3])
  assert steps == [2, 4, 6, 8, 9]
  known = checkpoint_files.read_best(str(tmp_path))
  assert len(known.pop("dev")) == 12
  assert known == {"metric": "f1", "value": 0.7, "step": 4, "evaluated": 9}
  # With --keep_best a run loads the best checkpoint, otherwise the newest.
  start, last = Run(args, toy.config()), _values(model)
  assert start.load(model) == 4
  assert any(np.any(last[k] != v) for k, v in _values(model).items())
  start.settings = args.replace(keep_best=False)
  (tmp_path / "run.json").unlink()  # run.json records --keep_best, too
  assert start.load(model) == 9
  for name, value in _values(model).items():
    np.testing.assert_array_equal(value, last[name])


@pytest.mark.parametrize("changed", [(0.6, 0.5), (0.5, 0.6)])
def test_another_dev_set_first_evaluates_the_old_best_model(tmp_path, changed):
  args, looked = _flags(tmp_path), []
  model, _ = _train(args, [0.1, 0.7, 0.7, 0.2, 0.3])
  last, look = _values(model), lambda model: looked.append(_values(model))
  _, steps = _train(args, changed, look=look, dev=("new",))
  assert steps == [9]
  # The old best model differs from the last one, which training restored.
  for i, is_equal in enumerate((False, True)):
    same = [np.array_equal(looked[i][name], last[name]) for name in last]
    assert all(same) == is_equal
  best = checkpoint_files.read_best(str(tmp_path))
  old, new = changed
  assert best["step"] == (4 if old > new else 9)
  assert (best["value"], best["evaluated"]) == (0.6, 9)


def test_a_worker_that_saves_nothing_has_trained(tmp_path, monkeypatch):
  monkeypatch.setattr(run_folder.Checkpoints, "save", lambda *_: "")
  args = _flags(tmp_path, keep_best=False, eval_steps=0)
  run, task = Run(args, toy.config()), Toy(args, {})
  assert fine_tune.train(run, task, toy.bag(), {"train": Source(9)})


def test_moving_averages_are_evaluated_and_saved(tmp_path):
  args = _flags(tmp_path, ema_decay=0.5, eval_steps=3)
  args = args.replace(save_checkpoints_steps=3, keep_checkpoint_max=0)
  evaluated = []
  model, steps = _train(
    args, [0.1, 0.2, 0.3], look=lambda model: evaluated.append(_values(model))
  )
  assert steps == [3, 6, 9]
  for step, values in zip(steps, evaluated, strict=True):
    reader = tf.train.load_checkpoint(str(tmp_path / f"model.ckpt-{step}"))
    for name, value in values.items():
      average = reader.get_tensor(f"{name}/ExponentialMovingAverage")
      np.testing.assert_array_equal(value, average)
    assert any(np.any(reader.get_tensor(n) != v) for n, v in values.items())
  for name, value in _values(model).items():
    np.testing.assert_array_equal(value, reader.get_tensor(name))
  Run(args, toy.config()).load(model)  # loads the best checkpoint
  for name, value in _values(model).items():
    np.testing.assert_array_equal(value, evaluated[-1][name])


def _values(model):
  return {v.path: v.numpy() for v in model.variables}


def test_a_run_does_not_train_again_after_early_stopping(tmp_path):
  args = _flags(tmp_path, early_stopping_patience=2, keep_best=False)
  assert _train(args, [0.5, 0.4, 0.5, 0.9])[1] == [2, 4, 6]
  assert (tmp_path / "model.ckpt-6.index").exists()
  assert _train(args, [])[1] == []


def test_a_run_on_a_tpu_uses_one_hot_embeddings(tmp_path):
  for changes in ({}, {"distribution_strategy": "tpu"}):
    config = Run(_flags(tmp_path, **changes), toy.config()).config
    assert config.use_one_hot_embeddings == bool(changes)


@pytest.mark.parametrize(
  ("keeps", "is_reported", "evaluated"),
  [
    # The run evaluates step 6 again, because best.json lacks it. `keep_best`
    # also evaluates the last step.
    (True, True, [6, 8, 9]),
    (False, False, [6, 8]),  # no file has the metrics of step 6
    (False, True, [8]),  # metrics.jsonl has them
  ],
)
def test_a_resumed_run_knows_its_best_checkpoint_and_its_last_evaluation(
  tmp_path, keeps, is_reported, evaluated
):
  args = _flags(tmp_path, save_checkpoints_steps=3, keep_best=keeps)
  with pytest.raises(StopIteration):
    _train(args, [0.9, 0.5])  # the run ends while evaluating at step 6
  if is_reported:
    report.add_metrics(str(tmp_path), 6, {"eval_f1": 0.6})
  assert _train(args, [0.6] * 3)[1] == evaluated
  best = checkpoint_files.read_best(str(tmp_path))
  assert best.get("step") == (2 if keeps else None)


def test_a_sweep_knows_a_changed_training_or_dev_set():
  known = {"train": ["a"], "dev": ["b"], "test": ["c"]}
  sets = (known, *(known | {split: ["d"]} for split in known))
  first, *marks = (fine_tune._fingerprint(x, "train", "dev") for x in sets)
  assert [mark != first for mark in marks] == [True, True, False]


def test_too_few_examples_are_refused_but_a_dry_run_may_have_few(tmp_path):
  args = _flags(tmp_path, num_train_epochs=0.3)
  message = r"24 examples x --num_train_epochs=0.3 make no step of --tra"
  with pytest.raises(ValueError, match=message):
    _train(args, [])
  assert _train(args.replace(dry_run=True), [0.1])[1] == [2]


def test_numbers_of_steps_are_rounded_down(tmp_path, monkeypatch):
  call = {}

  def train(model, objective, source, **options):
    call.update(options | source)
    return ()

  source = types.SimpleNamespace(with_packing=lambda *given: {"packing": given})
  args = _flags(tmp_path, num_train_epochs=2.5, keep_best=False, new_head=True)
  args = args.replace(warmup_proportion=0.11)
  start = Run(args, toy.config())
  monkeypatch.setattr(start, "train", train)
  start.training = types.SimpleNamespace(has_trained=True)

  class Packed(Toy):
    unit = "records"

  monkeypatch.setattr(type(args), "not_packed", ("new_head",))
  model, task = toy.bag(), Packed(args, {"train": "ab"}, number=109)
  fine_tune.train(start, task, model, {"train": source})
  assert call == {
    "num_train_steps": 34,  # rounds down 34.06
    "num_warmup_steps": 3,  # rounds down 3.74
    "packing": (8, False),  # new_head is in not_packed
    "new_head": True,
    "unit": "records",
    "evaluated": 0,
    "evaluate_last": False,
  }


# Columns: objective, ensemble combination, label shapes.
SPANS = {"start_positions": 5, "end_positions": 5}
STUDENTS = {
  "classifier": (losses.classification(), models.mean_probs, {"label_ids": 5}),
  "tagger": (losses.tagging(), models.mean_probs, {"label_ids": (5, 7)}),
  "span_labeler": (losses.span(), models.stack, SPANS),
}


def _student(kind):
  sizes = () if kind == "span_labeler" else (3,)
  return getattr(models, kind)(toy.config(0.5), *sizes)


@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize("kind", STUDENTS)
def test_the_loss_of_a_student_mixes_labels_with_its_teachers_outputs(
  monkeypatch, kind, size
):
  rng = np.random.RandomState(1)
  objective, combine, labels = STUDENTS[kind]
  student = _student(kind)
  teacher = models.ensemble([_student(kind) for _ in range(size)], combine)

  def restore(*given):
    kind = programs.settings_of("run_classifier")
    assert given == (kind, "old", "last entry", "build", {})
    return ServedModel(teacher, None)

  monkeypatch.setattr(fine_tune, "restore", restore)
  runs = lambda folder: ["first", "last entry"]  # noqa: E731
  monkeypatch.setattr(fine_tune.checkpoint_files, "read_runs", runs)
  args = _flags(
    "out", teacher="old", distill_weight=0.25, distill_temperature=3.0
  )
  result = fine_tune.distilled(args, objective, student, "build")
  inputs = {name: rng.randint(0, 2, (5, 7)) for name in student.input}
  batch = inputs | {n: rng.randint(0, 3, shape) for n, shape in labels.items()}
  outputs, targets = student(inputs), teacher(inputs, training=False)
  if kind == "span_labeler" and size == 2:
    targets = {name: (v[..., 0] + v[..., 1]) / 2 for name, v in targets.items()}
  soft = [objective.distance(outputs[n], targets[n], 3.0) for n in outputs]
  soft = np.mean(soft, axis=0)
  [hard] = objective.losses(outputs, batch).values()
  [value] = result.losses(outputs, batch).values()
  np.testing.assert_allclose(value, 0.75 * hard + 0.25 * soft, rtol=1e-5)
  assert np.abs(soft - hard).max() > 0.01


def test_a_frozen_layer_keeps_its_values_and_has_no_slots(tmp_path):
  model = models.pretrainer(toy.config())
  before = _values(model)
  args = _flags(tmp_path, freeze_layers="0", eval_steps=0, keep_best=False)
  _train(args, [], model)  # with these flags, nothing is evaluated
  assert not (tmp_path / "best").exists()
  for name, value in _values(model).items():
    same = np.array_equal(before[name], value)
    assert same == name.startswith("bert/encoder/"), name
  names = tf.train.load_checkpoint(str(tmp_path)).get_variable_to_shape_map()
  slots = [name for name in names if name.endswith("/adam_m")]
  assert slots
  assert not any(name.startswith("bert/encoder/") for name in slots)


# --- The order of the stages -------------------------------------------------

LOADED = 9  # the loaded checkpoint's step


@pytest.fixture(name="events")
def _events(monkeypatch):
  """Replaces the stages of fine_tune by stand-ins, which record calls."""
  events = stages.Events()

  def run(settings, config):
    return types.SimpleNamespace(
      settings=settings,
      config=config,
      scope=stages.nullcontext,
      load=events.stage("load", LOADED),
      export=lambda build: events.append(("export", build(settings))),
    )

  def train(run, task, model, data):
    events.append(("train", model, data["train"]))
    if run.settings.evaluates_while_training:
      fine_tune.evaluate(task, model, data, 5)
    return run.settings.do_export  # or any other flag

  def run_sweep(settings, examples):
    assert len(examples) == 12
    events.append(("sweep",))
    return settings.replace(do_train=False, keep_best=True)

  monkeypatch.setattr(fine_tune, "Run", run)
  monkeypatch.setattr(fine_tune.model_files, "config", lambda _: "config")
  monkeypatch.setattr(fine_tune, "train", train)
  monkeypatch.setattr(fine_tune.training_program, "run_sweep", run_sweep)
  events.replace(monkeypatch, report, "write_evaluation", first=1)
  monkeypatch.setattr(fine_tune.labels, "exist", lambda folder: False)
  return events


class Staged(Task):
  """A task that appends predictions to the list `examples[split]`."""

  metric = "f1"
  served_model = staticmethod(lambda settings: f"served {settings.program}")
  objective = None

  def is_evaluated(self):
    return not self.settings.do_predict  # or any other flag

  def make_model(self, config):
    return f"model of {config}"

  def convert(self, split):
    return f"records of {split}"

  def evaluate(self, model, records):
    return {model: records, "trains": self.settings.do_train}

  def predict(self, model, split, records, step):
    self.examples[split].append(("predict", model, split, records, step))


class PredictsDevSet(Staged):
  predicted = "dev"


@pytest.mark.parametrize(
  ("program", "kind"), [("run_ner", Staged), ("run_squad", PredictsDevSet)]
)
@pytest.mark.parametrize("is_sweep", [False, True])
def test_fine_tune_runs_each_stage_in_order_and_on_the_right_split(
  events, program, kind, is_sweep
):
  model, dev = "model of config", ("dev", "dev_mismatched")
  splits = ("train", *dev, "test")
  names = ("do_train", "do_eval", "do_predict", "do_export", "keep_best")
  for values in itertools.product([False, True], repeat=len(names)):
    flags = dict(zip(names, values, strict=True))
    train, evaluate, predict, export, keep_best = values
    if program == "run_squad":
      evaluate = flags.pop("do_eval") and False  # run_squad has no do_eval
    settings = programs.arguments(program, **flags, num_seeds=1 + is_sweep)
    events.clear()
    fine_tune.fine_tune(kind(settings, dict.fromkeys(splits, events), ["a"]))
    result = [*events]
    expected = [("sweep",)] * (train and is_sweep)

    def scores(trains, step):
      for split in dev:
        values = {model: f"records of {split}", "trains": trains}
        yield "write_evaluation", values, step, split[3:]

    if train and not is_sweep:
      expected.append(("train", model, "records of train"))
      expected += [*scores(True, 5)] * keep_best
    if evaluate or predict:
      expected.append(("load", model))
    trains = train and not is_sweep and (export or predict)
    expected += [*scores(trains, LOADED)] * evaluate
    predicted = dev if program == "run_squad" else ("test",)
    expected += [
      ("predict", model, split, f"records of {split}", LOADED)
      for split in predicted * predict
    ]
    expected += [("export", f"served {program}")] * export
    assert result == expected


@pytest.mark.parametrize("index", [0, 1])
def test_only_the_chief_predicts_and_all_workers_wait_at_the_end(
  events, monkeypatch, index
):
  toy.set_worker(monkeypatch, index)
  events.replace(monkeypatch, run_folder, "wait_for_chief")
  settings = programs.arguments("run_ner", do_eval=True, do_predict=True)
  fine_tune.fine_tune(Staged(settings, dict.fromkeys(("dev", "test"), events)))
  stages_of_chief = ["load", "write_evaluation", "predict", "wait_for_chief"]
  expected = [x for x in stages_of_chief if x != "predict" or not index]
  assert [event[0] for event in events] == expected
