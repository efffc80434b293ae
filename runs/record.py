"""Records of earlier runs: settings in run.json, and the trials of a sweep."""

import csv
import json
import math
import os
from collections.abc import Mapping
from typing import Any

from absl import logging

from cli.settings import COMMAND_FILE, Flag, S, flags_of, repeating
from modeling.config import BertConfig
from runs import trained_model
from runs.settings import Training
from storage import UserError, files
from training import checkpoint_files, processes, run_json

SWEEP_TABLE = "sweep.tsv"  # a row for each trial
_SHOWN = 3  # changed files in a warning
# Flags without effect in a run that lacks --vocab_file.
_OF_TEXT = ("vocab_file", "do_lower_case")


def from_record(
  kind: type[S], folder: str, entry: Mapping, changes: Mapping
) -> S:
  """Makes settings from an entry of run.json, without the training's inputs.

  `changes` override the entry. A flag in neither gets its default. Raises
  ValueError for an unknown name or a value of the wrong type, FileNotFoundError
  if a file of the model is gone.
  """
  known = flags_of(kind)
  if unknown := changes.keys() - known.keys():
    raise UserError(f"{entry['program']} has no flag {min(unknown)}")
  values: dict[str, Any] = {name: flag.default for name, flag in known.items()}
  values |= {k: v for k, v in entry["flags"].items() if k in known}
  values |= {name: _checked(known[name], changes[name]) for name in changes}
  for name in ("bert_config_file", "vocab_file"):
    if name not in changes:
      values[name] = _existing_file(folder, entry, name, values)
  if "do_lower_case" in entry["flags"] and "do_lower_case" not in changes:
    case = trained_model.lower_cases(entry["flags"], values["vocab_file"])
    values["do_lower_case"] = case
  for name in ("init_checkpoint", "data_dir", "train_file"):
    if name in values and name not in changes:
      values[name] = None
  values["output_dir"] = folder
  own: dict[str, Any] = {
    name: tuple(value) if isinstance(value, list) else value
    for name, value in values.items()
    if name in known
  }
  return kind(command=(entry.get("program") or "",), **own)


def _checked(flag: Flag, value):
  """Returns a flag's new value; ValueError for one that the flag refuses."""
  value = os.fspath(value) if isinstance(value, os.PathLike) else value
  value = tuple(value) if isinstance(value, list) else value
  if flag.kind is str and type(value) in (int, tuple):  # layers=[-1, -2]
    value = ",".join(map(str, value if isinstance(value, tuple) else [value]))
  if flag.kind is float and isinstance(value, int):
    value = float(value)
  if value is None:
    return value
  if not isinstance(value, flag.kind):
    kind = flag.kind.__name__
    raise UserError(f"{flag.name}={value!r} is not of type {kind}")
  if flag.choices and value not in flag.choices:
    names = ", ".join(flag.choices)
    raise UserError(f"{flag.name}={value!r} is not one of {names}")
  if isinstance(value, int | float):
    low = -math.inf if flag.minimum is None else flag.minimum
    high = math.inf if flag.maximum is None else flag.maximum
    if not low <= value <= high:
      raise UserError(f"{flag.name}={value} is not between {low} and {high}")
  return value


def _existing_file(folder, entry, name, values):
  """Finds a run's file: at the path in the entry, or in the folder."""
  path = run_json.path_of(entry, name)
  if path and files.exists(path):
    return path
  file = "vocab.txt" if name == "vocab_file" else "bert_config.json"
  other = trained_model.sibling(folder, name)
  if not (other or path) and name == "vocab_file":
    size = BertConfig.from_json(values["bert_config_file"]).vocab_size
    other = trained_model.find_vocabulary(folder, entry, size)
  if other:
    return other
  how = f"with --{name}={path}, which is gone" if path else f"without --{name}"
  raise FileNotFoundError(
    f"{folder} was trained {how}: restore the file, correct its path in "
    f"{os.path.join(folder, run_json.NAME)}, copy {file} into {folder}, or "
    f"name it, as in Predictor({folder!r}, {name}=...) or predictor.py "
    f"--{name}=..."
  )


def save_command(settings: Training, seed: int) -> None:
  """Writes command.flags, which repeats this command, on the chief worker."""
  if processes.is_chief():
    path = os.path.join(settings.output_dir, COMMAND_FILE)
    files.write_text(path, repeating(settings, seed))


def warn_if_changed(
  settings: Training, path: str, data: Mapping[str, str] | None = None
) -> None:
  """Warns if a checkpoint was trained with other flags or data than now.

  `path` is a checkpoint or its folder. `data` has fingerprints by file.
  """
  flags = flags_of(type(settings))
  entry = checkpoint_files.run_of(path)
  trained = dict(entry.get("data") or {})
  # A run's folder may be moved. Its records keep their names.
  before = os.path.join(entry["flags"].get("output_dir") or path, "")
  for file in [name for name in trained if name.startswith(before)]:
    moved = os.path.join(settings.output_dir, os.path.relpath(file, before))
    trained[moved] = trained[file]
  changes = [
    f"--{name}={value} (now {settings[name]})"
    for name, value in entry["flags"].items()
    if name in flags
    and flags[name].training
    and not (name in _OF_TEXT and None in (value, settings.vocab_file))
    and json.loads(json.dumps(settings[name])) != value
  ]
  others = [
    file
    for file, fingerprint in (data or {}).items()
    if trained.get(file, fingerprint) != fingerprint
  ]
  if others:
    more = f" and {len(others) - _SHOWN} more" * (len(others) > _SHOWN)
    changes.append(f"other records in {', '.join(others[:_SHOWN])}{more}")
  if changes:
    text = "%s was trained with %s; to train anew, name another --output_dir; "
    text += "this run continues with the new values"
    logging.warning(text, path, ", ".join(changes))


def read_trials(output_dir: str) -> list[dict[str, str]]:
  """Rows of a folder's sweep.tsv, each a dict by column; [] without a file."""
  path = os.path.join(output_dir, SWEEP_TABLE)
  if not files.exists(path):
    return []
  text = files.read_text(path)
  trials = list(csv.DictReader(text.splitlines(), delimiter="\t"))
  if not text.endswith("\n") or any(None in row.values() for row in trials):
    raise UserError(
      f"{path} is cut off: restore it, or remove it; complete trials are not "
      "trained again"
    )
  return trials


def best_trials(output_dir: str, number: int) -> list[str]:
  """Folders of a sweep's best trials, best first; ValueError if too few."""
  trials = read_trials(output_dir)
  if len(trials) < number:
    raise UserError(
      f"--ensemble={number} is more than the {len(trials)} trials in "
      f"{output_dir}/{SWEEP_TABLE}: train with more values of --learning_rate, "
      "or --num_seeds"
    )
  trials.sort(key=lambda trial: -float(trial["value"]))
  return [os.path.join(output_dir, t["run"]) for t in trials[:number]]
