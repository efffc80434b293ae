"""Stand-ins for the stages of a program: what its `main` does, in which order.

`Stages.events` lists the stages of a call, with the data that each one got.
"""

import importlib
import itertools
import signal
from contextlib import nullcontext
from types import SimpleNamespace

from absl import flags

from cli import encoder, fine_tuning, training_program

LOADED = 9  # step of the checkpoint that a run loads
IN_TRAINING = 5  # step of an evaluation in training
_FLAGS = ("do_train", "do_eval", "do_predict", "do_export", "keep_best")


def program(name):
  """The module of a program, without its flags and its handler of Ctrl-C."""
  before, handler = {*flags.FLAGS}, signal.getsignal(signal.SIGINT)
  try:
    return importlib.import_module(name)
  finally:
    signal.signal(signal.SIGINT, handler)
    for flag in {*flags.FLAGS} - before:
      delattr(flags.FLAGS, flag)


def commands(args):
  """Yields flags in all combinations of their stages, with a sweep and not."""
  names = [name for name in _FLAGS if name in args.to_dict()]
  for values in itertools.product([False, True], repeat=len(names)):
    changed = args.replace(**dict(zip(names, values, strict=True)))
    yield changed
    yield changed.replace(num_seeds=2)


class Stages:
  """Replaces the stages of fine-tuning; `events` has what they were given.

  `data` names the examples of a stage. A run loads a checkpoint of step LOADED.
  A training evaluates at the step IN_TRAINING if its flags say so.
  """

  def __init__(self, monkeypatch, data):
    self.events, self.trainings, self._models = [], [], []
    self._data, self.replace = data, monkeypatch.setattr
    self.replace(fine_tuning, "start", self._start)
    self.replace(fine_tuning, "train", self._train)
    self.replace(fine_tuning, "run_sweep", self._sweep)
    self.replace(encoder, "labels_file", lambda args: None)

  def of(self, main, args):
    """The stages of a call."""
    self.events.clear()
    self._models.clear()
    main(args)
    return [*self.events]

  def replace_task(self, task, model="make_model", results=0.5):
    """Replaces the functions of a task that programs call by this name."""

    def stage(name, result=None):
      def call(args, *given):
        assert args.attention == "of the run"
        self.add(name, *self._named(given))
        return result

      return call

    self.replace(task, "convert", self._convert)
    self.replace(task, "evaluate", stage("evaluate", results))
    self.replace(task, "predict", stage("predict"))
    self.replace(task, "served_model", "what is served")
    self.replace(task, model, self._make_model)

  def add(self, *event):
    self.events.append(event)

  def _named(self, given):
    """The data and the step among the arguments of a stage."""
    for value in given:
      if isinstance(value, SimpleNamespace):
        yield value.name
      elif isinstance(value, dict):
        assert [*value] == [part.name for part in value.values()]
        yield "+".join(value)
      elif type(value) is int:
        yield value

  def _convert(self, args, *given):
    assert args.attention == "of the run"
    rows = next(x for x in given if isinstance(x, list))
    name = self._data(rows)
    self.add("convert", name)
    more = {"sentences": rows, "questions": rows}
    return SimpleNamespace(name=name, rows=[*rows, *rows], **more)

  def _make_model(self, *_):
    self._models.append(f"model {len(self._models)}")
    return self._models[-1]

  def _start(self, args):
    # A run may change the flags, as --attention by bert_config.json.
    args = args.replace(attention="of the run")

    def load(model):
      assert [model] == self._models
      self.add("load")
      return LOADED

    return SimpleNamespace(
      args=args,
      config="config",
      strategy=SimpleNamespace(scope=nullcontext),
      load=load,
      export=lambda build: self.add("export", build),
    )

  def _train(self, run, model, objective, source, *, evaluate, **options):
    assert run.args.attention == "of the run"
    assert [model] == self._models
    self.add("train", source.name)
    self.trainings.append(options | {"objective": objective})
    if training_program.evaluates_while_training(run.args):
      self.trainings[-1]["results"] = evaluate(IN_TRAINING)

  def _sweep(self, args):
    self.add("sweep")
    return args.replace(do_train=False, keep_best=True)


def splits(args):
  """Names of the data that a command reads: in_training, train, dev, test."""
  in_training = args.do_train and (args.num_seeds > 1 or args.keep_best)
  values = args.to_dict()
  evaluates = values.get("do_eval", args.do_predict)  # run_squad predicts dev
  needed = {
    "train": args.do_train,
    "dev": evaluates or in_training,
    "test": args.do_predict and "do_eval" in values,
  }
  return [name for name, is_read in needed.items() if is_read]


def expected(args):
  """Stages of fine-tuning by the flags of a command."""
  names = splits(args)
  events = []
  if args.do_train and args.num_seeds > 1:
    events.append(("sweep",))
    args = args.replace(do_train=False)
    names = splits(args)
  events += [("convert", name) for name in names]
  if args.do_train:
    events.append(("train", "train"))
    events += [("evaluate", "dev", IN_TRAINING)] * args.keep_best
  if args.do_eval or args.do_predict:
    events.append(("load",))
  events += [("evaluate", "dev", LOADED)] * args.do_eval
  events += [("predict", "test")] * args.do_predict
  return events + [("export", "what is served")] * args.do_export
