"""Reads files of models and earlier runs, and compares them with settings."""

import csv
import json
import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from absl import logging

from cli.settings import COMMAND_FILE, Flag, S, flags_of, repeating
from data import tokenization, vocab
from modeling.config import SIDES, BertConfig, extensions
from runs import trained_model
from runs.settings import Network, Tokens, TrainedModel, Training
from storage import UserError, files, processes
from training import checkpoint_files

SWEEP_TABLE = "sweep.tsv"  # a row for each trial
_OF_TEXT = ("vocab_file", "do_lower_case")  # no effect without --vocab_file


def config(settings: Network) -> BertConfig:
  """Reads --bert_config_file and applies the flags that override fields.

  Raises OSError if a file cannot be read, ValueError if the configuration does
  not fit --vocab_file or --max_seq_length.
  """
  values = settings.to_dict()  # some programs lack some of the flags
  result = BertConfig.from_json(settings.bert_config_file)
  result = replace(result, **extensions(values))
  if length := values.get("max_seq_length"):
    result.check_length(length)
  if isinstance(settings, Tokens) and (path := settings.vocab_file):
    settings.tokenizer.check("cls", "sep", "unknown")
    tokens = settings.tokenizer.vocab
    vocab.check_size(tokens, result.vocab_size, path, settings.bert_config_file)
  return result


def check(settings: TrainedModel, network: BertConfig) -> None:
  """Checks flags against --init_checkpoint, for programs that do not train it.

  `network` is read from --bert_config_file. Raises ValueError if size,
  vocabulary, letter case or attention differ.
  """
  check_init_checkpoint(settings, network, trains=False)
  tokenization.warn_of_case(settings.tokenizer)


def check_init_checkpoint(
  settings: TrainedModel | Training, network: BertConfig, trains: bool
) -> None:
  """Checks --init_checkpoint, or both checkpoints of --attention=shallow.

  If the run `trains`, the checkpoint may have more layers, or another case.
  """
  start = settings.needed("init_checkpoint")
  is_pair = network.attention == "shallow" and start.count(",") == 1
  paths = start.split(",") if is_pair else [start]
  directions = SIDES if is_pair else [network.attention]
  for path, attention in zip(paths, directions, strict=False):
    trained = checkpoint_files.run_of(path)["flags"]
    if settings.vocab_file:
      case = settings.do_lower_case
      tokenization.validate_case_matches_checkpoint(case, path)
      known = trained.get("do_lower_case")
      if not trains:
        check_same("do_lower_case", case, known, path, "give that value")
      elif known not in (None, case):
        text = "%s was trained with --do_lower_case=%s: give this value, too"
        logging.warning(text, path, known)
    prefix = checkpoint_files.find_checkpoint(path)
    file = settings.bert_config_file
    trained_model.check_sizes(file, network, prefix, trains)
    if is_pair or not settings.attention:
      remedy = "give that value, or confirm this one by the flag"
      own = checkpoint_files.config_of(path).get("attention")
      known = trained.get("attention") or own
      check_same("attention", attention, known, path, remedy)
    if settings.vocab_file:
      check_vocabulary(settings, path)


def check_same(name: str, value, trained, owner: str, remedy: str) -> None:
  """Raises ValueError if `trained` is known (not None), and `value` differs."""
  if trained is not None and str(value).lower() != str(trained).lower():
    raise UserError(
      f"--{name}={value}, but {owner} was trained with --{name}={trained}: "
      f"{remedy}"
    )


def check_vocabulary(settings: Tokens, start: str) -> None:
  """Raises ValueError if --vocab_file does not fit the model in `start`.

  The fingerprint in run.json decides, or else the model's own vocabulary.
  """
  path, tokenizer = settings.needed("vocab_file"), settings.tokenizer
  entry = checkpoint_files.run_of(start)
  trained_model.check_fingerprint(entry, tokenizer, start)
  names = tokenization.names()
  own = checkpoint_files.file_of(start, "vocab_file", *names, entry=entry)
  if own and "vocabulary" not in entry:
    known = tokenization.open_tokenizer(own).vocab
    vocab.check_same(tokenizer.vocab, known, path, own)


def check_objective(objective: str | None) -> None:
  """Raises ValueError if models trained with an objective cannot fill masks."""
  if objective in SIDES:
    raise UserError(
      f"a model of --objective={objective} cannot fill masks: take one "
      "that was trained with mlm_nsp or mlm"
    )


# --- Records of earlier runs: run.json, command.flags, sweep.tsv --------------


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
  for name, value in entry["flags"].items():  # some may be unknown by now
    values[name] = tuple(value) if isinstance(value, list) else value
  values |= {name: _checked(known[name], changes[name]) for name in changes}
  for name in ("bert_config_file", "vocab_file"):
    if name not in changes:
      file = values["bert_config_file"]
      values[name] = trained_model.existing_file(folder, name, entry, file)
  if values.get("do_lower_case", True) is None:
    tokens = tokenization.open_tokenizer(values["vocab_file"]).vocab
    values["do_lower_case"] = tokenization.doubt_case(tokens, True) is None
  inputs = {"init_checkpoint", "data_dir", "train_file"}
  values |= {"output_dir": folder, **dict.fromkeys(inputs - changes.keys())}
  own = {name: values[name] for name in known}
  return kind(command=(entry.get("program") or "",), **own)


def _checked(flag: Flag, value):
  """Converts a flag's new value to its type; ValueError for a wrong value."""
  value = os.fspath(value) if isinstance(value, os.PathLike) else value
  value = tuple(value) if isinstance(value, list) else value
  if flag.kind is str and type(value) is int:  # layers=-1
    value = str(value)
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
  least = flag.minimum
  if least is not None and isinstance(value, int | float) and value < least:
    raise UserError(f"{flag.name}={value!r} is less than {least:g}")
  return value


def shared_by(settings: Training) -> dict[str, Any]:
  """Values that are equal on all workers: flags except paths; the folder."""
  paths = "_file", "_dir", "_checkpoint", "teacher"
  names = [name for name in settings.flags if not name.endswith(paths)]
  lock = os.path.join(settings.output_dir, checkpoint_files.LOCK_FILE)
  values = {f"--{name}": settings[name] for name in names}
  return values | {"the folder --output_dir": files.exists(lock)}


def save_command(settings: Training, seed: int) -> None:
  """The chief worker writes command.flags, which repeats this command."""
  if processes.is_chief():
    path = os.path.join(settings.output_dir, COMMAND_FILE)
    files.write_text(path, repeating(settings, seed))


def warn_if_changed(
  settings: Training, path: str, data: Mapping[str, str] | None = None
) -> None:
  """Warns if a checkpoint was trained with other flags or data than now.

  `path` is a checkpoint or its folder. `data` has fingerprints by file.
  """
  flags = settings.flags
  entry = checkpoint_files.run_of(path)
  trained = entry.get("data") or {}
  changes = [
    f"--{name}={value} (now {settings[name]})"
    for name, value in entry["flags"].items()
    if name in flags
    and flags[name].training
    and name not in settings.several
    and not (name in _OF_TEXT and None in (value, settings.vocab_file))
    and json.loads(json.dumps(settings[name])) != value
  ]
  others = [
    file
    for file, fingerprint in (data or {}).items()
    if trained.get(file, fingerprint) != fingerprint
  ]
  if others:
    changes.append(f"other records in {', '.join(others[:3])}")
  if changes:
    text = "%s was trained with %s; to train anew, name another --output_dir"
    logging.warning(text, path, ", ".join(changes))


def read_table(folder: str, name: str = SWEEP_TABLE) -> list[dict[str, str]]:
  """Rows of a folder's table, each a dict by column; [] without a file."""
  path = os.path.join(folder, name)
  lines = files.read_text(path).splitlines() if files.exists(path) else []
  return list(csv.DictReader(lines, delimiter="\t"))


def best_trials(output_dir: str, number: int) -> list[str]:
  """Folders of a sweep's best trials, best first.

  Raises ValueError for too few trials, or if a trial has no checkpoint. A
  single best trial needs none if `output_dir` has a copy.
  """
  trials = read_table(output_dir)
  if len(trials) < number:
    raise UserError(
      f"--ensemble={number} is more than the {len(trials)} trials in "
      f"{output_dir}/{SWEEP_TABLE}: train with more values of --learning_rate, "
      "or --num_seeds"
    )
  trials.sort(key=lambda trial: -float(trial["value"]))
  copy = checkpoint_files.read_best(output_dir) if number == 1 else {}
  folders = []
  for trial in trials[:number]:
    folder = os.path.join(output_dir, trial["run"])
    is_copied = all(str(copy.get(x)) == trial[x] for x in ("step", "value"))
    if not is_copied and not files.exists(f"{folder}/{checkpoint_files.BEST}"):
      raise UserError(
        f"{folder} has no checkpoint any more: restore it; or remove its line "
        f"from {output_dir}/{SWEEP_TABLE} to train it again; or name another "
        "--output_dir"
      )
    folders.append(folder)
  return folders
