"""A model under XLA at a few shapes, for inference on a CPU.

Inputs are padded to the next of LENGTHS and ROWS, so that there are few
programs; each is compiled when its shape is first met. B rows, C choices, T
tokens, M masked positions.
"""

import functools
import math
import os
from dataclasses import dataclass
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from modeling import tracing, xla_islands
from modeling.bert import TextWindows
from storage import UserError
from training import inference

LENGTHS = (16, 32, 48, 64, 96, 128, 192, 256, 384, 512)
# Beyond the last, multiples of it.
ROWS = (1, 2, 4, 8, 16, 32)
# Multiplications above which compiling saves more time than it takes.
_WORTHWHILE = 1e12


def lengths(max_length: int) -> tuple[int, ...]:
  """LENGTHS that are shorter than max_length, and max_length."""
  return (*(n for n in LENGTHS if n < max_length), max_length)


@dataclass(frozen=True)
class CompiledModel:
  """A Keras model of float32 whose Transformer blocks are compiled.

  `model` maps a dict of `input_ids`, `input_mask`, `segment_ids`, [B, T] or [B,
  C, T], and perhaps `masked_lm_positions` [B, M], to a dict of outputs.
  """

  model: keras.Model

  @property
  def input(self) -> dict:
    return self.model.input

  @property
  def output(self) -> dict:
    return self.model.output

  def __call__(
    self, inputs: dict[str, tf.Tensor], training: bool = False
  ) -> dict[str, tf.Tensor]:
    """The model's outputs; those of padding are undefined."""
    del training
    rows = tf.shape(inputs["input_ids"])[0]
    padded_rows = tf.where(
      rows > ROWS[-1], -(-rows // ROWS[-1]) * ROWS[-1], _round_up(rows, ROWS)
    )
    padded = {}
    for name, value in inputs.items():
      size = tf.shape(value)[-1]
      gaps = [0] * value.shape.rank
      gaps[0] = padded_rows - rows
      gaps[-1] = _round_up(size, self._sizes(name)) - size
      padded[name] = tf.pad(value, [[0, gap] for gap in gaps])
    with tracing.mode(fused=False), xla_islands.compiled_layers():
      outputs = self.model(padded, training=False)
    return {
      name: _cut(value, rows, _axis_1(name, inputs))
      for name, value in outputs.items()
    }

  def _sizes(self, name):
    return ROWS if name == "masked_lm_positions" else lengths(self._max_length)

  @property
  def _max_length(self):
    for variable in self.model.variables:
      if variable.path.endswith("position_embeddings"):
        return variable.shape[0]
    return LENGTHS[-1]


def members(model) -> list:
  """The models of an ensemble, compiled if it is; any other model alone."""
  if isinstance(model, CompiledModel):
    return [CompiledModel(part) for part in members(model.model)]
  layers = getattr(model, "layers", ())
  return [part for part in layers if isinstance(part, keras.Model)] or [model]


def _round_up(size, sizes):
  """The least of ascending sizes that is not below a size; itself if none."""
  sizes = tf.constant(sizes)
  least = tf.reduce_min(tf.where(sizes >= size, sizes, tf.int32.max))
  return tf.where(size > sizes[-1], size, least)


def _axis_1(name, inputs):
  """Free dimension 1 of an output: T, C or M."""
  is_masked = name.startswith("masked_lm")
  name = "masked_lm_positions" if is_masked else "input_ids"
  return tf.shape(inputs[name])[1]


def _cut(value, rows, size):
  if value.shape.rank > 1 and value.shape[1] is None:
    return value[:rows, :size]
  return value[:rows]


@functools.cache
def is_faster() -> bool:
  """Returns whether compiled models are expected to be faster here.

  They are on processors without AVX-512 (benchmarks/notes.md).
  BERT_COMPILED_INFERENCE (0 or 1, else ValueError) takes precedence.
  """
  setting = os.environ.get("BERT_COMPILED_INFERENCE", "")
  if setting not in ("", "0", "1"):
    raise UserError(f"BERT_COMPILED_INFERENCE must be 0 or 1, not {setting!r}")
  if setting:
    return setting == "1"
  path = Path("/proc/cpuinfo")
  flags = path.read_text(encoding="utf-8") if path.exists() else "avx512f"
  return "avx512f" not in flags and not xla_islands.has_accelerator()


def choose(model, num_rows: int, length: int):
  """Returns the model, compiled if that saves time on all rows."""
  strategy = tf.distribute.get_strategy()
  work = num_rows * length * _encoder_size(model)
  if (
    work < _WORTHWHILE
    or strategy.num_replicas_in_sync > 1
    or not can_compile(model)
    or not is_faster()
  ):
    return model
  return CompiledModel(model)


def outputs(model, source, batch_size: int) -> dict[str, np.ndarray]:
  """Outputs for all examples of a RecordDataset, compiled if that is faster."""
  length = source.schema["input_ids"].size  # of all choices
  model = choose(model, len(source.examples), length)
  return source.outputs(batch_size, functools.partial(inference.predict, model))


def is_compiled(model, setting: bool | None) -> bool:
  """Returns whether --compile_export lets a model be exported compiled."""
  if setting is None:
    return can_compile(model) and is_faster()
  return setting


def can_compile(model) -> bool:
  """Returns whether a model computes in float32, and not in windows."""
  return all(
    layer.compute_dtype == "float32" and not isinstance(layer, TextWindows)
    for part in members(model)
    for layer in part.layers
  )


def _encoder_size(model):
  """Number of weights but for embeddings: those that each token multiplies."""
  return sum(
    math.prod(variable.shape)
    for variable in model.variables
    if "embeddings" not in variable.path
  )
