"""Training without the parts that are fast for users but slow for tests.

For users, XLA compiles each fused operation and each update of a variable.
TensorFlow's optimizer goes through every graph, and a run draws its curves. All
this takes seconds for a tiny model, so tests leave it out. A switch turns
everything on: the fixture `fused` for a test, fused=True for a program that a
test calls, BERT_TEST_FUSED=1 for all such programs.

`tracing.mode`, BERT_FUSED_OPS and TensorFlow's options are public. The updates
have no switch for users, because they have to be compiled on a GPU, too.
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
  """Context for a program: as for users if `fused`, otherwise fast."""
  if fused:
    yield
    return
  report.draw_metrics = lambda folder: None
  gc.disable()
  with mode(fused=False):
    yield
