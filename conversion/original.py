"""The original's folders: checkpoint, bert_config.json, vocab.txt, labels."""

import os

from conversion import interchange
from conversion.interchange import BERT_CONFIG, VOCABULARY, CanonicalModel
from data import labels
from modeling.config import extensions
from storage import UserError, files, setting, textfiles
from training import checkpoint, checkpoint_files

# These heads have the same variables; the training program tells which one.
_HEADS = {"run_classifier": "classification", "run_ner": "tagging"}
_AVERAGE = checkpoint.AVERAGE


def read_config(prefix: str, path: str | None = None) -> dict | None:
  """Reads bert_config.json at `path` or beside a checkpoint; None without."""
  path = path or checkpoint_files.sibling_file(prefix, BERT_CONFIG)
  return None if path is None else textfiles.read_json(path)


def read(
  prefix: str, config_file: str | None = None, averaged: bool = False
) -> CanonicalModel:
  """Reads a checkpoint with its configuration, vocabulary and labels.

  The training run's flags complete the configuration. `averaged` replaces a
  variable by the moving average, if saved. Raises ValueError if the checkpoint
  is corrupt, or if `averaged` is set and the checkpoint has no averages.
  """
  reader = checkpoint.Reader(prefix)
  path = checkpoint_files.sibling_file(prefix, labels.FILE_NAME)
  entry = checkpoint_files.run_of(prefix)
  flags = entry["flags"]
  config = read_config(prefix, config_file)
  if config is not None:
    config |= extensions(flags)
  bert = CanonicalModel(
    prefix,
    config=config,
    vocabulary=checkpoint_files.sibling_file(prefix, VOCABULARY),
    labels=tuple(labels.read_file(path)) if path else (),
    lower_case=flags.get("do_lower_case"),
    multi_label=flags.get("multi_label", False),
    thresholds={
      name: path
      for name in labels.THRESHOLD_FILES
      if (path := checkpoint_files.sibling_file(prefix, name))
    },
    head=_HEADS.get(entry.get("program")),
  )
  names = sorted(reader.shapes)
  state = checkpoint.training_state(reader.shapes)
  if averaged and not any(name.endswith(_AVERAGE) for name in names):
    raise UserError(f"{prefix} has no moving averages")
  flag = setting("use_moving_averages")
  for name in names:  # a variable precedes its average
    if name == "global_step":
      bert.step = reader[name]
    elif name.endswith(_AVERAGE) and averaged:
      bert.values[name.removesuffix(_AVERAGE)] = reader[name]
    elif name.endswith(_AVERAGE):
      bert.skip(name, f"moving averages, which {flag} converts")
    elif name.startswith("run/"):
      bert.skip(name, "of the run's position in its data")
    elif name in state:
      bert.skip(name, "of the optimizer")
    else:
      bert.values[name] = reader[name]
  return bert


def write(bert: CanonicalModel, folder: str) -> str:
  """Writes a released model's files; returns the checkpoint's prefix.

  Raises ValueError, before writing, if a label cannot be a line of labels.txt.
  """
  if bert.labels:
    labels.save(bert.labels, folder)
  prefix = os.path.join(folder, interchange.CHECKPOINT)
  step = {} if bert.step is None else {"global_step": bert.step}
  checkpoint.write(prefix, bert.values | step)
  if bert.config is not None:
    interchange.write_json(os.path.join(folder, BERT_CONFIG), bert.config)
  copies = {name: bert.thresholds.get(name) for name in labels.THRESHOLD_FILES}
  copies[VOCABULARY] = bert.vocabulary
  for name, path in copies.items():
    if path:
      interchange.copy(path, os.path.join(folder, name))
  optional = copies | {BERT_CONFIG: bert.config, labels.FILE_NAME: bert.labels}
  source = os.path.dirname(bert.origin)  # keep the source's files
  if os.path.realpath(source) != os.path.realpath(folder):
    absent = [name for name, value in optional.items() if not value]
    files.remove_old(folder, *absent)
  return prefix
