"""Stand-ins that record calls, and helpers for programs and tasks."""

import importlib
import itertools
import signal
from contextlib import nullcontext

import pytest

from runs import checks, fine_tune

__all__ = ["nullcontext"]
_FLAGS = ("do_train", "do_eval", "do_predict", "keep_best")


class Events(list):
  """A list of the calls of stand-ins; a call is a name and its arguments."""

  def stage(self, name, result=None, first=0, last=None):
    """Returns a function that appends `name` and its arguments to this list.

    `first` and `last` slice the positional arguments.
    """

    def call(*given, **named):
      self.append((name, *given[first:last], *([named] if named else [])))
      return result

    return call

  def replace(self, patch, owner, name, *options, **named):
    """Replaces a function of a module or class by a function from `stage`."""
    stand_in = self.stage(name, *options, **named)
    patch.setattr(owner, name, stand_in, raising=False)


def program(name):
  """Imports a program, then removes the program's handler of Ctrl-C."""
  handler = signal.getsignal(signal.SIGINT)
  try:
    return importlib.import_module(name)
  finally:
    signal.signal(signal.SIGINT, handler)


def task_of(name, settings):
  """Returns the task that `main` gives to fine_tune, and starts no run."""
  tasks = []
  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(fine_tune, "fine_tune", tasks.append)
    patch.setattr(checks, "labels_file", lambda settings: None)
    program(name).main(settings)
  [task] = tasks
  return task


def commands(settings):
  """Yields settings for all combinations of stages, each also as a sweep."""
  names = [name for name in _FLAGS if name in settings.to_dict()]
  for values in itertools.product([False, True], repeat=len(names)):
    changed = settings.replace(**dict(zip(names, values, strict=True)))
    yield changed
    yield changed.replace(num_seeds=2)
