"""What programs have trained, found again by the run.json of their folders."""

import os
from types import SimpleNamespace

import keras

from assembly import served
from data import files
from training import precision, run, run_record
from training.checkpoints import Checkpoints


def from_output_dir(folder: str, **changes) -> served.Served:
  """What --do_export would export of what a program has trained.

  Args:
    folder: the program's --output_dir.
    changes: flags that are to have other values than they had in training.

  Raises:
    FileNotFoundError: a file that the flags name is not there any more.
    ValueError: nothing of a known program was trained there.
  """
  starts = run_record.read(folder)
  if not starts:
    raise ValueError(
      f"no SavedModel and no {run_record.NAME} in {folder}: name a folder that "
      "--do_export wrote, or one that a program has trained in"
    )
  program = starts[-1].get("program")
  if program not in served.PROGRAMS:
    raise ValueError(
      f"{folder} was trained by {program or 'an unknown program'}, not by one "
      f"of {', '.join(served.PROGRAMS)}: name what its --do_export writes"
    )
  FLAGS = _flags_of(folder, starts[-1], changes)
  before = keras.config.dtype_policy()
  precision.set_policy(FLAGS.dtype, is_trained=False)
  try:
    found = served.PROGRAMS[program](FLAGS)
  finally:
    keras.config.set_dtype_policy(before)
  run.load(FLAGS, found.model, Checkpoints(folder))
  return found


def _flags_of(folder, start, changes):
  """The flags of a start of a run, for what needs the trained model only."""
  values = start["flags"]
  unknown = changes.keys() - values.keys()
  if unknown:
    raise ValueError(f"{start['program']} has no flag {min(unknown)}")
  for name in ("bert_config_file", "vocab_file"):
    if name in changes:
      continue
    path = values[name]
    if path and "://" not in path:
      path = os.path.join(start["directory"], path)
    if not path or not files.exists(path):
      how = f"with --{name}={path}, which is not there"
      if not path:
        how = f"without --{name}"
      raise FileNotFoundError(
        f"{folder} was trained {how}: say where it is, as in "
        f"Predictor({folder!r}, {name}=...)"
      )
    changes = changes | {name: path}
  gone = dict.fromkeys(("init_checkpoint", "data_dir", "train_file"))
  young = {"attention": None, "add_bilstm": False}  # not in every run.json
  given = young | values | gone | changes
  return SimpleNamespace(**given | {"output_dir": folder})
