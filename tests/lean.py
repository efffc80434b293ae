"""Skips compilation and curves, which would take most of the time of a test.

For users, XLA compiles each fused operation and each update of a variable.
TensorFlow optimizes every graph, and a run draws its curves. All this takes
seconds for a tiny model, so tests skip it. A test gets it back with the fixture
`fused`, a program that a test calls with fused=True, and all such programs with
BERT_TEST_FUSED=1.

Users can skip fused operations, too (`tracing.mode` or BERT_FUSED_OPS), and the
optimization of graphs (options of TensorFlow). Only tests can skip the
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
  is_given = not fused and "BERT_FUSED_OPS" in os.environ
  before = tf.config.optimizer.get_experimental_options()
  options = {"disable_meta_optimizer": not fused}
  tf.config.optimizer.set_experimental_options(options)
  update = _update if fused else _update.python_function
  with (
    tracing.mode(fused=None if is_given else fused),
    pytest.MonkeyPatch.context() as patch,
  ):
    patch.setattr(Optimizer, "_changed", update)
    yield
  tf.config.optimizer.set_experimental_options(before)


@contextlib.contextmanager
def program(fused: bool):
  """Context in which a test calls a program; changes nothing if `fused`."""
  if fused:
    yield
    return
  report.draw_metrics = lambda folder: None
  gc.disable()
  with mode(fused=False):
    yield
