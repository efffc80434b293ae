"""Training without the parts that are fast for users but slow for tests.

XLA compiles each fused operation and each update of a variable, TensorFlow's
optimizer goes through every graph, and a run ends with a picture of the curves.
All this takes seconds for a tiny model, so tests leave it out. One switch turns
it on, as it is for users: the fixture `fused` for a test, fused=True for a
program that a test calls, and BERT_TEST_FUSED=1 for all such programs.
"""

import gc
import os

import tensorflow as tf

from modeling import tracing
from training import report
from training.optimization import Optimizer

PROGRAMS_ARE_FUSED = os.environ.get("BERT_TEST_FUSED", "0") != "0"
_fused = True
_update = Optimizer.__dict__["_changed"]


def _changed(optimizer, *args):
  function = _update if _fused else _update.python_function
  return function.__get__(optimizer, type(optimizer))(*args)


def set_fused(fused: bool) -> None:
  """Compiles operations and optimizes graphs, or leaves this out."""
  global _fused
  _fused = fused
  Optimizer._changed = _changed
  is_given = not fused and "BERT_FUSED_OPS" in os.environ
  tracing._mode = tracing.Mode(fused=None if is_given else fused)
  options = {"disable_meta_optimizer": not fused}
  tf.config.optimizer.set_experimental_options(options)


def leave_out_all() -> None:
  set_fused(False)
  report.draw_metrics = lambda folder: None
  gc.disable()
