"""Folders of the original: checkpoint, bert_config.json, vocab.txt.

A released model's folder, or the output folder of a program: that has
labels.txt beside its checkpoints where a task's labels are not fixed.
"""

import json
import os
import re

import tensorflow as tf
from absl import logging

from training import best, checkpoint
from training.conversion import interchange
from training.conversion.interchange import LABELS, Bert

PREFIX = "bert_model.ckpt"
CONFIG = "bert_config.json"
VOCABULARY = "vocab.txt"
_DATA = ".data-00000-of-00001"
_OPTIMIZER = re.compile(r"/adam_[mv]$|^loss_scale/")
_AVERAGE = "/ExponentialMovingAverage"
_RUN = re.compile(r"^run/")


def find(path: str) -> str:
  """The prefix of the checkpoint that a path means.

  Args:
    path: as in checkpoint.find. Of a program's output folder it is the best
      checkpoint, where the run kept that or has no other; of a folder without
      the file `checkpoint` the only one in it.

  Raises:
    FileNotFoundError: there is none; says what is there instead.
    ValueError: there are several, and nothing says which.
  """
  path = best.choose(path)
  if not tf.io.gfile.isdir(path) or tf.train.latest_checkpoint(path):
    return checkpoint.find(path)
  names = sorted(tf.io.gfile.listdir(path))
  found = [name[: -len(".index")] for name in names if name.endswith(".index")]
  if not found:
    raise FileNotFoundError(
      f"{path} has no model: it has {', '.join(names[:5]) or 'nothing'}; "
      "expected a checkpoint (.index and .data), a Hugging Face folder "
      "(config.json, model.safetensors) or a KerasHub preset (config.json, "
      "model.weights.h5)"
    )
  if len(found) > 1:
    raise ValueError(
      f"{path} has the checkpoints {', '.join(found)}: name one of them, as in "
      f"{os.path.join(path, found[0])}"
    )
  return os.path.join(path, found[0])


def read_config(prefix: str, path: str | None = None) -> dict | None:
  """A bert_config.json's values.

  Args:
    prefix: of the checkpoint, where it is looked for.
    path: the file, if it is elsewhere.

  Returns:
    The values; None if there is no such file beside the checkpoint.

  Raises:
    ValueError: it is no JSON object.
  """
  path = path or checkpoint.beside(prefix, CONFIG)
  if path is None:
    return None
  try:
    with tf.io.gfile.GFile(path) as file:
      values = json.loads(file.read())
  except tf.errors.NotFoundError:
    raise FileNotFoundError(f"--bert_config_file: no file {path}") from None
  except ValueError as error:
    raise ValueError(f"{path}: {error}") from None
  if not isinstance(values, dict):
    raise ValueError(f"{path}: expected a JSON object")
  return values


def read(
  prefix: str, config_file: str | None = None, averaged: bool = False
) -> Bert:
  """Reads a checkpoint and what lies beside it.

  Args:
    prefix: of a checkpoint by name.
    config_file: its bert_config.json, if that is elsewhere.
    averaged: take the moving averages of the variables that have one.

  Raises:
    ValueError: it is damaged, or has no averages although they are wanted.
  """
  reader = checkpoint.Reader(prefix)
  bert = Bert(
    prefix,
    {},
    read_config(prefix, config_file),
    checkpoint.beside(prefix, VOCABULARY),
    labels=_read_labels(prefix),
  )
  averages = []
  for name in sorted(reader.shapes):
    if name == "global_step":
      bert.step = reader[name]
    elif name.endswith(_AVERAGE):
      averages.append(name)
    elif _OPTIMIZER.search(name):
      bert.leave(name, "of the optimizer")
    elif _RUN.search(name):
      bert.leave(name, "where the run was in its data")
    else:
      bert.values[name] = reader[name]
  if averaged and not averages:
    raise ValueError(f"{prefix} has no moving averages")
  for name in averages:
    if averaged:
      bert.values[name.removesuffix(_AVERAGE)] = reader[name]
    else:
      bert.leave(
        name, "moving averages, which --use_moving_averages would take"
      )
  return bert


def _read_labels(prefix):
  path = checkpoint.beside(prefix, LABELS)
  if path is None:
    return ()
  with tf.io.gfile.GFile(path) as file:
    return tuple(line for line in file.read().split("\n") if line)


def targets(folder: str) -> list[str]:
  """Paths that `write` would make."""
  names = (f"{PREFIX}.index", f"{PREFIX}{_DATA}", CONFIG, VOCABULARY, LABELS)
  return [os.path.join(folder, name) for name in names]


def write(bert: Bert, folder: str) -> str:
  """Writes a released model's files; returns the checkpoint's prefix.

  The checkpoint appears whole or not at all.
  """
  prefix = os.path.join(folder, PREFIX)
  unfinished = os.path.join(folder, f"unfinished-{PREFIX}")
  step = {} if bert.step is None else {"global_step": bert.step}
  checkpoint.write(unfinished, bert.values | step)
  for suffix in (_DATA, ".index"):
    tf.io.gfile.rename(unfinished + suffix, prefix + suffix, overwrite=True)
  if bert.config is not None:
    _write_text(
      os.path.join(folder, CONFIG),
      json.dumps(bert.config, indent=2, sort_keys=True) + "\n",
    )
  if bert.labels:
    text = "".join(f"{label}\n" for label in bert.labels)
    _write_text(os.path.join(folder, LABELS), text)
  if bert.vocabulary:
    interchange.copy(bert.vocabulary, os.path.join(folder, VOCABULARY))
  else:
    logging.warning("%s has no vocabulary: --vocab_file names it", bert.origin)
  return prefix


def _write_text(path, text):
  with tf.io.gfile.GFile(path, "w") as file:
    file.write(text)
