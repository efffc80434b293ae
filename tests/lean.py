"""Skips compilation and curves, which would take most of the time of tests.

For users, XLA compiles each fused operation and each update of a variable.
TensorFlow optimizes every graph, and a run draws its curves. All this takes
seconds for a tiny model, so tests skip it. A test that needs compilation uses
the fixture `fused`, or calls a program with fused=True. BERT_TEST_FUSED=1 turns
everything on for all programs that tests call.

Users can skip fused operations, too, with `tracing.mode` or BERT_FUSED_OPS, and
the optimization of graphs with options of TensorFlow. Only tests can skip the
compilation of updates, because a GPU needs compiled updates.
"""

import contextlib
import gc
import os

import pytest
import tensorflow as tf

from modeling import tracing
from training import report
from training.optimization import Optimizer

PROGRAMS_ARE_FUSED = os.environ.get("BERT_TEST_FUSED", "0") != "0"
_update = Optimizer.__dict__["_changed"]


@contextlib.contextmanager
def mode(fused: bool):
  """Context that compiles operations and optimizes graphs only if `fused`."""
  user_decides = not fused and "BERT_FUSED_OPS" in os.environ
  before = tf.config.optimizer.get_experimental_options()
  options = {"disable_meta_optimizer": not fused}
  tf.config.optimizer.set_experimental_options(options)
  update = _update if fused else _update.python_function
  with (
    tracing.mode(fused=None if user_decides else fused),
    pytest.MonkeyPatch.context() as patch,
  ):
    patch.setattr(Optimizer, "_changed", update)
    yield
  tf.config.optimizer.set_experimental_options(before)


@contextlib.contextmanager
def program(fused: bool):
  """Context for a program that a test calls; changes nothing if `fused`."""
  if fused:
    yield
    return
  report.draw_metrics = lambda folder: None
  gc.disable()
  with mode(fused=False):
    yield
