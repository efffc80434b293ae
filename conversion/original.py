"""Folders of the original: checkpoint, bert_config.json, vocab.txt.

Output folders of programs also have labels.txt, where labels depend on the
data.
"""

import json
import os
import re

import tensorflow as tf
from absl import logging

from conversion import interchange
from conversion.formats import BERT_CONFIG, CHECKPOINT, DATA_SUFFIX, VOCABULARY
from conversion.interchange import LABELS, CanonicalModel
from storage import checkpoint_names
from training import checkpoint, run_entries, run_folder

# Heads that other programs' labels cannot tell from one another.
_HEADS = {"run_classifier": "classification", "run_ner": "tagging"}
_OPTIMIZER = re.compile(r"/adam_[mv]$|^loss_scale/")
_AVERAGE = checkpoint.average_name("")


def find(path: str) -> str:
  """Prefix of a checkpoint, as checkpoint.find.

  An output folder stands for its best checkpoint if the run saved it or if
  there is no other.

  Raises:
    FileNotFoundError: there is none; names the files that are there.
    ValueError: there are several, and no file `checkpoint`.
  """
  path = run_folder.best_or_latest(path)
  if tf.io.gfile.isdir(path):
    names = sorted(tf.io.gfile.listdir(path))
    if not any(name.endswith(".index") for name in names):
      raise FileNotFoundError(
        f"{path} has no model: it has {', '.join(names[:5]) or 'nothing'}; "
        "expected a checkpoint (.index and .data), a Hugging Face folder "
        "(config.json, model.safetensors) or a KerasHub preset (config.json, "
        "model.weights.h5)"
      )
  return checkpoint.find(path)


def read_config(prefix: str, path: str | None = None) -> dict | None:
  """Reads bert_config.json at `path`, or beside a checkpoint if there is one.

  Raises:
    FileNotFoundError: there is no file at `path`.
    ValueError: it is no JSON object.
  """
  path = path or checkpoint_names.sibling_file(prefix, BERT_CONFIG)
  if path is None:
    return None
  return interchange.read_json(path, f"--bert_config_file: no file {path}")


def read(
  prefix: str, config_file: str | None = None, averaged: bool = False
) -> CanonicalModel:
  """Reads a checkpoint with its configuration, vocabulary and labels.

  With `averaged`, values are the moving averages of variables that have one.

  Raises:
    ValueError: it is corrupt, or has no averages.
  """
  reader = checkpoint.Reader(prefix)
  bert = CanonicalModel(
    prefix,
    {},
    read_config(prefix, config_file),
    checkpoint_names.sibling_file(prefix, VOCABULARY),
    labels=_read_labels(prefix),
    head=_head_of_run(prefix),
  )
  averages = []
  for name in sorted(reader.shapes):
    if name == "global_step":
      bert.step = reader[name]
    elif name.endswith(_AVERAGE):
      averages.append(name)
    elif _OPTIMIZER.search(name):
      bert.skip(name, "of the optimizer")
    elif name.startswith("run/"):
      bert.skip(name, "of the run's position in its data")
    else:
      bert.values[name] = reader[name]
  if averaged and not averages:
    raise ValueError(f"{prefix} has no moving averages")
  for name in averages:
    if averaged:
      bert.values[name.removesuffix(_AVERAGE)] = reader[name]
    else:
      bert.skip(name, "moving averages, which --use_moving_averages converts")
  return bert


def _head_of_run(prefix):
  """Kind of head by the program that wrote the checkpoint, if it is known."""
  record = checkpoint_names.sibling_file(prefix, run_entries.NAME)
  entries = run_entries.read(os.path.dirname(record)) if record else []
  return _HEADS.get(entries[-1].get("program")) if entries else None


def _read_labels(prefix):
  path = checkpoint_names.sibling_file(prefix, LABELS)
  if path is None:
    return ()
  with tf.io.gfile.GFile(path) as file:
    return tuple(line for line in file.read().split("\n") if line)


def write(bert: CanonicalModel, folder: str) -> str:
  """Writes a released model's files; returns the checkpoint's prefix.

  The checkpoint appears when it is complete.
  """
  prefix = os.path.join(folder, CHECKPOINT)
  unfinished = os.path.join(folder, f"unfinished-{CHECKPOINT}")
  step = {} if bert.step is None else {"global_step": bert.step}
  checkpoint.write(unfinished, bert.values | step)
  for suffix in (DATA_SUFFIX, ".index"):
    tf.io.gfile.rename(unfinished + suffix, prefix + suffix, overwrite=True)
  if bert.config is not None:
    _write_text(
      os.path.join(folder, BERT_CONFIG),
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
