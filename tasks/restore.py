"""Trained models, restored from output folders by their run.json."""

import os
from importlib import import_module

import keras

from cli import encoder, run
from cli.arguments import Arguments
from modeling.config import BertConfig
from serving.export import ServedModel, Signature
from storage import files
from training import run_record
from training.run_folder import Checkpoints
from training.step import set_dtype_policy

# By the program that writes run.json; a task is imported when it is needed.
TASKS = {
  "run_classifier": "tasks.classification.task",
  "run_squad": "tasks.squad.task",
  "run_ner": "tasks.ner.task",
  "run_swag": "tasks.multiple_choice.task",
  "run_pretraining": "tasks.pretraining.task",
}


def signature(folder: str, **changes) -> Signature:
  """The signature that an export of `from_output_dir` would have."""
  return Signature.of(from_output_dir(folder, **changes))


def from_output_dir(folder: str, **changes) -> ServedModel:
  """Restores the model that --do_export would export.

  Args:
    folder: the program's --output_dir.
    changes: values of flags that differ from those of training.

  Raises:
    FileNotFoundError: a file that the flags name does not exist any more.
    ValueError: no known program has trained there, or a flag in `changes` is
      unknown or of the wrong type.
  """
  entries = run_record.read(folder)
  if not entries:
    raise ValueError(
      f"no SavedModel and no {run_record.NAME} in {folder}: name a folder "
      "that --do_export wrote, or one that a program has trained in"
    )
  program = entries[-1].get("program")
  if program not in TASKS:
    raise ValueError(
      f"{folder} was trained by {program or 'an unknown program'}, not by one "
      f"of {', '.join(TASKS)}: name what its --do_export writes"
    )
  args = _arguments(folder, entries[-1], changes)
  encoder.check_vocabulary(
    args, BertConfig.from_json(args.bert_config_file).vocab_size
  )
  before = keras.config.dtype_policy()
  set_dtype_policy(args.dtype, is_trained=False)
  try:
    result = import_module(TASKS[program]).served_model(args)
  finally:
    keras.config.set_dtype_policy(before)
  run.load(args, result.model, Checkpoints(folder))
  return result


def _checked_value(name, value, trained):
  """Returns a flag's new value; ValueError if its type is not the old one's."""
  if isinstance(value, os.PathLike):
    value = os.fspath(value)
  flag_type = type(trained)
  if None in (value, trained) or isinstance(value, flag_type):
    return value
  if flag_type is float and isinstance(value, int):
    return float(value)
  raise ValueError(f"{name}={value!r} is not of type {flag_type.__name__}")


def _arguments(folder, entry, changes):
  """Flags of an entry of run.json, without those for training data."""
  values = entry["flags"]
  unknown = changes.keys() - values.keys()
  if unknown:
    raise ValueError(f"{entry['program']} has no flag {min(unknown)}")
  changes = {
    name: _checked_value(name, value, values[name])
    for name, value in changes.items()
  }
  for name in ("bert_config_file", "vocab_file"):
    if name not in changes:
      changes[name] = _existing_file(folder, entry, name)
  training_data = dict.fromkeys(("init_checkpoint", "data_dir", "train_file"))
  # Flags that older entries lack.
  defaults = {"attention": None, "add_bilstm": False, "export_top_k": 0}
  defaults |= {"multi_label": False, "class_weights": []}
  flag_values = defaults | values | training_data | changes
  return Arguments(**flag_values | {"output_dir": folder})


def _existing_file(folder, entry, name):
  """Path that a flag of an entry names; FileNotFoundError if there is none."""
  path = entry["flags"][name]
  if path and "://" not in path:
    path = os.path.join(entry["directory"], path)
  if path and files.exists(path):
    return path
  state = f"with --{name}={path}, which is not there"
  raise FileNotFoundError(
    f"{folder} was trained {state if path else f'without --{name}'}: say where "
    f"it is, as in Predictor({folder!r}, {name}=...)"
  )
