"""Distillation: a training that follows the outputs of a teacher, too."""

from collections.abc import Callable
from typing import TypeVar

import keras
import tensorflow as tf

from modeling import losses, tracing
from runs.restore import restore
from runs.task_settings import FineTuning
from serving.export import ServedModel
from storage import UserError
from training import run_json
from training.step import batch_inputs

S = TypeVar("S", bound=FineTuning)


def distilled(
  settings: S,
  objective: losses.Objective,
  model: keras.Model,
  build: Callable[[S], ServedModel],
) -> losses.Objective:
  """Adds a loss for --teacher to an objective; `build` makes the teacher."""
  folder = settings.needed("teacher")
  entry = run_json.read(folder)[-1]
  teacher = restore(type(settings), folder, entry, build, {}).model
  ranks = {name: len(value.shape) for name, value in model.output.items()}
  expected, actual = (
    {name: m.output[name].shape[rank - 1] for name, rank in ranks.items()}
    for m in (teacher, model)
  )
  if expected != actual:
    raise UserError(
      f"--teacher={settings.teacher} has outputs of the sizes {expected}, this "
      f"model {actual}: train both with the same labels"
    )

  def outputs(batch):
    with tracing.mode(gradients=False):
      values = teacher(batch_inputs(teacher, batch), training=False)
    for name, rank in ranks.items():
      if values[name].shape.rank > rank:  # a span ensemble stacks logits
        values[name] = tf.reduce_mean(values[name], -1)
    return values

  return losses.distilled(
    objective, outputs, settings.distill_weight, settings.distill_temperature
  )
