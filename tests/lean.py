"""Training without the parts that are fast for users but slow for tests.

XLA compiles each fused operation and each update of a variable, TensorFlow's
optimizer goes through every graph, and a run ends with a picture of the curves.
All this takes seconds for a tiny model. Tests leave it out, unless a test uses
the fixture `fused` or calls a program with fused=True.
"""

import gc
import os

import tensorflow as tf

from modeling import tracing
from training import report
from training.optimization import Optimizer

fused = False
_update = Optimizer.__dict__["_changed"]


def leave_out_compilation() -> None:
  """Runs operations one by one wherever `fused` is not set."""

  def update(optimizer, *args):
    function = _update if fused else _update.python_function
    return function.__get__(optimizer, type(optimizer))(*args)

  # Processes that tests start would inherit the variable BERT_FUSED_OPS.
  if "BERT_FUSED_OPS" not in os.environ:
    tracing._mode = tracing.Mode(fused=False)
  Optimizer._changed = update


def optimize_graphs(expected: bool) -> None:
  """Turns TensorFlow's graph optimizer on or off."""
  options = {"disable_meta_optimizer": not expected}
  tf.config.optimizer.set_experimental_options(options)


def leave_out_all() -> None:
  """Prepares a process that ends with the program."""
  leave_out_compilation()
  optimize_graphs(False)
  report.draw_metrics = lambda folder: None
  gc.disable()
