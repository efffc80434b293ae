"""Stages of runs.session.Run's training and export, in order."""

from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from modeling import losses
from runs import session
from tests.runs.test_fine_tune import _flags
from tests.training import toy
from training.run_folder import Checkpoints


@pytest.fixture(name="events")
def _events(tmp_path, monkeypatch):
  """Records a run's actions, with stand-ins."""
  events = []

  def note(name, *result):
    def call(*given):
      events.append((name, *given[1:]))
      return next(iter(result), None)

    return call

  scope = SimpleNamespace(scope=nullcontext)
  step = SimpleNamespace(
    examples=SimpleNamespace(numpy=lambda: 0),
    step=SimpleNamespace(numpy=lambda: 9),
    average=None,
  )
  monkeypatch.setattr(session, "make_strategy", lambda args: scope)
  monkeypatch.setattr(session.Run, "_train_step", lambda *_: step)
  monkeypatch.setattr(session.record_scan, "load_index", note("scan"))
  monkeypatch.setattr(Checkpoints, "restore_or_set_seed", lambda *_: 7)
  for name in ("resume", "log_all"):
    monkeypatch.setattr(Checkpoints, name, note(name))
  monkeypatch.setattr(
    session.loop,
    "Training",
    lambda *_, **__: iter([events.append(("loop",))]),
  )
  monkeypatch.setattr(
    session.record,
    "warn_if_changed",
    lambda args, path: events.append(("compare", path)),
  )
  return events


@pytest.mark.parametrize("own", [None, "out/model.ckpt-5"])
@pytest.mark.parametrize("given", [None, "", "start"])
@pytest.mark.parametrize("new_head", [False, True])
@pytest.mark.parametrize("is_chief", [False, True])
def test_a_training_resumes_and_trains(
  tmp_path, monkeypatch, events, own, given, new_head, is_chief
):
  monkeypatch.setattr(Checkpoints, "newest_readable", lambda _: own)
  args = _flags(tmp_path, init_checkpoint=given)
  training = session.Run(args, toy.config())
  toy.set_worker(monkeypatch, 0 if is_chief else 1)
  source = SimpleNamespace(
    packing=None, first_corrupt=None, files=["a"], index_file="cache"
  )
  steps = training.train(
    "model",
    losses.pretraining(),
    source,
    num_train_steps=9,
    num_warmup_steps=0,
    new_head=new_head,
  )
  assert [*steps] == [None]
  resumed = events[bool(own) + is_chief]
  assert resumed[0] == "resume" and resumed[2:] == (given, new_head)
  others = [event for event in events if event is not resumed]
  assert others == [
    *[("compare", own)] * bool(own),
    *[("scan", "cache")] * is_chief,
    ("loop",),
    *[("log_all",)] * is_chief,
  ]


@pytest.mark.parametrize("is_chief", [False, True])
def test_all_workers_wait_for_the_export(tmp_path, monkeypatch, is_chief):
  """Workers wait inside the strategy's scope; only the chief writes."""
  events, scopes = [], []

  class Scope:
    """A strategy's scope."""

    def __enter__(self):
      scopes.append(self)

    def __exit__(self, *_):
      scopes.pop()

  strategy = SimpleNamespace(scope=Scope)
  monkeypatch.setattr(session, "make_strategy", lambda args: strategy)
  args = _flags(tmp_path, export_dir="new", export_format=["keras"])
  training = session.Run(args, toy.config())
  toy.set_worker(monkeypatch, 0 if is_chief else 1)
  for owner, name in (
    (session, "set_export_policy"),
    (session, "load"),
    (session.exports, "save"),
    (session.run_folder, "wait_for_chief"),
  ):
    monkeypatch.setattr(
      owner, name, lambda *_, n=name: events.append((n, len(scopes)))
    )
  served = SimpleNamespace(model="model")
  training.export(lambda args: served)
  writes = [("set_export_policy", 0), ("load", 0), ("save", 0)]
  assert events == writes * is_chief + [("wait_for_chief", 1)]
